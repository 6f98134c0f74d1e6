"""The published estimators against direct restatements, and against the published figures."""

import math
import statistics

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdraft.studies.act4s.published_estimators import (
    cycle_ratio,
    per_cycle,
    quartiles,
    speedups,
    stage_ms,
    summarise,
)
from diffdraft.studies.act4s.tables import by_category, degeneration, summary

STAGES = ("draft", "verify", "commit", "overhead")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.1, 1e3), min_size=1, max_size=30))
def test_quartiles_follow_the_published_rule(values):
    ordered, n = sorted(values), len(values)
    low = ordered[max(0, int(0.25 * n) - (1 if n % 4 == 0 else 0))]
    high = ordered[min(n - 1, int(0.75 * n))]
    assert quartiles(pd.Series(values)) == (low, high)


def test_quartiles_step_down_only_where_four_divides_the_number():
    assert quartiles(pd.Series([4.0, 1.0, 3.0, 2.0])) == (1.0, 4.0)
    assert quartiles(pd.Series([5.0, 4.0, 1.0, 3.0, 2.0])) == (2.0, 4.0)


def restated(rows):
    """The published columns of one arm, row by row in plain Python."""
    records = rows.to_dict("records")
    speeds = [r["tokens"] / r["wall_seconds"] for r in records]
    decode = [r["tokens"] / (r["wall_seconds"] - r["prefill_seconds"]) for r in records]
    rates = [r["accepted"] / r["offered"] if r["offered"] else 0.0 for r in records]
    cycles = sum(r["cycles"] for r in records)
    return {
        "rows": len(records),
        "prompts": len({r["prompt_id"] for r in records}),
        "tok_s_median": statistics.median(speeds),
        "tok_s_mean": statistics.mean(speeds),
        "tok_s_sd": statistics.stdev(speeds),
        "decode_tok_s_median": statistics.median(decode),
        "tpf_median": statistics.median(r["tokens"] / r["forwards"] for r in records),
        "ms_per_token_median": statistics.median(
            1000 * r["wall_seconds"] / r["tokens"] for r in records
        ),
        "prefill_ms_median": statistics.median(1000 * r["prefill_seconds"] for r in records),
        "acceptance_rate_median": statistics.median(rates),
        "mean_accepted_prefix": sum(r["accepted"] for r in records) / cycles if cycles else 0.0,
        "mean_committed_per_cycle": sum(r["tokens"] for r in records) / cycles if cycles else 0.0,
        "cycles": cycles,
        **{
            f"{stage}_ms": statistics.median(
                1000 * r[f"{stage}_seconds"] / r["cycles"] if r["cycles"] else 0.0 for r in records
            )
            for stage in STAGES
        },
        "identical_share": statistics.mean(r["identical"] for r in records),
    }


@pytest.mark.parametrize("arm", ["ar", "uno_k4", "ngram3_k4", "random_k4", "refine2_k4"])
def test_summary_is_the_restatement(act4s_rows, act4s_cells, arm):
    cell = act4s_cells["controls", act4s_rows.sample.tokens, 0, "pooled"]
    found = summarise(cell.of(arm), cell.of("ar"))
    expected = restated(cell.of(arm))
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def test_ratios_are_those_of_medians_means_and_cycles(act4s_rows, act4s_cells):
    cell = act4s_cells["ksweep", act4s_rows.sample.tokens, 0, "pooled"]
    own, native = restated(cell.of("uno_k8")), restated(cell.of("ar"))
    found = speedups(cell.of("uno_k8"), cell.of("ar"))
    assert found["median_ratio"] == pytest.approx(own["tok_s_median"] / native["tok_s_median"])
    assert found["mean_ratio"] == pytest.approx(own["tok_s_mean"] / native["tok_s_mean"])
    cycle_ms = sum(own[f"{stage}_ms"] for stage in STAGES)
    per_second = 1000 * own["mean_committed_per_cycle"] / cycle_ms
    assert found["cycle_ratio"] == pytest.approx(per_second / native["decode_tok_s_median"])


