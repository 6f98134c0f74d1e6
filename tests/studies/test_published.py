"""The published figures give the published outcomes, and a changed figure is noticed."""

import copy

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import judge
from diffdraft.stats.intervals import wilson
from diffdraft.studies.published import replay
from diffdraft.studies.published.checks import progress_auroc
from diffdraft.studies.rprm import tables
from tests.studies.plans import PUBLISHED, RPRM, rprm_settings


@pytest.fixture(scope="module")
def published():
    return replay.read_published(PUBLISHED)


def test_all_four_runs_fail_with_the_published_outcomes(published):
    verdict = judge(load_plan(RPRM), replay.metrics(published))
    assert [scope.verdict for scope in verdict.scopes.values()] == ["FAIL"] * 4
    outcomes = {
        name: {criterion.id[:2] for criterion in scope.criteria if not criterion.outcome}
        for name, scope in verdict.scopes.items()
    }
    assert outcomes == {
        "primary.FULL": {"c3"},
        "primary.SCHEDULE": {"c3"},
        "replication.FULL": {"c1", "c3"},
        "replication.SCHEDULE": {"c3"},
    }
    assert replay.compare(verdict, published)["equal"]
    assert verdict.stop is not None
    assert verdict.stop.status == "NOT RUN"


def test_consistency_checks_hold(published):
    checks = replay.checks(published, *rprm_settings())
    assert len(checks) == 27
    assert [check for check in checks if not check.holds] == []


def test_model_1_from_counts():
    primary, replication = [177, 90, 52, 44, 46, 35, 27], [144, 68, 46, 38, 36, 42, 33]
    assert round(progress_auroc(primary, 384), 5) == 0.70814
    assert round(progress_auroc(replication, 384), 5) == 0.66338


def test_published_intervals_used_z_196_and_not_the_exact_quantile(published):
    rows = [
        row
        for tag in replay.TAGS
        for stratum in replay.STRATA
        for predictor in tables.PREDICTORS
        for row in published[f"stage1_{tag}"][stratum][f"quintiles_{predictor}"]
        if row["n"]
    ]

    def wrong(z):
        return sum(
            [round(bound, 5) for bound in wilson(round(row["acceptance"] * row["n"]), row["n"], z)]
            != [row["ci_low"], row["ci_high"]]
            for row in rows
        )

    assert len(rows) == 58
    assert wrong(1.96) == 0
    assert wrong(1.959963984540054) > 0


@pytest.mark.parametrize(
    ("where", "value", "check"),
    [
        (("quintiles_gap", 0, "ci_low"), 0.2, "Wilson"),
        (("quintiles_gap", 0, "n"), 520, "counts of the quintile"),
        (("verdict", "quintile_inversions"), [0.1, 0, 0, 0], "steps"),
        (("comparisons", "4_vs_1_auroc_delta"), 0.06, "AUROC differences"),
        (("within_offset", 3, "acceptance"), 0.12, "acceptance from counts"),
        (("within_offset", 5, "auroc_neg_entropy"), 0.51, "offsets adequate"),
        (("models", "1_progress_only", "auroc"), 0.709, "AUROC of model 1"),
    ],
)
def test_a_changed_figure_fails_its_check(published, where, value, check):
    changed = copy.deepcopy(published)
    place = changed["stage1_primary"]["FULL"]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    failed = [c.check for c in replay.checks(changed, *rprm_settings()) if not c.holds]
    assert any(name.startswith(check) for name in failed)


def test_a_changed_outcome_is_told(published):
    changed = copy.deepcopy(published)
    changed["stage1_replication"]["FULL"]["verdict"]["criteria"]["c1_monotone"] = True
    compared = replay.compare(judge(load_plan(RPRM), replay.metrics(published)), changed)
    assert not compared["equal"]
    assert not compared["scopes"]["replication.FULL"]["equal"]
    assert compared["scopes"]["replication.FULL"]["verdict"]["equal"]


def test_files(tmp_path):
    line = replay.run(RPRM, PUBLISHED, tmp_path)
    assert "4 of 4 verdicts and 24 of 24 criteria as published; 27 of 27" in line
    assert files.read_json(tmp_path / "verdict.json")["carried"]["verdict"] == "FAIL"
    comparison = files.read_json(tmp_path / "comparison.json")
    assert comparison["equal"] is True
    assert {"A1", "B1", "C1"} <= {entry["id"] for entry in comparison["differences"]}


def test_a_missing_figure_is_named(tmp_path):
    text = files.read_text(PUBLISHED).replace("6_vs_5_auroc_delta", "six_vs_five", 1)
    path = tmp_path / "rprm.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="6_vs_5_auroc_delta: found nothing"):
        replay.run(RPRM, path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
