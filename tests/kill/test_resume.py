"""A step that was killed and started again ends as one that was not: real processes, real kills."""

import json
import signal

import pandas as pd
import pytest

from diffdraft.config import load_profile
from diffdraft.measure.stage0 import run_stage0
from diffdraft.prereg.schema import load_plan
from tests.kill.steps import Study, contents, run, run_here, stop
from tests.workflow.outputs import OUTPUTS

CHECKPOINT = "[!.]*.safetensors"  # whole: the name of one that is being written begins with a dot
PIECE = "0*.json"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("study"))


def training(study, script, out, work):
    """The command line of a training script."""
    options = {"corpus": study.corpus, "out": out, "work": work}
    if script == "train_adapter":
        options |= {"tag": "primary", "target": study.target}
    return study.command(script, **options)


@pytest.mark.parametrize("script", ["train_target", "train_adapter"])
def test_training_killed_and_started_again_ends_the_same(study, tmp_path, script):
    work = tmp_path / "work"
    killed = training(study, script, tmp_path / "killed", work)
    status, _ = stop(killed, work, CHECKPOINT, signal.SIGKILL)
    assert status == -signal.SIGKILL, "it ended before it was killed"
    assert not (tmp_path / "killed").exists()
    # At least the first checkpoint's steps are not made again.
    assert "step 2/" not in run(killed)
    run_here(training(study, script, tmp_path / "whole", tmp_path / "other"))
    one, whole = contents(tmp_path / "killed"), contents(tmp_path / "whole")
    assert set(whole) == OUTPUTS[script]
    # When and by which command is all that may differ.
    records = [json.loads(folder.pop("training.json")) for folder in (one, whole)]
    for record in records:
        record.pop("provenance", None)
    assert records[0] == records[1]
    assert one == whole


def test_interrupt_is_one_line_and_its_own_status(study, tmp_path):
    work = tmp_path / "work"
    command = training(study, "train_target", tmp_path / "out", work)
    status, printed = stop(command, work, CHECKPOINT, signal.SIGINT)
    assert status == 130, printed
    last = printed.splitlines()[-1]
    assert last == "interrupted; the same command again goes on from here"
    assert "Traceback" not in printed


def test_extraction_killed_and_started_again_ends_the_same(study, tmp_path):
    stage0 = tmp_path / "stage0.json"
    adapters = [study.folder / "primary", study.folder / "replication"]
    profile, plan = load_profile(study.profile), load_plan(study.rprm)
    run_stage0(profile, plan, study.corpus, study.target, adapters, stage0)

    def command(name):
        return study.command(
            "extract_positions",
            plan=study.rprm,
            tag="primary",
            corpus=study.corpus,
            target=study.target,
            adapter=study.adapter,
            stage0=stage0,
            out=tmp_path / name / "positions.csv",
            meta=tmp_path / name / "meta.json",
            work=tmp_path / f"work-{name}",
        )

    status, _ = stop(command("killed"), tmp_path / "work-killed", PIECE, signal.SIGKILL)
    assert status == -signal.SIGKILL, "it ended before it was killed"
    assert not (tmp_path / "killed").exists()
    assert "kept from an earlier run" in run(command("killed"))
    run_here(command("whole"))
    killed, whole = contents(tmp_path / "killed"), contents(tmp_path / "whole")
    assert killed["positions.csv"] == whole["positions.csv"]
    assert len(json.loads(killed["meta.json"])) == len(json.loads(whole["meta.json"]))


def test_timing_killed_and_started_again_keeps_what_was_timed(study, tmp_path):
    work = tmp_path / "work"
    command = study.command(
        "time_paired",
        plan=study.timing,
        workload=study.workload,
        target=study.target,
        adapter=study.adapter,
        timing=tmp_path / "timing.csv",
        cycles=tmp_path / "cycles.csv",
        meta=tmp_path / "meta.json",
        work=work,
    )
    status, _ = stop(command, work, PIECE, signal.SIGKILL)
    assert status == -signal.SIGKILL, "it ended before it was killed"
    assert not (tmp_path / "timing.csv").exists()
    kept = [json.loads(path.read_text()) for path in sorted(work.glob(PIECE))]
    printed = run(command)
    assert printed.count("kept from an earlier run") == len(kept) < 27

    timing = pd.read_csv(tmp_path / "timing.csv")
    assert timing["prompt_id"].nunique() == 27
    assert timing.groupby("prompt_id").size().nunique() == 1
    rows = pd.DataFrame([row for piece in kept for row in piece["timing"]])[timing.columns]
    same = timing[timing["prompt_id"].isin(rows["prompt_id"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, rows, check_dtype=False, check_exact=True)
