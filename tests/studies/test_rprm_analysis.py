"""The whole RPRM analysis against a second implementation, and its verdicts on known signals."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import judge
from diffdraft.studies.rprm import tables
from diffdraft.studies.rprm.analysis import analyse
from tests.studies import oracle
from tests.studies.plans import RPRM, rprm_settings
from tests.synthetic import position_table

RESAMPLES, SHUFFLES = 30, 3


@pytest.fixture(scope="module")
def table():
    return position_table(120, entropy_signal=0.6, seed=5)


@pytest.fixture(scope="module")
def results(table):
    analysis, seeds = rprm_settings(
        floor_windows=1,
        resamples=RESAMPLES,
        shuffles=SHUFFLES,
        adequate_cell_n=20,
        adequate_bucket_n=5,
    )
    return {result.name: result for result in analyse(table, analysis, seeds)}


@pytest.fixture(params=["FULL", "SCHEDULE"])
def case(request, table, results):
    """Figures of a stratum, and its FIT and TEST rows by the oracle's split."""
    rows = table[table["stratum"] == request.param]
    fit, test = (rows[rows["example_id"].isin(ids)] for ids in oracle.split(table, 20260908))
    return results[request.param], fit, test


def test_models(case):
    result, fit, test = case
    models = {key[0]: scores for key, scores in result.figures["models"].items()}
    for number, p in oracle.predictions(fit, test, result.name).items():
        y = test["accepted"]
        assert models[number]["auroc"] == pytest.approx(roc_auc_score(y, p), abs=2e-5)
        assert models[number]["log_loss"] == pytest.approx(log_loss(y, p), abs=1e-6)
        assert not models[number]["separated"]


def test_shuffled_control(case, table):
    result, fit, test = case
    expected = oracle.shuffled_aurocs(table, fit, test, result.name, 20260908, SHUFFLES)
    control = result.figures["models"]["7_shuffled_control"]
    assert control["aurocs"] == pytest.approx(expected, abs=2e-5)
    assert control["auroc"] == pytest.approx(np.mean(control["aurocs"]))
    assert control["auroc_p97_5"] == pytest.approx(np.percentile(control["aurocs"], 97.5))
    assert control["n_permutations"] == SHUFFLES


def test_bootstrap_comparisons(case):
    result, fit, test = case
    p, y = oracle.predictions(fit, test, result.name), test["accepted"].to_numpy()
    compared = result.figures["comparisons"]
    for better, worse in (("4", "1"), ("6", "5")):

        def gain(rows, better=better, worse=worse):
            return roc_auc_score(y[rows], p[better][rows]) - roc_auc_score(y[rows], p[worse][rows])

        mean, low, high = oracle.bootstrap(test, gain, 20260908, RESAMPLES)
        found = compared[f"{better}_vs_{worse}_bootstrap"]
        actual = [found["delta_mean"], found["ci_low"], found["ci_high"]]
        assert actual == pytest.approx([mean, low, high], abs=5e-5)
        assert (found["n_resamples"], found["n_skipped"]) == (RESAMPLES, 0)

    def reduction(rows):
        return log_loss(y[rows], p["5"][rows]) - log_loss(y[rows], p["6"][rows])

    mean, low, high = oracle.bootstrap(test, reduction, 20260909, RESAMPLES)
    found = compared["6_vs_5_logloss"]
    actual = [found["reduction_mean"], found["ci_low"], found["ci_high"]]
    assert actual == pytest.approx([mean, low, high], abs=1e-6)


def clustered_share(test, inside):
    """Percentiles of the share accepted among the rows `inside`, window by window, slowly."""
    ids = test["example_id"].to_numpy(dtype=object)
    windows = {name: np.flatnonzero(ids == name) for name in np.unique(ids)}
    chosen, accepted = test.index.isin(inside), test["accepted"].to_numpy()
    generator, shares = np.random.default_rng(20260908), []
    for _ in range(RESAMPLES):
        drawn = generator.integers(0, len(windows), len(windows))
        rows = np.concatenate([windows[sorted(windows)[i]] for i in drawn])
        shares.append(accepted[rows][chosen[rows]].mean())
    return np.percentile(shares, [2.5, 97.5])


