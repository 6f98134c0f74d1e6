"""This project keeps to its own rules: its history passes the audit, its evidence is there."""

import json
from pathlib import Path

import pytest

from diffdraft import git
from diffdraft.prereg.audit import PASS, audit, overall

REPOSITORY = Path(__file__).resolve().parents[1]
# Two adapters, two strata, seven slots of each window; two arms, and of each prompt in each four
# runs on tiny, two on Gemma.
ROWS = {
    "tiny/rprm": 2 * 2 * 7 * 1280,
    "tiny/paired_timing": 27 * 2 * 4,
    "gemma3_270m/rprm": 2 * 2 * 7 * 704,
    "gemma3_270m/paired_timing": 27 * 2 * 2,
}
# Of Act IV-S, by run: prompts, repeats and arms, and lengths or precisions where there are.
GENERATIONS = {
    "tiny": {
        "baseline": 27 * 3 * 2 * 3,
        "ksweep": 27 * 3 * 7,
        "context": 10 * 3 * 3 * 4,
        "controls": 27 * 3 * 10,
        "adaptive": 27 * 3 * 9,
        "confidence": 27 * 3 * 2,
        "precision": 27 * 2 * 6,
    },
    "gemma3_270m": {
        "baseline": 27 * 2 * 2,
        "ksweep": 27 * 6,
        "context": 10 * 3 * 4,
        "controls": 27 * 9,
        "adaptive": 27 * 9,
        "confidence": 27 * 2,
        "precision": 27 * 2 * 5,
    },
}


@pytest.fixture(scope="module")
def findings():
    if not (REPOSITORY / ".git").exists() or git.is_shallow(REPOSITORY):
        pytest.skip("the whole history is needed")
    return audit(REPOSITORY)


def test_own_history_passes_the_audit(findings):
    assert overall(findings) == PASS, [f for f in findings if f.outcome != PASS]
    verdicts = {found.subject for found in findings if found.check == "verdict from rows"}
    studies = (*ROWS, *(f"{profile}/act4s" for profile in GENERATIONS))
    assert verdicts == {f"results/{study}" for study in studies}


@pytest.mark.parametrize(("study", "rows"), ROWS.items())
def test_evidence_has_its_planned_size(study, rows):
    folder = REPOSITORY / "results" / study
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    tables = [f for name, f in manifest["files"].items() if name != "cycles.csv" and f.get("rows")]
    assert sum(table["rows"] for table in tables) == rows


@pytest.mark.parametrize(("profile", "rows"), GENERATIONS.items())
def test_every_planned_generation_of_act_4s_is_there(profile, rows):
    manifest = json.loads((REPOSITORY / f"results/{profile}/act4s/MANIFEST.json").read_text())
    found = {
        name.removesuffix(".csv"): table["rows"]
        for name, table in manifest["files"].items()
        if table["schema_name"] == "generations"
    }
    assert found == rows
