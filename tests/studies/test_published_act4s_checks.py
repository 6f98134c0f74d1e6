"""Published figures recomputed from one another: what holds, what does not, what is noticed."""

import copy

import pytest

from diffdraft.studies.act4s.settings import Act4sAnalysis
from diffdraft.studies.published import act4s_replay
from diffdraft.studies.published.act4s_checks import forwards_a_cycle
from diffdraft.studies.published.act4s_records import modes
from diffdraft.studies.published.agreement import below, group, half, near
from diffdraft.studies.published.figures import Figures, read_published
from tests.studies.act4s_plan import ANALYSIS, PUBLISHED

SETTINGS = Act4sAnalysis.from_plan("plan", "analysis", ANALYSIS)


@pytest.fixture(scope="module")
def values():
    return read_published(PUBLISHED)


@pytest.fixture(scope="module")
def groups(values):
    return act4s_replay.checks(Figures(values), SETTINGS)


def misses(groups):
    return {pair.figure: pair for group in groups for pair in group.misses}


def test_figures_that_do_not_come_out_as_printed_are_these(groups):
    found = {figure: (p.printed, round(p.recomputed, 4)) for figure, p in misses(groups).items()}
    assert found == {
        "confidence_bins spread, last over first bin": (7.5, 7.5585),
        "gates 0 ar_tok_s, lowest over all runs": (48.0, 47.31),
        "gates 0 sd, lowest over all runs": (0.29, 0.2745),
        "refine4_times_slower than refine1": (2.8, 1.6083),
        "steps between confidence deciles": (10, 9),
        "confidence deciles, rising steps": (9, 8),
        "ksweep_survival uno_k8 j=4, said to be below": (0.05, 0.0542),
        "ksweep_survival uno_k16 j=4, said to be below": (0.05, 0.0784),
        "accepted prefix, modes": (2, 1),
    }


def test_all_tables_of_runs_hold(groups):
    assert [g.scope for g in groups if not g.holds] == ["confidence", "gates", "text"]
    assert len(groups) == 86
    assert sum(g.figures for g in groups) > 1200
    assert len({(g.scope, g.check) for g in groups}) == len(groups)


@pytest.mark.parametrize(
    ("block", "index", "column", "value", "check"),
    [
        ("ksweep_summary", 4, "speedup_vs_ar", 1.2459, "speed-ups from medians"),
        ("context_summary", 1, "decode_speedup_vs_ar", 1.0899, "speed-ups from medians"),
        ("ksweep_summary", 4, "mean_committed_per_cycle", 3.0442, "committed tokens a cycle"),
        ("baseline_summary", 2, "cycles", 20737, "committed tokens a cycle"),
        ("ksweep_summary_clean", 4, "cycles", 2038, "cycles of equal repeats"),
        ("controls_summary", 1, "ms_per_token_median", 17.63, "milliseconds a token"),
        ("controls_summary", 4, "tpf_median", 1.3206, "tokens a forward"),
        ("ksweep_survival", 2, "p_ge_j_from_1", [0.59789, 0.3243, 0.1475, 0], "survival from"),
        ("adaptive_accepted_histogram", 0, "p", {0: 0.4, 1: 0.59}, "shares add up"),
        ("ksweep_summary", 4, "mean_accepted_prefix", 1.0704, "mean prefix from the histogram"),
        ("ksweep_by_category", 5, "rows", 8, "sums and means over categories"),
        ("adaptive_summary", 5, "acceptance_rate", 0.3493, "arms that decode the same"),
        ("derived_estimator_comparison", 3, "ratio_of_means", 1.2568, "three estimators"),
        (
            "derived_context_cost_only",
            4,
            "decode_speedup_at_constant_committed",
            1.2325,
            "speed-ups at constant draftability",
        ),
        ("degeneration_rows", 3, "looped_fraction", 0.06, "loop-free counts"),
        ("degeneration_by_length", 0, "r_loop_vs_acceptance", 0.53, "means and correlations"),
        ("degeneration_rows", 4, "acceptance_rate", 0.2915, "acceptance rates"),
        ("confidence_bins", 3, "n", 342, "deciles"),
        ("divergence_audit", 0, "exact_ties", 97, "counts of every run"),
        ("losslessness_in_run", 2, "identical", 280, "counts of every run"),
        ("divergence_audit", 1, "divergences", 183, "totals"),
        ("k4_128_divergent_prompts", 0, "gap_in_ulps", 0.0, "prompts at K=4"),
        ("gates", 5, "best_adaptive", 1.25, "figures of the gate table"),
        ("category_k4_table", 0, "speedup_k4", 1.419, "category table"),
        ("adaptive_k_choice_fractions", 0, "k8", 0.6, "shares of chosen block sizes"),
    ],
)
def test_a_changed_figure_fails_its_check(values, groups, block, index, column, value, check):
    changed = copy.deepcopy(values)
    changed[block]["rows"][index][column] = value
    before = {(g.check, figure) for g in groups for figure in (p.figure for p in g.misses)}
    after = {
        (g.check, pair.figure)
        for g in act4s_replay.checks(Figures(changed), SETTINGS)
        for pair in g.misses
    }
    assert any(name.startswith(check) for name, _ in after - before)


def test_right_statements_would_hold(values):
    changed = copy.deepcopy(values)
    changed["report_statements"] |= {
        "refine4_times_slower": 1.6,
        "confidence_steps": 9,
        "confidence_rising_steps": 8,
        "slot_4_survival_below": 0.08,
        "accepted_prefix_modes": 1,
    }
    held = {g.check: g.holds for g in act4s_replay.checks(Figures(changed), SETTINGS)}
    assert held["statements about the tables"]


def test_a_group_keeps_the_largest_difference_and_both_numbers_of_a_miss():
    made = group("s", "c", [near("a", 1.0, 1.04, half(1)), near("b", 1.0, 1.06, half(1))])
    assert made.largest_difference == pytest.approx(0.06)
    assert not made.holds
    assert made.to_json()["misses"] == [{"figure": "b", "printed": 1.0, "recomputed": 1.06}]


def test_half_a_unit_agrees_and_a_bound_is_strict():
    assert near("a", 48.9, 48.85, half(1)).agrees
    assert not near("a", 48.9, 48.849, half(1)).agrees
    assert not below("a", 0.05, 0.05).agrees
    assert below("a", 0.05, 0.0499).agrees


@pytest.mark.parametrize(
    ("arm", "forwards"),
    [("ngram2_k4", 1), ("uno_k4", 2), ("refine1_k4", 2), ("refine4_k4", 5), ("adapt_ev", 2)],
)
def test_forwards_a_cycle(arm, forwards):
    assert forwards_a_cycle(arm) == forwards


@pytest.mark.parametrize(
    ("shares", "count"), [([0.4, 0.3, 0.2], 1), ([0.4, 0.2, 0.4], 2), ([0.1, 0.5, 0.4], 1)]
)
def test_modes(shares, count):
    assert modes(shares) == count
