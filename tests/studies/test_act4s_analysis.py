"""Metrics, margin, audit and costs of Act IV-S on studies whose answers are known."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import analyse_act4s
from diffdraft import cli, files
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import judge
from diffdraft.stats.paired import Estimate
from diffdraft.studies.act4s.analysis import figures, pearson
from diffdraft.studies.act4s.audit import audit, is_beyond, ties_summary
from diffdraft.studies.act4s.cells import cells_of
from diffdraft.studies.act4s.comparisons import comparisons, margin
from diffdraft.studies.act4s.costs import cost_curve, cost_fits, cost_model, cost_parts
from diffdraft.studies.act4s.design import POLICY_ARMS, TABLES
from diffdraft.studies.act4s.metrics import primary, repeat_sd_log, scopes
from diffdraft.studies.act4s.run import tables_of
from diffdraft.studies.act4s.tables import summary
from tests.studies.conftest import write_folder
from tests.studies.plans import PAIRED_TIMING
from tests.synthetic_decoding import FIXED_MS, PER_ROW_MS

PUBLISHED = ("median_ratio", "mean_ratio", "cycle_ratio")


def scopes_of(study, margin_value=None):
    cells = cells_of(study)
    used = margin(cells, study)["margin"] if margin_value is None else margin_value
    return scopes(cells, study, audit(study), used)


@pytest.fixture(scope="module")
def measured(act4s_rows):
    return scopes_of(act4s_rows)


def test_every_scope_has_every_metric_of_the_plan(measured, act4s_folder):
    plan = load_plan(act4s_folder.plan)
    assert set(measured) == set(plan.scopes.names())
    for values in measured.values():
        assert {outcome.metric for outcome in plan.outcomes} <= set(values)
        assert set(values) == set(measured["paired"])
    assert judge(plan, {"study": "act4s", "scopes": measured}).carried.verdict


def test_published_scopes_have_no_interval_and_the_floor_as_margin(measured, act4s_rows):
    for scope in PUBLISHED:
        for found in measured[scope].values():
            assert found["value"] == found["ci_low"] == found["ci_high"]
        assert measured[scope]["aa_margin"]["value"] == act4s_rows.analysis.margin_floor


def test_published_metrics_are_those_of_the_summary(measured, act4s_rows, act4s_cells):
    table = summary(act4s_cells, act4s_rows)
    table = table[table["subset"] == "pooled"].set_index(["run", "arm"])
    for scope in PUBLISHED:
        logs = np.log(table[f"speedup_{scope}"])
        found = measured[scope]
        assert found["k4_speedup_log"]["value"] == pytest.approx(logs["ksweep", "uno_k4"])
        best = max(logs["ksweep", f"uno_k{k}"] for k in (1, 2, 4, 8))
        assert found["any_faster_by"]["value"] == pytest.approx(best - 0.01)
        fixed = max(logs["adaptive", f"uno_k{k}"] for k in (2, 4, 8))
        adaptive = max(logs["adaptive", arm] for arm in POLICY_ARMS)
        assert found["adaptive_over_fixed"]["value"] == pytest.approx(adaptive - fixed)
        assert found["adaptive_faster_by"]["value"] == pytest.approx(adaptive - fixed - 0.01)
        other = max(logs["ksweep", f"uno_k{k}"] for k in (1, 2, 8))
        assert found["other_faster_by"]["value"] == pytest.approx(other - 0.01)
        confident = logs["adaptive", "adapt_confidence"] - fixed
        assert found["confidence_over_fixed"]["value"] == pytest.approx(confident)
    prefix = table.loc[("ksweep", "uno_k4"), "mean_accepted_prefix"]
    assert measured["mean_ratio"]["mean_accepted_prefix"]["value"] == pytest.approx(prefix)


def log_walls(study, run):
    """Mean log wall by prompt and arm, one loop."""
    rows = study.runs[run].generations
    return {
        arm: [
            np.mean(np.log(own.loc[own["prompt_id"] == prompt, "wall_seconds"]))
            for prompt in sorted(rows["prompt_id"].unique())
        ]
        for arm, own in rows.groupby("arm")
    }


def test_paired_metrics_are_those_of_a_loop_over_resamples(measured, act4s_rows):
    sweep, adaptive = (log_walls(act4s_rows, run) for run in ("ksweep", "adaptive"))
    prompts, resamples = len(sweep["ar"]), act4s_rows.analysis.resamples
    rng = np.random.default_rng(act4s_rows.seeds.bootstrap)
    drawn = [rng.integers(0, prompts, prompts) for _ in range(resamples)]

    def bounds(walls, arm, against, arms_at_once):
        ratio = np.array(walls[against]) - np.array(walls[arm])
        means = [np.mean(ratio[own]) for own in drawn]
        tail = 2.5 / arms_at_once
        return np.percentile(means, [tail, 100 - tail])

    def best(walls, arms, against):
        least = [
            np.min([bounds(walls, arm, k, len(arms)) for k in against], axis=0) for arm in arms
        ]
        return np.max(least, axis=0)

    used = measured["paired"]["aa_margin"]["value"]
    sizes, allowed = ([f"uno_k{k}" for k in ks] for ks in ((1, 2, 4, 8), (2, 4, 8)))
    chosen = best(adaptive, POLICY_ARMS, allowed)
    for name, (low, high) in {
        "k4_speedup_log": bounds(sweep, "uno_k4", "ar", 1),
        "k4_faster_by": bounds(sweep, "uno_k4", "ar", 1) - used,
        "any_faster_by": best(sweep, sizes, ["ar"]) - used,
        "other_faster_by": best(sweep, [k for k in sizes if k != "uno_k4"], ["ar"]) - used,
        "adaptive_over_fixed": chosen,
        "adaptive_faster_by": chosen - used,
    }.items():
        found = measured["paired"][name]
        assert (found["ci_low"], found["ci_high"]) == pytest.approx((low, high), abs=1e-12)


def test_margin_is_the_far_end_of_the_control_and_at_least_the_floor(act4s_rows, act4s_cells):
    found = margin(act4s_cells, act4s_rows)
    ends = max(abs(found["log_ratio"]["ci_low"]), abs(found["log_ratio"]["ci_high"]))
    assert found["margin"] == max(0.01, ends)
    lower = act4s_rows.analysis.model_copy(update={"margin_floor": 0.0})
    assert margin(act4s_cells, replace(act4s_rows, analysis=lower))["margin"] == ends > 0
    rows = act4s_rows.runs["ksweep"].generations
    slow = np.where(rows["arm"] == "uno_k4_again", 1.5, 1.0)
    rows = rows.assign(wall_seconds=rows["wall_seconds"] * slow)
    run = replace(act4s_rows.runs["ksweep"], generations=rows)
    slower = replace(act4s_rows, runs={**act4s_rows.runs, "ksweep": run})
    assert margin(cells_of(slower), slower)["margin"] > math.log(1.45)


def test_primary_metrics_turn_their_bounds():
    found = primary(Estimate(0.2, 0.1, 0.4), 0.05)
    assert found["k4_faster_by"] == pytest.approx({"value": 0.15, "ci_low": 0.05, "ci_high": 0.35})
    slower = {"value": -0.25, "ci_low": -0.45, "ci_high": -0.15}
    assert found["k4_slower_by"] == pytest.approx(slower)
    assert found["k4_outside"]["value"] == pytest.approx(0.35)
    within = primary(Estimate(-0.01, -0.04, 0.02), 0.05)
    assert within["k4_outside"]["value"] == pytest.approx(-0.01)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(0.5, "K=4 STANDS. ADAPTIVE K FAILS."), (3.0, "K=4 IS SLOWER.")],
)
def test_verdicts_follow_the_factor_of_the_drafted_arms(act4s_rows, act4s_folder, factor, verdict):
    runs = {}
    for name, run in act4s_rows.runs.items():
        rows = run.generations
        slow = np.where(rows["arm"] == "ar", 1.0, np.where(rows["kind"] == "uno", factor, 4.0))
        walls = rows.assign(wall_seconds=rows["wall_seconds"] * slow)
        runs[name] = replace(run, generations=walls)
    study = replace(act4s_rows, runs=runs)
    found = {"study": "act4s", "scopes": scopes_of(study)}
    assert judge(load_plan(act4s_folder.plan), found).carried.verdict == verdict


def test_native_decoding_that_does_not_repeat_shows(act4s_rows):
    rows = act4s_rows.runs["controls"].generations.copy()
    place = rows.index[(rows["arm"] == "ar") & (rows["repeat"] == 1)][0]
    rows.loc[place, ["identical", "first_divergence"]] = (0, 3)
    rows.loc[place, "trace_sha"] = "0" * 64
    run = replace(act4s_rows.runs["controls"], generations=rows)
    study = replace(act4s_rows, runs={**act4s_rows.runs, "controls": run})
    native = sum((r.generations["arm"] == "ar").sum() for r in study.timed().values())
    share = scopes_of(study)["paired"]["ar_identical"]["value"]
    assert share == pytest.approx(1 - 1 / native)
    cells = cells_of(study)
    found = figures(cells, study, tables_of(cells, study))["native"]
    assert found["reproducible"] == share
    assert found["arms_reproducible"]["not_reproducible"] == 1


def test_repeat_sd_is_the_root_mean_square_over_prompts(act4s_rows):
    rows = act4s_rows.runs["ksweep"].generations
    native = rows[rows["arm"] == "ar"]
    sds = [np.std(np.log(own["wall_seconds"]), ddof=1) for _, own in native.groupby("prompt_id")]
    assert repeat_sd_log(native) == pytest.approx(np.sqrt(np.mean(np.square(sds))))
    assert repeat_sd_log(native[native["repeat"] == 0]) is None


def test_comparisons_are_complete_and_count_prompts(act4s_rows, act4s_cells):
    found = comparisons(act4s_cells, act4s_rows)
    keys = ["run", "max_tokens", "prompt_tokens", "subset", "arm", "against"]
    assert len({tuple(entry[key] for key in keys) for entry in found}) == len(found)
    assert {(e["arm"], e["against"]) for e in found if e["run"] == "confidence"} == {
        ("conf_k4", "ar")
    }
    sweep = [e for e in found if e["run"] == "ksweep" and e["subset"] == "pooled"]
    drafted = {"uno_k1", "uno_k2", "uno_k4", "uno_k8", "uno_k4_again"}
    assert {e["arm"] for e in sweep if e["against"] == "ar"} == drafted
    assert {e["arm"] for e in sweep if e["against"] == "uno_k4"} == drafted - {"uno_k4"}
    for entry in sweep:
        assert entry["wins"] + entry["losses"] == entry["n_prompts"] == 6
        assert entry["speedup"]["value"] == pytest.approx(math.exp(entry["log_ratio"]["value"]))


def test_a_study_without_loop_free_prompts_has_no_such_rows(tmp_path):
    made = write_folder(tmp_path, looped=1.0)
    study = made.read()
    cells = cells_of(study)
    tables = tables_of(cells, study)
    assert set(tables["summary"]["subset"]) == {"pooled"}
    assert set(tables["confidence_bins"]["subset"]) == {"pooled"}
    found = figures(cells, study, tables)
    assert found["n_loop_free_prompts"] == 0
    none = [entry for entry in found["comparisons"] if entry["subset"] == "loop_free"]
    assert {entry["n_prompts"] for entry in none if entry["run"] != "context"} == {0}
    assert none[0]["log_ratio"]["value"] is None
    assert found["degeneration"]["by_length"][0]["loop_free_acceptance"] is None
    assert {entry["subset"] for entry in found["estimators"]} == {"pooled"}


def test_audit_counts_by_three_rules(act4s_rows):
    table = audit(act4s_rows).set_index(["run", "dtype"])
    cast = table.loc[("precision", "bfloat16")]
    assert cast["divergent"] == len(act4s_rows.runs["precision"].divergences) > 0
    assert cast["identical"] + cast["divergent"] == cast["rows_checked"] == 6 * 4
    assert cast["exact_ties"] + cast["within_one_ulp_not_tie"] == cast["divergent"]
    assert (cast["passes_strict"], cast["passes_ulp"]) == (0, 1)
    assert cast["passes_exact_tie"] == int(cast["within_one_ulp_not_tie"] == 0)
    own = table.loc[("ksweep", "float32")]
    assert own[["passes_strict", "passes_exact_tie", "passes_ulp"]].tolist() == [1, 1, 1]
    assert own["rows_checked"] == 5 * 6 * 2
    assert math.isnan(own["max_gap_in_ulps"])


def test_a_gap_beyond_the_tolerance_or_below_the_maximum_is_beyond(act4s_rows):
    rows = act4s_rows.runs["precision"].divergences.iloc[[0, 0, 0, 0]].reset_index(drop=True)
    rows["gap"] = rows["ulp"] * np.array([0.0, 1.00005, 1.001, 0.0])
    rows["near_maximum"] = [1, 1, 1, 0]
    assert is_beyond(rows, 1.0001).tolist() == [False, False, True, True]


def test_divergences_beyond_one_ulp_reach_the_metric(act4s_rows):
    run = act4s_rows.runs["precision"]
    worse = run.divergences.assign(near_maximum=0)
    study = replace(
        act4s_rows, runs={**act4s_rows.runs, "precision": replace(run, divergences=worse)}
    )
    for values in scopes_of(study).values():
        assert values["beyond_one_ulp"]["value"] == len(worse)


def test_an_audited_native_run_is_no_drafted_divergence(act4s_rows):
    run = act4s_rows.runs["precision"]
    native = run.divergences.iloc[:1].assign(arm="ar")
    more = replace(run, divergences=pd.concat([run.divergences, native]))
    study = replace(act4s_rows, runs={**act4s_rows.runs, "precision": more})
    pd.testing.assert_frame_equal(audit(study), audit(act4s_rows))


def test_ties_are_counted_by_dtype(act4s_rows):
    table = ties_summary(act4s_rows).set_index("dtype")
    ties = act4s_rows.ties
    for dtype, row in table.iterrows():
        own = ties[ties["dtype"] == dtype]
        assert row["positions"] == len(own) == 6 * 40
        assert row["tie_rate"] == (own["top2_gap"] == 0).mean()
        assert row["gap_p05"] == pytest.approx(np.percentile(own["top2_gap"], 5))


def test_costs_have_the_line_they_were_made_from(act4s_rows):
    curve = cost_curve(act4s_rows)
    assert len(curve) == 2 * 3 * 9
    assert (curve["passes"] == 5).all()
    for fit in cost_fits(curve):
        if fit["kind"] != "native":
            assert fit["fixed_ms"] == pytest.approx(FIXED_MS, rel=0.05)
        assert fit["per_row_ms"] == pytest.approx(PER_ROW_MS, rel=0.05)
        own = curve[(curve["dtype"] == fit["dtype"]) & (curve["kind"] == fit["kind"])]
        slope, intercept = np.polyfit(own["width"], own["ms_median"], 1)
        assert (fit["per_row_ms"], fit["fixed_ms"]) == pytest.approx((slope, intercept))
        assert fit["widths"] == [1, 9]
        assert 0.98 < fit["r_squared"] <= 1


def test_parts_are_shares_of_the_whole_pass(act4s_rows):
    parts = cost_parts(act4s_rows)
    assert "whole" not in set(parts["part"])
    assert set(parts["width"]) == {1, 4, 5}
    assert parts.groupby(["dtype", "width"])["share"].sum().to_numpy() == pytest.approx(1, abs=0.03)


def test_cost_model_is_tokens_over_the_price_of_a_cycle(act4s_rows, act4s_cells):
    curve, by_arm = cost_curve(act4s_rows), summary(act4s_cells, act4s_rows)
    model = cost_model(act4s_cells, by_arm, curve, act4s_rows).set_index("block_size")
    assert model.index.tolist() == [1, 2, 4, 8]
    ms = curve[curve["dtype"] == "float32"].set_index(["kind", "width"])["ms_median"]
    row = model.loc[4]
    cycles = act4s_rows.runs["ksweep"].cycles
    committed = (cycles.loc[cycles["arm"] == "uno_k4", "accepted"] + 2).mean()
    cycle_ms = ms["draft", 4] + ms["verify", 5]
    assert row["model_cycle_ms"] == pytest.approx(cycle_ms)
    assert row["predicted_speedup"] == pytest.approx(committed * ms["native", 1] / cycle_ms)
    assert row["measured_over_predicted"] == pytest.approx(
        row["measured_speedup"] / row["predicted_speedup"]
    )
    narrow = cost_model(act4s_cells, by_arm, curve[curve["width"] < 5], act4s_rows)
    assert narrow["block_size"].tolist() == [1, 2]


def test_correlation_of_what_does_not_vary():
    assert pearson(pd.Series([1.0, 2.0, 3.0]), pd.Series([2.0, 4.0, 6.0])) == pytest.approx(1)
    assert pearson(pd.Series([1.0, 1.0]), pd.Series([2.0, 4.0])) is None
    assert pearson(pd.Series([1.0]), pd.Series([2.0])) is None


def call(plan, rows, out) -> int:
    arguments = ["--plan", plan, "--rows", rows, "--out-dir", out]
    with pytest.raises(SystemExit) as caught:
        cli.run(analyse_act4s.parser(), analyse_act4s.main, [str(a) for a in arguments])
    return caught.value.code


def test_the_command_writes_every_table_in_full_precision(act4s_folder, act4s_cells, tmp_path):
    out = tmp_path / "out"
    assert call(act4s_folder.plan, act4s_folder.folder, out) == 0
    assert {path.stem for path in out.glob("*.csv")} == set(TABLES)
    assert {path.name for path in out.glob("*.json")} == {"analysis.json", "metrics.json"}
    table = pd.read_csv(out / "summary.csv")
    expected = summary(act4s_cells, act4s_folder.read())
    pd.testing.assert_frame_equal(table, expected, check_exact=True, check_dtype=False)
    found = files.read_json(out / "metrics.json")
    assert found["study"] == "act4s"


def test_the_command_refuses_in_one_line_and_writes_nothing(act4s_folder, tmp_path, capsys):
    rows, out = tmp_path / "rows", tmp_path / "out"
    shutil.copytree(act4s_folder.folder, rows)
    cycles = rows / "ksweep_cycles.csv"
    cycles.write_text("\n".join(cycles.read_text().splitlines()[:-3]) + "\n")
    assert call(act4s_folder.plan, rows, out) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "ksweep_cycles.csv: cycles: found" in error
    assert call(PAIRED_TIMING, rows, out) == 3
    assert "study: found paired_timing; expected act4s" in capsys.readouterr().err
    assert not out.exists()
