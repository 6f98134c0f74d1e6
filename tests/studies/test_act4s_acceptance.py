"""Prefixes, slots, choices, loops and confidence, restated on the rows and on published numbers."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdraft.studies.act4s.acceptance import (
    histogram,
    loop_phases,
    policy_choices,
    shares,
    slot_break_even,
    survival,
    survival_of,
)
from diffdraft.studies.act4s.analysis import by_length
from diffdraft.studies.act4s.confidence import bins, confidence_bins, spread
from diffdraft.studies.act4s.published_estimators import stage_ms
from tests.studies.plans import ROOT

PLACE = ["run", "max_tokens", "prompt_tokens", "arm"]


@pytest.fixture(scope="module")
def published():
    return yaml.safe_load((ROOT / "results" / "published" / "act4_s.yaml").read_text())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 15), min_size=1, max_size=60))
def test_survival_sums_to_the_mean_prefix_and_shares_to_one(accepted):
    share = shares(accepted)
    assert share.sum() == pytest.approx(1)
    survive = survival_of(share)
    assert survive.sum() == pytest.approx(np.mean(accepted))
    for j, p in enumerate(survive, start=1):
        assert p == pytest.approx(np.mean([a >= j for a in accepted]))
    assert len(survive) == max(accepted) + 1
    assert survive[-1] == 0


@pytest.mark.parametrize("run", ["ksweep", "controls", "adaptive", "baseline", "context"])
def test_published_survival_follows_from_the_published_histogram(published, run):
    key = {"baseline": "max_tokens", "context": "context_length"}.get(run, "arm")
    tails = {(r["arm"], r[key]): r["p_ge_j_from_1"] for r in published[f"{run}_survival"]["rows"]}
    for row in published[f"{run}_accepted_histogram"]["rows"]:
        share = np.array([row["p"].get(i, 0.0) for i in range(max(row["p"]) + 1)])
        assert survival_of(share) == pytest.approx(tails[row["arm"], row[key]], abs=6e-5)


def test_published_prefix_is_the_sum_of_the_published_survival(published):
    tails = {r["arm"]: r["p_ge_j_from_1"] for r in published["ksweep_survival"]["rows"]}
    for row in published["ksweep_summary"]["rows"]:
        if row["arm"] in tails:
            assert sum(tails[row["arm"]]) == pytest.approx(row["mean_accepted_prefix"], abs=2e-4)


def test_published_degeneration_follows_from_its_rows(published, act4s_rows):
    rows = pd.DataFrame(published["degeneration_rows"]["rows"])
    for found, said in zip(
        by_length(rows, act4s_rows), published["degeneration_by_length"]["rows"], strict=True
    ):
        assert found["max_tokens"] == said["max_tokens"]
        assert found["loop_free_prompts"] == said["clean_rows"]
        assert found["mean_looped_fraction"] == pytest.approx(
            said["mean_looped_fraction"], abs=1e-4
        )
        assert found["mean_acceptance"] == pytest.approx(said["mean_acceptance"], abs=1e-4)
        clean, looped = said["clean_mean_acceptance"], said["looped_mean_acceptance"]
        assert found["loop_free_acceptance"] == pytest.approx(clean, abs=1e-4)
        assert found["looped_acceptance"] == pytest.approx(looped, abs=1e-4)
        assert found["pearson_r"] == pytest.approx(said["r_loop_vs_acceptance"], abs=1e-3)


def test_tables_of_prefixes_are_whole(act4s_rows, act4s_cells):
    counts, tails = histogram(act4s_cells), survival(act4s_cells)
    assert counts.groupby(PLACE)["probability"].sum().to_numpy() == pytest.approx(1)
    means = counts.assign(sum=counts["accepted"] * counts["probability"]).groupby(PLACE)["sum"]
    assert tails.groupby(PLACE)["p_survive"].sum().to_numpy() == pytest.approx(means.sum())
    cycles = sum(len(run.cycles) for run in act4s_rows.timed().values())
    assert counts["cycles"].sum() == cycles
    assert "ar" not in set(counts["arm"])
    assert "precision" not in set(counts["run"])


def test_slots_pay_where_their_survival_is_above_their_share(act4s_rows, act4s_cells):
    table = slot_break_even(act4s_cells, act4s_rows).set_index(["arm", "j"])
    cell = act4s_cells["ksweep", act4s_rows.sample.tokens, 0, "pooled"]
    sizes = act4s_rows.sample.block_sizes
    cycle_ms = [sum(stage_ms(cell.of(f"uno_k{size}")).values()) for size in sizes]
    price, _ = np.polyfit(sizes, cycle_ms, 1)
    assert set(table.index) == {(f"uno_k{k}", j) for k in sizes for j in range(1, k)}
    for (arm, j), row in table.iterrows():
        size = int(arm.removeprefix("uno_k"))
        accepted = cell.cycles_of(arm)["accepted"].to_numpy()
        committed = 2 + sum(np.mean(accepted >= i) for i in range(1, j))
        before_ms = cycle_ms[sizes.index(size)] - (size - j) * price
        assert row["slot_ms"] == pytest.approx(price)
        assert row["committed_per_cycle"] == pytest.approx(committed)
        assert row["cycle_ms"] == pytest.approx(before_ms)
        assert row["break_even"] == pytest.approx(committed * price / before_ms)
        assert row["pays"] == int(np.mean(accepted >= j) > row["break_even"])


def test_a_sweep_of_one_block_size_has_no_slot_price(act4s_rows, act4s_cells):
    only = act4s_rows.sample.model_copy(update={"block_sizes": [4]})
    table = slot_break_even(act4s_cells, replace(act4s_rows, sample=only))
    assert table.empty
    assert list(table)[:3] == ["arm", "j", "p_survive"]


def test_choices_of_a_policy_are_shares_of_its_cycles(act4s_rows, act4s_cells):
    table = policy_choices(act4s_cells, act4s_rows)
    assert table.groupby("arm")["share"].sum().to_numpy() == pytest.approx(1)
    survives = table[table["arm"] == "adapt_survival"]
    assert survives["block_size"].tolist() == [2]
    cycles = act4s_rows.runs["adaptive"].cycles
    whole = cycles[cycles["arm"] == "adapt_confidence"]
    found = table[table["arm"] == "adapt_confidence"]
    for size, n in zip(found["block_size"], found["cycles"], strict=True):
        assert n == (whole["offered"] == size - 1).sum()


def test_phases_split_the_cycles_where_the_native_text_begins_to_repeat(act4s_rows, act4s_cells):
    table = loop_phases(act4s_cells, act4s_rows)
    assert not table.duplicated(["arm", "phase"]).any()
    tokens = act4s_rows.sample.tokens
    for run, arm in [("ksweep", "uno_k4"), ("controls", "ngram2_k4")]:
        cycles = act4s_cells[run, tokens, 0, "pooled"].cycles_of(arm)
        found = table[table["arm"] == arm]
        assert found["cycles"].sum() == len(cycles)
        assert (found["mean_accepted"] * found["cycles"]).sum() == pytest.approx(
            cycles["accepted"].sum()
        )
        # Looping texts of the generator repeat 12 tokens: the 20th token completes the first
        # repeated 8-gram.
        rows = act4s_rows.runs[run].generations
        looped = set(rows.loc[rows["looped_fraction"] > 0, "prompt_id"])
        inside = 0
        for prompt in looped:
            end = cycles.loc[cycles["prompt_id"] == prompt, "committed"].cumsum()
            inside += int((end >= 20).sum())
        assert found.loc[found["phase"] == "inside", "cycles"].sum() == inside > 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=45), st.integers(1, 12))
def test_bins_are_equal_cuts_of_the_sorted_pairs(pairs, count):
    points = pd.DataFrame([(x / 10, y) for x, y in pairs], columns=["top1", "accepted"])
    found = bins(points, count)
    ordered, n = sorted((x / 10, y) for x, y in pairs), len(pairs)
    expected = []
    for b in range(count):
        part = ordered[b * n // count : (b + 1) * n // count]
        if part:
            mean_x, mean_y = np.mean(part, axis=0)
            expected.append((b, pytest.approx(mean_x), pytest.approx(mean_y), len(part)))
    assert [tuple(row.values()) for row in found] == expected


def test_confidence_bins_hold_every_cycle_and_rise(act4s_rows, act4s_cells):
    table = confidence_bins(act4s_cells, act4s_rows)
    pooled = table[table["subset"] == "pooled"]
    cycles = act4s_rows.runs["confidence"].cycles
    assert pooled["n"].sum() == len(cycles)
    assert pooled["mean_top1"].is_monotonic_increasing
    assert pooled["n"].max() - pooled["n"].min() <= 1
    assert pooled["mean_accepted"].iloc[-1] > pooled["mean_accepted"].iloc[0]
    assert 0 < table.loc[table["subset"] == "loop_free", "n"].sum() < len(cycles)


def test_spread_of_confidence(published):
    table = pd.DataFrame(published["confidence_bins"]["rows"]).assign(subset="pooled")
    assert spread(table) == pytest.approx(7.56, abs=0.01)
    assert spread(table.assign(mean_accepted=0.0)) is None
    assert spread(table.iloc[:0]) is None