def test_a_lookup_without_a_proposal_counts_as_a_cycle_and_offers_nothing(act4s_rows):
    rows = act4s_rows.runs["controls"].generations
    lookup = rows[rows["arm"] == "ngram2_k4"]
    assert (lookup["offered"] < 3 * lookup["cycles"]).all()
    accepted, cycles = lookup["accepted"].sum(), lookup["cycles"].sum()
    assert per_cycle(lookup, "accepted") == accepted / cycles
    nothing = lookup.assign(offered=0, accepted=0)
    assert summarise(nothing, nothing)["acceptance_rate_median"] == 0.0


def test_native_rows_have_no_cycles_and_a_ratio_of_one(act4s_rows):
    rows = act4s_rows.runs["ksweep"].generations
    native = rows[rows["arm"] == "ar"]
    assert stage_ms(native) == dict.fromkeys(STAGES, 0.0)
    assert cycle_ratio(native, native) == 1.0
    assert set(speedups(native, native).values()) == {1.0}


def test_summary_has_a_row_for_every_cell_and_arm(act4s_rows, act4s_cells):
    table = summary(act4s_cells, act4s_rows)
    cells = [cell for cell in act4s_cells.values() if not cell.empty]
    keys = ["run", "max_tokens", "prompt_tokens", "subset", "arm"]
    assert len(table) == sum(len(cell.arms) for cell in cells) == len(table.drop_duplicates(keys))
    assert set(table["prompt_tokens"]) == {0, 16, 64}
    assert (table.loc[table["run"] != "context", "prompt_tokens"] == 0).all()
    drafted = table[table["arm"] != "ar"]
    assert (drafted["paired_ci_low"] <= drafted["paired_speedup"]).all()
    assert (drafted["paired_speedup"] <= drafted["paired_ci_high"]).all()


def test_paired_speedup_is_the_exponential_of_the_mean_log_ratio(act4s_rows, act4s_cells):
    table = summary(act4s_cells, act4s_rows).set_index(["run", "subset", "arm"]).sort_index()
    rows = act4s_rows.runs["ksweep"].generations
    logs = []
    for _, prompt in rows.groupby("prompt_id"):
        wall = prompt.set_index(["arm", "repeat"])["wall_seconds"]
        logs.append(np.mean([math.log(wall["ar", r] / wall["uno_k2", r]) for r in (0, 1)]))
    found = table.loc[("ksweep", "pooled", "uno_k2"), "paired_speedup"].item()
    assert found == pytest.approx(math.exp(np.mean(logs)), rel=1e-12)


def test_categories_split_the_prompts(act4s_rows, act4s_cells):
    table = by_category(act4s_cells, act4s_rows)
    assert "context" not in set(table["run"])
    sweep = table[(table["run"] == "ksweep") & (table["arm"] == "uno_k4")]
    whole = summary(act4s_cells, act4s_rows)
    place = (whole["run"] == "ksweep") & (whole["subset"] == "pooled") & (whole["arm"] == "uno_k4")
    assert sweep["rows"].sum() == whole.loc[place, "rows"].item()
    # As many prompts in each category: the mean of logs over categories is that over prompts.
    mean = np.log(sweep["paired_speedup"]).mean()
    assert mean == pytest.approx(math.log(whole.loc[place, "paired_speedup"].item()), abs=1e-12)


def test_degeneration_has_one_row_a_prompt_and_length(act4s_rows, act4s_cells):
    table = degeneration(act4s_cells, act4s_rows)
    assert len(table) == 2 * 6
    rows = act4s_rows.runs["baseline"].generations
    entry = table.iloc[-1]
    own = rows[(rows["prompt_id"] == entry["prompt_id"]) & (rows["max_tokens"] == 64)]
    own = own[own["arm"] == "uno_k4"]
    first = own[own["repeat"] == 0].iloc[0]
    assert entry["acceptance_rate"] == first["accepted"] / first["offered"]
    assert entry["mean_accepted"] == first["accepted"] / first["cycles"]
    speed = statistics.median(own["tokens"] / own["wall_seconds"])
    assert entry["tokens_per_second"] == pytest.approx(speed)
