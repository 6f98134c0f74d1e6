"""Paired timing: the ratio by hand, what busy and differing rows do, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from diffdraft.errors import UserError
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import judge
from diffdraft.studies.paired_timing.analysis import (
    analyse,
    check_cycles,
    check_runs,
    metrics_of,
)
from tests.studies.plans import PAIRED_TIMING, timing_settings
from tests.synthetic import timing_tables


def figures(timing, cycles, **changes):
    analysis, seeds = timing_settings(**changes)
    check_runs(timing, analysis, "timing.csv")
    check_cycles(timing, cycles, "cycles.csv")
    return analyse(timing, cycles, analysis, seeds)


def refused(timing, cycles, **changes):
    with pytest.raises(UserError) as caught:
        figures(timing, cycles, **changes)
    return str(caught.value)


def test_log_ratio_is_the_mean_over_prompts_of_mean_log_ratios():
    timing, cycles = timing_tables(27, blocks=2)
    expected = []
    for _, rows in timing.groupby("prompt_id"):
        walls = {arm: part["wall_seconds"].to_numpy() for arm, part in rows.groupby("arm")}
        expected.append(np.mean(np.log(walls["ar"])) - np.mean(np.log(walls["uno_k4"])))
    found = figures(timing, cycles)
    assert found["log_ratio"]["value"] == pytest.approx(np.mean(expected), abs=1e-12)
    rng = np.random.default_rng(20260908)
    means = [np.mean(np.array(expected)[rng.integers(0, 27, 27)]) for _ in range(10_000)]
    bounds = [found["log_ratio"]["ci_low"], found["log_ratio"]["ci_high"]]
    assert bounds == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=1e-12)
    assert found["speedup"]["ci_low"] == pytest.approx(np.exp(bounds[0]))
    assert [row["log_ratio"] for row in found["prompts"]] == pytest.approx(expected)


def test_repeats_do_not_narrow_the_interval():
    timing, cycles = timing_tables(27)
    again = timing.assign(repeat=timing["repeat"] + 2, order=timing["order"] + len(timing))
    more = cycles.assign(repeat=cycles["repeat"] + 2)
    once = figures(timing, cycles)
    twice = figures(concat(timing, again), concat(cycles, more))
    assert twice["log_ratio"] == pytest.approx(once["log_ratio"], abs=1e-12)


def concat(first, second):
    return pd.concat([first, second], ignore_index=True)


def test_accepted_prefix_is_averaged_within_prompts_first():
    timing, cycles = timing_tables(27, blocks=1)
    drafted = cycles[cycles["arm"] == "uno_k4"]
    expected = drafted.groupby("prompt_id")["accepted"].mean().mean()
    found = figures(timing, cycles)
    assert found["mean_accepted_prefix"]["value"] == pytest.approx(expected)
    assert sum(found["accepted_histogram"]) == len(drafted)
    assert (
        sum(i * n for i, n in enumerate(found["accepted_histogram"])) == drafted["accepted"].sum()
    )


def test_one_differing_generation_is_one_share():
    timing, cycles = timing_tables(27)
    row = timing.index[timing["arm"] == "uno_k4"][0]
    timing.loc[row, "token_ids_sha"] = "0" * 64
    found = figures(timing, cycles)
    assert found["identical_outputs"] == pytest.approx(1 - 1 / 54)
    assert [entry["identical"] for entry in found["prompts"]].count(False) == 1


def test_native_runs_that_differ_make_no_drafted_run_identical():
    timing, cycles = timing_tables(27)
    row = timing.index[timing["arm"] == "ar"][0]
    timing.loc[row, "token_ids_sha"] = "0" * 64
    assert figures(timing, cycles)["identical_outputs"] == pytest.approx(1 - 2 / 54)


def test_busy_rows_are_counted_and_kept():
    timing, cycles = timing_tables(27)
    timing.loc[timing["prompt_id"].isin(["p03", "p04"]), "busy"] = 1
    found = figures(timing, cycles)
    assert found["busy_rows"] == 8
    assert found["n_prompts"] == 27
    assert found["log_ratio_without_busy"]["n_prompts"] == 25
    everything = figures(timing.assign(busy=1), cycles)
    assert everything["log_ratio_without_busy"]["value"] is None
    assert everything["log_ratio"] == found["log_ratio"]


@pytest.mark.parametrize(
    ("speedup", "verdict"),
    [(1.3, "FASTER"), (0.7, "SLOWER"), (1.0, "NO DIFFERENCE SHOWN")],
)
def test_verdicts(speedup, verdict):
    metrics = metrics_of(figures(*timing_tables(27, speedup=speedup, seed=4)))
    judged = judge(load_plan(PAIRED_TIMING), {"study": "paired_timing", "scopes": {"all": metrics}})
    assert judged.carried.verdict == verdict


def test_differing_tokens_make_the_study_invalid():
    timing, cycles = timing_tables(27)
    timing.loc[1, "token_ids_sha"] = "0" * 64
    metrics = metrics_of(figures(timing, cycles))
    judged = judge(load_plan(PAIRED_TIMING), {"study": "paired_timing", "scopes": {"all": metrics}})
    assert judged.carried.verdict == "INVALID"


def test_every_planned_metric_is_computed():
    planned = {outcome.metric for outcome in load_plan(PAIRED_TIMING).outcomes}
    assert planned <= set(metrics_of(figures(*timing_tables(27))))


def test_a_missing_arm_is_named():
    timing, cycles = timing_tables(27)
    whole = timing[(timing["prompt_id"] != "p05") | (timing["arm"] != "uno_k4")]
    assert "found no run of prompt p05 in arm uno_k4, repeat 0" in refused(whole, cycles)
    one = timing.drop(index=timing.index[(timing["prompt_id"] == "p05")][-1])
    assert "found no run of prompt p05 in arm ar, repeat 1" in refused(one, cycles)


def test_other_refusals():
    timing, cycles = timing_tables(27)
    assert "arm: found uno_k4; expected ar or ngram" in refused(timing, cycles, arm="ngram")
    assert "found 27 prompts; expected at least 28" in refused(timing, cycles, floor_prompts=28)
    two = timing.assign(category=[f"c{i % 2}" for i in range(len(timing))])
    assert "category: found c0, c1 for prompt p00" in refused(two, cycles)
    lost = cycles.drop(index=cycles.index[cycles["arm"] == "uno_k4"][0])
    assert "as in the timing rows of p00, 0, uno_k4" in refused(timing, lost)
    other = cycles.assign(repeat=cycles["repeat"] + 7)
    assert "expected a run of the timing rows" in refused(timing, other)
