"""Comparing two verdicts, and the gate that a verdict opens or keeps shut."""

import copy
import json
import shutil

import pytest
import yaml

import compare as compare_script
import judge as judge_script
import stage2_gate as gate_script
from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg import ledger, registry
from diffdraft.prereg.gate import open_gate
from diffdraft.prereg.reproduce import compare, differences, rederive
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import Verdict, judge
from diffdraft.rows import write_rows
from tests.synthetic import position_table, timing_tables

from .examples import PREREG, passing_metrics, plan_dict


def with_value(metrics, scope, metric, value, statistic="value"):
    metrics = copy.deepcopy(metrics)
    metrics["scopes"][scope][metric][statistic] = value
    return metrics


@pytest.fixture
def metrics(rprm):
    return passing_metrics(rprm)


def test_equal_verdicts(rprm, metrics):
    found = compare(judge(rprm, metrics), judge(rprm, metrics))
    assert found["equal"]
    assert found["same_outcomes"]
    assert found["same_numbers"]
    assert found["same_plan"]
    assert differences(found) == []
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("field", "value"),
    [("outcome", False), ("statistic", "ci_low"), ("bound", 0.0500001), ("operator", ">")],
)
def test_what_is_no_measured_number_is_compared_exactly(rprm, metrics, field, value):
    ours = judge(rprm, metrics)
    theirs = ours.to_json()
    criterion = theirs["scopes"]["primary.FULL"]["criteria"][2]
    assert criterion["parts"][0][field] != value
    criterion["parts"][0][field] = value
    found = compare(ours, Verdict.model_validate(theirs))
    assert not found["same_outcomes"]
    assert criterion["id"] in differences(found)[0]


def test_numbers_that_differ_in_the_last_places_are_the_same(rprm, metrics):
    ours = judge(rprm, metrics)
    close = with_value(metrics, "primary.FULL", "auroc_gain_4_over_1", 0.07 + 5e-6)
    assert compare(ours, judge(rprm, close))["same_numbers"]
    far = with_value(metrics, "primary.FULL", "auroc_gain_4_over_1", 0.07 + 5e-5)
    found = compare(ours, judge(rprm, far))
    assert found["equal"]
    assert not found["same_numbers"]
    assert "c3_auroc_gain_over_progress" in differences(found)[0]
    nothing = with_value(metrics, "primary.FULL", "cells_signed", None, "ci_low")
    nothing["scopes"]["primary.FULL"]["cells_signed"]["ci_high"] = 7.0
    assert not compare(ours, judge(rprm, nothing))["same_numbers"]


def test_an_outcome_that_moves_no_verdict_is_told(rprm, metrics):
    failing = with_value(metrics, "primary.FULL", "auroc_gain_4_over_1", 0.0)
    ours = judge(rprm, failing)
    theirs = judge(rprm, with_value(failing, "primary.FULL", "cells_signed", 1))
    found = compare(ours, theirs)
    assert found["equal"]
    assert not found["same_outcomes"]
    rows = {row["id"]: row["equal"] for row in found["scopes"]["primary.FULL"]["criteria"]}
    assert [name for name, equal in rows.items() if not equal] == ["c2_within_cell"]


def test_a_reported_scope_that_differs_makes_verdicts_differ(rprm, metrics):
    theirs = judge(rprm, with_value(metrics, "replication.FULL", "cells_signed", 1))
    found = compare(judge(rprm, metrics), theirs)
    assert not found["equal"]
    assert found["scopes"]["replication.FULL"] | {"criteria": []} == {
        **{"ours": "STRONG PASS", "theirs": "FAIL", "equal": False, "criteria": []},
    }
    assert found["scopes"]["primary.FULL"]["equal"]


def run_script(script, *arguments) -> int:
    return script.main(script.parser().parse_args([str(a) for a in arguments])) or 0


@pytest.fixture
def folder(tmp_path, metrics):
    """A plan, metrics of two adapters, and the verdict that judge.py makes of them."""
    shutil.copy(PREREG / "rprm.yaml", tmp_path)
    for tag in ("primary", "replication"):
        scopes = {name: v for name, v in metrics["scopes"].items() if name.startswith(tag)}
        files.write_json(tmp_path / f"metrics_{tag}.json", {"study": "rprm", "scopes": scopes})
    judge_with(tmp_path)
    return tmp_path


def judge_with(folder) -> None:
    metrics = [folder / f"metrics_{tag}.json" for tag in ("primary", "replication")]
    plan, out = folder / "rprm.yaml", folder / "verdict.json"
    run_script(judge_script, "--plan", plan, "--metrics", *metrics, "--out", out)


