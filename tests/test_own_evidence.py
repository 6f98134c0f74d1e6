"""This project keeps to its own rules: its history passes the audit, its evidence is there."""

import json
from pathlib import Path

import pytest

from diffdraft import git
from diffdraft.prereg.audit import PASS, audit, overall

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def findings():
    if not (REPOSITORY / ".git").exists() or git.is_shallow(REPOSITORY):
        pytest.skip("the whole history is needed")
    return audit(REPOSITORY)


def test_own_history_passes_the_audit(findings):
    assert overall(findings) == PASS, [f for f in findings if f.outcome != PASS]
    verdicts = [finding for finding in findings if finding.check == "verdict from rows"]
    assert len(verdicts) == 2


@pytest.mark.parametrize(("study", "rows"), [("rprm", 2 * 17_920), ("paired_timing", 216)])
def test_evidence_has_its_planned_size(study, rows):
    folder = REPOSITORY / "results" / "tiny" / study
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    tables = [f for name, f in manifest["files"].items() if name != "cycles.csv" and f.get("rows")]
    assert sum(table["rows"] for table in tables) == rows
