"""Made-up tables of study `act4s`, with the columns that its analysis writes."""

import itertools
import math

import pandas as pd

CATEGORIES = ("verse", "law", "<i>list</i> $x_1$")
BLOCKS, K = (1, 2, 4, 8), 4
FIXED = [f"uno_k{block}" for block in BLOCKS]
CONTROLS = [
    *("refine1_k4", "refine2_k4", "refine4_k4", "ngram3_k4", "ngram2_k4"),
    *("untrained_k4", "shuffled_k4", "random_k4"),
]
ADAPTIVE = [
    *("adapt_entropy", "adapt_survival", "adapt_survival_repaired"),
    *("adapt_ev", "adapt_confidence"),
]
ARMS = {
    "baseline": ["ar", "uno_k4"],
    "ksweep": ["ar", *FIXED, "uno_k4_again"],
    "context": ["ar", "uno_k2", "uno_k4", "uno_k8"],
    "controls": ["ar", "uno_k4", *CONTROLS],
    "adaptive": ["ar", "uno_k2", "uno_k4", "uno_k8", *ADAPTIVE],
    "confidence": ["ar", "conf_k4"],
}
SPEED = {"ar": 1.0, "uno_k1": 0.5, "uno_k2": 0.68, "uno_k4": 0.66, "uno_k8": 0.55}
SUBSETS = ("pooled", "loop_free")


def places(run):
    """(max_tokens, prompt_tokens) of the cells of a run."""
    lengths = {"baseline": [(64, 0), (128, 0)], "context": [(64, 64), (64, 256), (64, 1024)]}
    return lengths.get(run, [(64, 0)])


def speed(run, arm, tokens, context):
    order = ARMS[run].index(arm)
    return SPEED.get(arm, 0.72 - 0.04 * order) * (1 - 0.0001 * (context + tokens) * (arm != "ar"))


def summary(subsets):
    rows = []
    for run, arms in ARMS.items():
        for (tokens, context), subset, arm in itertools.product(places(run), subsets, arms):
            ratio = speed(run, arm, tokens, context) * (1.05 if subset == "loop_free" else 1)
            rows.append(summary_row(run, tokens, context, subset, arm, ratio))
    return pd.DataFrame(rows)


def summary_row(run, tokens, context, subset, arm, ratio):
    native = arm == "ar"
    stages = {"draft_ms": 2.0, "verify_ms": 2.5, "commit_ms": 0.3, "overhead_ms": 0.4}
    return {
        **{"run": run, "max_tokens": tokens, "prompt_tokens": context, "subset": subset},
        **{"arm": arm, "rows": 9, "prompts": 3},
        **{"tok_s_median": 400 * ratio, "tok_s_mean": 401 * ratio, "tok_s_sd": 20.0},
        **{"tok_s_p25": 390 * ratio, "tok_s_p75": 410 * ratio, "decode_tok_s_median": 420 * ratio},
        **{"speedup_median_ratio": ratio, "speedup_mean_ratio": ratio * 1.01},
        **{"speedup_cycle_ratio": ratio * 0.99, "decode_speedup": ratio},
        **{"tpf_median": 1.0 if native else 0.7 + ratio, "ms_per_token_median": 2.5 / ratio},
        "prefill_ms_median": 3.0,
        "acceptance_rate_median": 0.0 if native else 0.28,
        "mean_accepted_prefix": 0.0 if native else 0.84,
        "mean_committed_per_cycle": 0.0 if native else 2.84,
        "cycles": 576 if native else 200,
        **{name: 0.0 if native else value for name, value in stages.items()},
        "identical_share": 1.0,
        **{"paired_speedup": ratio, "paired_ci_low": ratio * 0.96, "paired_ci_high": ratio * 1.04},
    }


def by_category():
    rows = []
    for run in ("baseline", "ksweep", "controls", "adaptive", "confidence"):
        for category, arm in itertools.product(CATEGORIES, ARMS[run]):
            ratio = speed(run, arm, 64, 0) * (1 + 0.1 * CATEGORIES.index(category))
            rows.append(
                {
                    **{"run": run, "max_tokens": 64, "category": category, "arm": arm, "rows": 3},
                    **{"tok_s_median": 400 * ratio, "speedup_median_ratio": ratio},
                    **{"paired_speedup": ratio, "mean_accepted_prefix": 0.8, "tpf_median": 1.2},
                    "looped_fraction": 0.3,
                }
            )
    return pd.DataFrame(rows)


def cycle_tables():
    """(histogram, survival): accepted of a cycle halves from one count to the next."""
    counts, survive = [], []
    for run in ("ksweep", "controls", "adaptive"):
        for arm in ARMS[run][1:]:
            most = BLOCKS[FIXED.index(arm)] - 1 if arm in FIXED else 3
            weights = [2.0**-a for a in range(most + 1)]
            key = {"run": run, "max_tokens": 64, "prompt_tokens": 0, "arm": arm}
            for accepted, weight in enumerate(weights):
                share = weight / sum(weights)
                counts.append({**key, "accepted": accepted, "cycles": 64, "probability": share})
            for j in range(1, most + 2):
                survive.append({**key, "j": j, "p_survive": sum(weights[j:]) / sum(weights)})
    return pd.DataFrame(counts), pd.DataFrame(survive)