def fail_c3(folder) -> None:
    path = folder / "metrics_primary.json"
    metrics = files.read_json(path)
    metrics["scopes"]["primary.FULL"]["auroc_gain_4_over_1"]["value"] = 0.01
    files.write_json(path, metrics)
    judge_with(folder)


def test_compare_script_takes_files_and_folders_and_tells_by_its_exit(folder):
    other = folder / "other"
    other.mkdir()
    shutil.copy(folder / "verdict.json", other)
    arguments = ["--ours", folder / "verdict.json", "--theirs", other, "--out", folder / "c.json"]
    assert run_script(compare_script, *arguments) == 0
    assert files.read_json(folder / "c.json")["equal"] is True
    fail_c3(folder)
    assert run_script(compare_script, *arguments) == 1
    found = files.read_json(folder / "c.json")
    assert found["equal"] is False
    assert found["stop"] == {"ours": "NOT RUN", "theirs": "OPEN"}


def test_the_gate_is_shut_by_a_fail_and_by_a_weak_pass(folder):
    fail_c3(folder)
    with pytest.raises(UserError, match="rprm_stage2 is NOT RUN; expected STRONG PASS"):
        run_script(
            gate_script,
            *("--plan", folder / "rprm.yaml", "--verdict", folder / "verdict.json"),
            *("--out", folder / "gate.json"),
        )
    assert not (folder / "gate.json").exists()
    value = files.read_json(folder / "verdict.json")
    value["carried"]["verdict"] = "WEAK PASS"
    files.write_json(folder / "verdict.json", value)
    with pytest.raises(UserError, match="WEAK PASS"):
        open_gate(folder / "rprm.yaml", folder / "verdict.json")


def test_an_open_gate_demands_a_frozen_plan_of_the_next_stage(folder):
    plan, verdict = folder / "rprm.yaml", folder / "verdict.json"
    with pytest.raises(UserError, match=r"rprm_stage2\.yaml: file: found nothing there"):
        open_gate(plan, verdict)
    stage2 = folder / "rprm_stage2.yaml"
    stage2.write_text("study: rprm_stage2\n")
    with pytest.raises(UserError, match="no line for this file"):
        open_gate(plan, verdict)
    ledger.append(folder, "freeze", stage2)
    arguments = ["--plan", plan, "--verdict", verdict, "--out", folder / "gate.json"]
    assert run_script(gate_script, *arguments) == 0
    record = files.read_json(folder / "gate.json")
    assert record["status"] == "OPEN"
    assert record["stage_plan"] == {
        "file": "rprm_stage2.yaml",
        "sha256": files.sha256_file(stage2),
    }


def test_the_gate_wants_the_verdict_of_this_very_plan(folder):
    plan = folder / "rprm.yaml"
    plan.write_text(plan.read_text().replace("bound: 0.05", "bound: 0.005"))
    with pytest.raises(UserError, match="plan_sha256"):
        open_gate(plan, folder / "verdict.json")


def test_a_plan_that_stops_nothing_has_no_gate(folder):
    plan = folder / "rprm.yaml"
    plan.write_text(yaml.safe_dump(plan_dict() | {"stops": None}))
    judge_with(folder)
    assert files.read_json(folder / "verdict.json")["stop"] is None
    with pytest.raises(UserError, match="stops"):
        open_gate(plan, folder / "verdict.json")


SMALL = {
    "rprm": {"floor_windows": 40, "resamples": 40, "shuffles": 3, "adequate_cell_n": 10}
    | {"adequate_bucket_n": 2},
    "paired_timing": {"floor_prompts": 4, "resamples": 40},
}


@pytest.mark.parametrize("study", SMALL)
def test_the_analysis_of_each_study_gives_its_verdict_from_rows(study, tmp_path):
    plan, rows = tmp_path / f"{study}.yaml", tmp_path / "rows"
    value = plan_dict(study)
    value["analysis"] |= SMALL[study]
    plan.write_text(yaml.safe_dump(value))
    if study == "rprm":
        for seed, tag in enumerate(("primary", "replication")):
            write_rows(rows / f"positions_{tag}.csv", position_table(80, seed=seed), "positions")
    else:
        timing, cycles = timing_tables(6)
        write_rows(rows / "timing.csv", timing, "timing")
        write_rows(rows / "cycles.csv", cycles, "cycles")
    before = {path.name: files.sha256_file(path) for path in rows.iterdir()}
    verdict = rederive(plan, rows, registry.study_of(study, "test"))
    assert set(verdict.scopes) == set(load_plan(plan).scopes.names())
    assert differences(compare(verdict, rederive(plan, rows, registry.study_of(study, "")))) == []
    assert {path.name: files.sha256_file(path) for path in rows.iterdir()} == before