def test_quintiles(case):
    result, fit, test = case
    edges = np.percentile(fit["normalized_entropy"], [20, 40, 60, 80])
    rows = result.figures["quintiles_entropy"]
    for index, row in enumerate(rows):
        low = edges[index - 1] if index else -np.inf
        high = edges[index] if index < 4 else np.inf
        inside = test[(test["normalized_entropy"] >= low) & (test["normalized_entropy"] < high)]
        assert row["n"] == len(inside)
        assert row["acceptance"] == pytest.approx(inside["accepted"].mean())
        assert row["mean_value"] == pytest.approx(inside["normalized_entropy"].mean())
        assert row["ci_low"] < row["acceptance"] < row["ci_high"]
        low, high = clustered_share(test, inside.index)
        assert row["cluster_ci_low"] == pytest.approx(low)
        assert row["cluster_ci_high"] == pytest.approx(high)
    steps = np.diff([row["acceptance"] for row in rows])
    assert result.metrics["quintile_inversions"]["value"] == (steps > 0).sum()
    assert result.metrics["quintile_max_inversion"]["value"] == pytest.approx(max(0, *steps))


def test_within_offset(case):
    result, fit, test = case
    signed = 0
    for row in result.figures["within_offset"]:
        at_fit, at_test = (part[part["offset"] == row["offset"]] for part in (fit, test))
        low_edge, high_edge = np.quantile(at_fit["normalized_entropy"], [1 / 3, 2 / 3])
        low = at_test[at_test["normalized_entropy"] < low_edge]["accepted"]
        high = at_test[at_test["normalized_entropy"] >= high_edge]["accepted"]
        assert (row["n"], row["n_low"], row["n_high"]) == (len(at_test), len(low), len(high))
        assert row["acc_low"] == pytest.approx(low.mean())
        assert row["acc_high"] == pytest.approx(high.mean())
        for name, column in (("entropy", "normalized_entropy"), ("gap", oracle.GAP)):
            expected = roc_auc_score(at_test["accepted"], -at_test[column])
            assert row[f"auroc_neg_{name}"] == pytest.approx(expected)
        assert row["adequate"] == (len(at_test) >= 20 and min(len(low), len(high)) >= 5)
        signed += row["adequate"] and row["auroc_neg_entropy"] > 0.5
    assert result.metrics["cells_signed"]["value"] == signed


def test_every_planned_metric_is_computed(results):
    plan = load_plan(RPRM)
    planned = {outcome.metric for outcome in plan.outcomes}
    assert planned <= set(results["FULL"].metrics)
    exploratory = {name for name in results["FULL"].metrics if name not in planned}
    assert exploratory <= {entry.measure for entry in plan.exploratory}


def test_tables(results):
    for result in results.values():
        models = {record["model"] for record in result.calibration}
        assert models == set(tables.CALIBRATED)
        for model in models:
            bins = [record for record in result.calibration if record["model"] == model]
            assert sum(record["n"] for record in bins) == result.figures["n_test"]
            predicted = [record["predicted"] for record in bins]
            assert predicted == sorted(predicted)
        for model, curve in result.roc.groupby("model"):
            area = np.trapezoid(curve["tpr"], curve["fpr"])
            assert area == pytest.approx(result.figures["models"][model]["auroc"], abs=1e-9)
        assert set(result.pr["model"]) == set(tables.CURVES)


def test_empty_bins_are_null_and_passed_over():
    records = [{"n": 3, "acceptance": 0.5}, {"n": 0, "acceptance": None}]
    records += [{"n": 2, "acceptance": 0.75}]
    assert tables.differences(records) == [0.25]
    table = position_table(120)
    table.loc[table.index % 3 > 0, "existing_draftability_score"] = 0.0
    analysis, seeds = rprm_settings(floor_windows=1, resamples=5, shuffles=1)
    full, _ = analyse(table, analysis, seeds)
    lowest = full.figures["quintiles_gap"][0]
    assert lowest["n"] == 0
    assert (
        lowest["acceptance"]
        is lowest["cluster_ci_low"]
        is lowest["ci_low"]
        is lowest["mean_value"]
        is None
    )


@pytest.mark.parametrize(
    ("signal", "verdict"), [(2.0, "STRONG PASS"), (0.0, "FAIL"), (-2.0, "FAIL")]
)
def test_verdict_on_a_known_signal(signal, verdict):
    plan = load_plan(RPRM)
    analysis, seeds = rprm_settings(resamples=200, shuffles=5)
    results = analyse(position_table(700, entropy_signal=signal, seed=1), analysis, seeds)
    tags = ("primary", "replication")
    scopes = {f"{tag}.{result.name}": result.metrics for tag in tags for result in results}
    judged = judge(plan, {"study": "rprm", "scopes": scopes})
    assert {scope.verdict for scope in judged.scopes.values()} == {verdict}
    assert judged.stop is not None
    assert judged.stop.status == ("OPEN" if verdict == "STRONG PASS" else "NOT RUN")
