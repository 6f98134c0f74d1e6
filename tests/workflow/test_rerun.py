"""What runs again and what goes on: stubs in place of the scripts, real Snakemake runs."""

import os
import shutil
import signal
import time

import pytest

from diffdraft.prereg import ledger, registry
from tests.workflow import launch
from tests.workflow.conftest import command, planned, snakemake


@pytest.fixture
def project(stub_clone, tmp_path):
    folder = tmp_path / "project"
    shutil.copytree(stub_clone, folder)
    return folder


def wait_for(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


def test_file_times_rerun_nothing_and_changed_code_what_depends_on_it(project):
    first = snakemake(project)
    assert first.returncode == 0, first.stdout
    assert (project / "build/tiny/logs/time_paired.txt").read_text() == "started\n1 1 1\n"
    for path in project.rglob("*"):
        if path.is_file() and not {"build", ".snakemake"} & set(path.parts):
            path.touch()
    judge = project / "workflow_scripts" / "judge.py"
    judge.write_text(judge.read_text() + "# a comment\n")
    assert "Nothing to be done" in snakemake(project, "--dry-run").stdout
    judge.write_text(judge.read_text() + "x = 1\n")
    assert planned(snakemake(project, "--dry-run").stdout) == {
        "judge": 2,
        "compare_verdicts": 2,
        "write_report": 1,
        "all": 1,
        "total": 6,
    }


def test_an_amendment_reruns_its_study_and_a_line_on_another_study_nothing(project):
    prereg = project / "prereg"
    for path in (prereg / ledger.LEDGER, *prereg.glob("*.amendment-*.yaml")):
        path.unlink(missing_ok=True)
    first = snakemake(project)
    assert first.returncode == 0, first.stdout
    toy = prereg / "toy.yaml"
    toy.write_text("a plan\n")
    ledger.append(prereg, "freeze", toy)
    assert "Nothing to be done" in snakemake(project, "--dry-run").stdout

    (prereg / "paired_timing.amendment-1.yaml").write_text("changes\n")
    timing = {
        "time_paired": 1,
        "analyse_paired_timing": 1,
        "judge": 1,
        "compare_verdicts": 1,
        "write_report": 1,
        "all": 1,
    }
    assert planned(snakemake(project, "--dry-run").stdout) == {**timing, "total": 6}

    ledger.append(prereg, "freeze", prereg / "rprm.yaml")
    both = planned(snakemake(project, "--dry-run").stdout)
    assert both["extract_positions"] == 2 and both["stage0"] == 1 and "train_target" not in both


def test_one_run_at_a_time_and_after_kill_9_the_same_command_goes_on(project, tmp_path):
    target = "build/tiny/target/model.safetensors"
    run = launch.start(project, command(target), {"STUB_SLOW": "train_target"}, tmp_path / "out")
    try:
        wait_for(lambda: list(project.glob("build/tiny/work/target-*/checkpoint")))
        second = snakemake(project, "published")
        assert second.returncode == 3
        assert "error: build/.lock: another run works in this folder" in second.stdout
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.join()

    done = snakemake(project, target)
    assert done.returncode == 0, done.stdout
    assert (project / "build/tiny/logs/train_target.txt").read_text() == "resumed\n"
    assert (project / target).read_text() == "train_target"
    assert not list(project.glob("build/tiny/work/*")), "a finished step leaves no checkpoint"


def test_act_4s_runs_one_run_after_the_other_and_nothing_of_the_other_studies(project):
    """Committed evidence is set aside: this is what a first measurement plans."""
    shutil.rmtree(project / "results/tiny/act4s", ignore_errors=True)
    jobs = {
        "build_corpus": 1,
        "train_target": 1,
        "train_adapter": 1,
        "train_shuffled_adapter": 1,
        "time_act4s": 5,
        "time_act4s_confidence": 1,
        "time_act4s_cost": 1,
        "run_act4s_precision": 1,
        "analyse_act4s": 1,
        "judge": 1,
        "published_act4s": 1,
        "write_act4s_report": 1,
        "act4s": 1,
    }
    planned_jobs = planned(snakemake(project, "--dry-run", "act4s").stdout)
    assert planned_jobs == {**jobs, "total": sum(jobs.values())}
    done = snakemake(project, "act4s")
    assert done.returncode == 0, done.stdout
    written = {path.name for path in (project / "build/tiny/measured/act4s").iterdir()}
    assert set(registry.STUDIES["act4s"].files()) <= written
    commands = (project / "build/tiny/logs/act4s_adaptive.txt").read_text()
    assert "started" in commands


def test_a_study_without_a_plan_for_the_profile_starts_no_job(project):
    text = (project / "config/profiles/tiny.yaml").read_text()
    profile = project / "config/profiles/unplanned.yaml"
    profile.write_text(text.replace("name: tiny", "name: unplanned", 1))
    done = snakemake(project, "--config", "profile=unplanned", "--", "act4s")
    assert done.returncode != 0
    assert "prereg/act4s.yaml: samples.unplanned: found nothing" in done.stdout
    assert not list(project.glob("build/unplanned/*"))