def slot_break_even():
    rows = []
    for block in BLOCKS[1:]:
        for j in range(1, block):
            chance, needed = 0.5**j, 0.2
            key = {"arm": f"uno_k{block}", "j": j, "p_survive": chance, "slot_ms": 0.4}
            rest = {"cycle_ms": 5.0, "committed_per_cycle": 2.84, "break_even": needed}
            rows.append({**key, **rest, "pays": chance >= needed})
    return pd.DataFrame(rows)


def confidence_bins(subsets):
    return pd.DataFrame(
        {
            **{"subset": subset, "bin": i, "mean_top1": 0.05 + 0.1 * i},
            **{"mean_accepted": 0.2 + 0.18 * i, "n": 50 + i},
        }
        for subset in subsets
        for i in range(10)
    )


def policy_choices():
    return pd.DataFrame(
        {"arm": arm, "block_size": block, "cycles": 100 * block, "share": block / 14}
        for arm in ADAPTIVE
        for block in (2, 4, 8)
    )


def loops():
    """(degeneration, loop_phases)."""
    rows = [
        {
            **{"max_tokens": tokens, "category": CATEGORIES[p], "prompt_id": f"p{p}"},
            **{"looped_fraction": 0.1 + 0.2 * p, "distinct_ratio": 0.5},
            **{"acceptance_rate": 0.2 + 0.1 * p, "tokens_per_second": 250.0},
            "mean_accepted": 0.8,
        }
        for tokens in (64, 128)
        for p in range(3)
    ]
    phases = [
        {"arm": arm, "phase": phase, "prompts": 3, "cycles": 90, "mean_accepted": accepted}
        for arm in [*ARMS["ksweep"][1:], *CONTROLS]
        for phase, accepted in (("before", 0.5), ("inside", 1.1))
    ]
    return pd.DataFrame(rows), pd.DataFrame(phases)


def cost_tables():
    """(cost_curve, cost_parts, cost_model)."""
    curve, parts = [], []
    for dtype, kind in itertools.product(("float32", "bfloat16"), ("native", "draft", "verify")):
        for width in [1] if kind == "native" else range(1, 10):
            ms = 2.0 + 0.4 * width + (dtype == "bfloat16")
            key = {"dtype": dtype, "kind": kind, "width": width}
            spread = {"ms_median": ms, "ms_p25": ms * 0.95, "ms_p75": ms * 1.1}
            curve.append({**key, "passes": 30, **spread})
            for part, share in (("mlp", 0.5), ("mixer", 0.3), ("head", 0.2)):
                parts.append({**key, "part": part, "ms_median": share * ms, "share": share})
    model = [
        {
            **{"arm": arm, "block_size": block, "expected_committed": 2.8},
            **{"model_cycle_ms": 5.0 + block, "predicted_speedup": 0.9, "measured_speedup": 0.66},
            "measured_over_predicted": 0.66 / 0.9,
        }
        for arm, block in zip(FIXED, BLOCKS, strict=True)
    ]
    return pd.DataFrame(curve), pd.DataFrame(parts), pd.DataFrame(model)


def audit():
    """bfloat16 passes only the widest rule."""
    rows = []
    for run, dtype in [*((run, "float32") for run in ARMS), ("precision", "bfloat16")]:
        wide = dtype == "bfloat16"
        counts = {"rows_checked": 9, "identical": 9 - 4 * wide, "divergent": 4 * wide}
        kinds = {"exact_ties": 3 * wide, "within_one_ulp_not_tie": 1 * wide, "beyond_one_ulp": 0}
        gaps = {name: float(wide) if wide else math.nan for name in GAPS}
        rules = {"passes_strict": not wide, "passes_exact_tie": not wide, "passes_ulp": True}
        rows.append({"run": run, "dtype": dtype, **counts, **kinds, **gaps, **rules})
    return pd.DataFrame(rows)


GAPS = ("max_gap_in_ulps", "median_gap_in_ulps")


def ties_summary():
    return pd.DataFrame(
        {
            **{"dtype": dtype, "positions": 1728, "exact_ties": ties, "tie_rate": ties / 1728},
            **{"gap_median": 1.3, "gap_p05": 0.07},
        }
        for dtype, ties in (("float32", 0), ("bfloat16", 11))
    )


def tables(subsets=SUBSETS[:1]):
    """All tables by stem."""
    histogram, survival = cycle_tables()
    degeneration, phases = loops()
    curve, parts, model = cost_tables()
    return {
        **{"summary": summary(subsets), "by_category": by_category(), "histogram": histogram},
        **{"survival": survival, "slot_break_even": slot_break_even()},
        **{"confidence_bins": confidence_bins(subsets), "policy_choices": policy_choices()},
        **{"degeneration": degeneration, "loop_phases": phases, "cost_curve": curve},
        **{"cost_parts": parts, "cost_model": model, "audit": audit()},
        "ties_summary": ties_summary(),
    }
