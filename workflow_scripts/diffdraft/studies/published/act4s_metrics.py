"""The plan's metrics of Act IV-S, computed from the published summaries by one reading of them.

A reading chooses three things that the original could have chosen otherwise: the estimator of a
speed-up, the rows it is taken over, and the rule that tells a tie from a defect.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from diffdraft.studies.act4s.settings import Act4sAnalysis
from diffdraft.studies.published.figures import Figures, Json, Row

STAGES = ("proposal", "verify", "commit", "overhead")
NATIVE = "ar"  # what the published tables call it


def cycle_ms(row: Row) -> float:
    """Milliseconds a cycle: the sum of the medians of its four stages."""
    return sum(row[f"{stage}_ms"] for stage in STAGES)


def median_ratio(arm: Row, native: Row) -> float:
    """Median tokens a second over rows, against the native median: the published estimator."""
    return arm.positive("tok_s_median") / native.positive("tok_s_median")


def mean_ratio(arm: Row, native: Row) -> float:
    """Mean tokens a second over rows, against the native mean."""
    return arm.positive("tok_s_mean") / native.positive("tok_s_mean")


def cycle_ratio(arm: Row, native: Row) -> float:
    """Mean committed tokens a cycle over its milliseconds, against native decode-only speed."""
    per_second = 1000 * arm.positive("mean_committed_per_cycle") / cycle_ms(arm)
    return per_second / native.positive("decode_tok_s_median")


ESTIMATORS: dict[str, Callable[[Row, Row], float]] = {
    "median_ratio": median_ratio,
    "mean_ratio": mean_ratio,
    "cycle_ratio": cycle_ratio,
}
SUBSETS = {"pooled": "", "loop_free": "_clean"}  # the endings of the blocks' names
RULES = {"one_ulp": "beyond_one_ulp", "exact_tie": "beyond_exact_tie"}  # the metric that counts


@dataclass(frozen=True)
class Reading:
    """One way to read the published figures."""

    estimator: str
    subset: str
    correctness_rule: str

    def to_json(self) -> dict[str, str]:
        return asdict(self)


AS_PUBLISHED = Reading("median_ratio", "pooled", "one_ulp")


def all_readings() -> list[Reading]:
    return [Reading(*choice) for choice in itertools.product(ESTIMATORS, SUBSETS, RULES)]


def log_ratios(figures: Figures, run: str, reading: Reading) -> dict[str, float]:
    """Log speed-up over native decoding of every drafted arm of a run, by the reading."""
    block = f"{run}_summary{SUBSETS[reading.subset]}"
    native, estimate = figures.row(block, arm=NATIVE), ESTIMATORS[reading.estimator]
    arms = [row for row in figures.rows(block) if row.value("arm") != NATIVE]
    return {row.value("arm"): math.log(estimate(row, native)) for row in arms}


def starting(ratios: dict[str, float], prefix: str) -> dict[str, float]:
    """The arms of one family."""
    return {arm: ratio for arm, ratio in ratios.items() if arm.startswith(prefix)}


def divergences(figures: Figures) -> dict[str, int]:
    """Audited divergences, and how many each rule calls a defect.

    The audit was not published by subset: the counts are over all rows in every reading.
    """
    audit = figures.rows("divergence_audit")
    total = sum(row["divergences"] for row in audit)
    return {
        "audited": round(total),
        "beyond_one_ulp": round(sum(row["beyond_one_ulp"] for row in audit)),
        "beyond_exact_tie": round(total - sum(row["exact_ties"] for row in audit)),
    }


def metrics(figures: Figures, reading: Reading, analysis: Act4sAnalysis) -> Json:
    """Metrics by name, as the analysis of measured rows would write them for one scope.

    No figure was published with an interval, so the point stands for both bounds, and the
    margin is the plan's floor.
    """
    sweep = log_ratios(figures, "ksweep", reading)
    adaptive = log_ratios(figures, "adaptive", reading)
    block = f"ksweep_summary{SUBSETS[reading.subset]}"
    diffusion, margin = figures.row(block, arm=analysis.arm), analysis.margin_floor
    sizes, speedup = starting(sweep, "uno_k"), sweep[analysis.arm]
    others = [ratio for arm, ratio in sizes.items() if arm != analysis.arm]
    fixed = max(starting(adaptive, "uno_k").values())
    chosen = max(starting(adaptive, "adapt_").values()) - fixed
    values = {
        **native_metrics(figures, figures.row(block, arm=NATIVE)),
        **{name: divergences(figures)[name] for name in RULES.values()},
        "mean_accepted_prefix": diffusion["mean_accepted_prefix"],
        "k4_speedup_log": speedup,
        "k4_faster_by": speedup - margin,
        "k4_slower_by": -speedup - margin,
        "k4_outside": abs(speedup) - margin,
        "any_faster_by": max(sizes.values()) - margin,
        "other_faster_by": max(others) - margin,
        "adaptive_over_fixed": chosen,
        "adaptive_faster_by": chosen - margin,
        "aa_margin": margin,
    }
    return {name: dict.fromkeys(("value", "ci_low", "ci_high"), v) for name, v in values.items()}


def native_metrics(figures: Figures, native: Row) -> dict[str, float]:
    """Reproducibility of native decoding, which was not tabulated: see `STATED`."""
    stated = str(figures.row("gates", gate=0).value("result")).startswith("PASS")
    spread = native["tok_s_sd"] / native.positive("tok_s_median")
    return {"ar_identical": float(stated), "ar_repeat_sd": spread}


STATED = {  # what stands in for a metric without a figure of its own
    "ar_identical": "No figure. That repeats are identical was stated with gate 0.",
    "ar_repeat_sd": (
        "Standard deviation over all rows, prompts and repeats together, over their median: the"
        " spread over repeats alone was not published."
    ),
    "aa_margin": "No arm was run twice in the original; the plan's floor stands in.",
}


@dataclass(frozen=True)
class Finding:
    """What a reading says beside the criteria: whether one arm is ahead of another."""

    what: str
    log_ratio: float

    @property
    def outcome(self) -> str:
        return "ahead" if self.log_ratio > 0 else "not ahead"

    def to_json(self) -> Json:
        return {"what": self.what, "outcome": self.outcome, "value": self.log_ratio}


def findings(figures: Figures, reading: Reading, analysis: Act4sAnalysis) -> Iterator[Finding]:
    """Which arm is ahead: block sizes, n-gram lookup against diffusion, the arm in question."""
    ours = analysis.arm
    runs = {run: log_ratios(figures, run, reading) for run in ("ksweep", "controls", "adaptive")}
    fixed = starting(runs["ksweep"], "uno_k")
    for small, large in itertools.combinations(sorted(fixed, key=lambda arm: int(arm[5:])), 2):
        yield Finding(f"K={large[5:]} against K={small[5:]}", fixed[large] - fixed[small])
    for arm, ratio in starting(runs["controls"], "ngram").items():
        yield Finding(f"{arm} against {ours}", ratio - runs["controls"][ours])
    for run, ratios in runs.items():
        # One pass of refinement is the arm itself in another decoder: the original's self-check.
        others = [
            r for arm, r in ratios.items() if arm not in (ours, ours.replace("uno", "refine1"))
        ]
        yield Finding(f"{ours} against every other arm of {run}", ratios[ours] - max(others))
