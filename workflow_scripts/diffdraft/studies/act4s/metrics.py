"""The metrics that the plan's criteria may use: paired, and by each published estimator."""

import math
from typing import Any

import numpy as np
import pandas as pd

from diffdraft.stats.paired import Estimate, PairedLogs, clustered_mean
from diffdraft.studies.act4s.cells import Cells, headline, paired_logs
from diffdraft.studies.act4s.comparisons import as_json
from diffdraft.studies.act4s.design import POLICY_ARMS, uno_arms
from diffdraft.studies.act4s.published_estimators import ESTIMATORS, per_cycle, speedups
from diffdraft.studies.act4s.study_rows import StudyRows

PAIRED = "paired"
CONFIDENT = "adapt_confidence"
Metrics = dict[str, dict[str, Any]]


def scopes(
    cells: Cells, study: StudyRows, audit: pd.DataFrame, margin: float
) -> dict[str, Metrics]:
    """All metrics by scope. Counts and published estimators have no interval: bounds = value."""
    counts = {**_native(cells, study), **_correctness(audit, study)}
    shared = {name: exact(value) for name, value in counts.items()}
    paired = {**shared, **_paired(cells, study, margin)}
    published = {name: {**shared, **_published(cells, study, name)} for name in ESTIMATORS}
    return {PAIRED: paired, **published}


def exact(value: float | None) -> dict[str, Any]:
    """A number without an interval."""
    return {"value": value, "ci_low": value, "ci_high": value}


def _native(cells: Cells, study: StudyRows) -> dict[str, float | None]:
    base = study.analysis.baseline_arm
    native = pd.concat(
        [run.generations[run.generations["arm"] == base] for run in study.timed().values()]
    )
    return {
        "ar_identical": float(native["identical"].mean()),
        "ar_repeat_sd": repeat_sd_log(headline(cells, "ksweep", study).of(base)),
    }


def repeat_sd_log(native: pd.DataFrame) -> float | None:
    """Root mean square over prompts of the sd of log wall over repeats; None for one repeat."""
    if native["repeat"].nunique() < 2:
        return None
    variance = np.log(native["wall_seconds"]).groupby(native["prompt_id"]).var()
    return math.sqrt(float(variance.mean()))


def _correctness(audit: pd.DataFrame, study: StudyRows) -> dict[str, int]:
    return {
        "beyond_one_ulp": int(audit["beyond_one_ulp"].sum()),
        "beyond_exact_tie": int((audit["divergent"] - audit["exact_ties"]).sum()),
    }


def _paired(cells: Cells, study: StudyRows, margin: float) -> Metrics:
    analysis = study.analysis
    base, arm = analysis.baseline_arm, analysis.arm
    sizes = uno_arms(study.sample.block_sizes)
    sweep_cell = headline(cells, "ksweep", study)
    sweep = paired_logs(sweep_cell, study)
    adaptive = paired_logs(headline(cells, "adaptive", study), study)
    fixed = uno_arms(study.sample.policies.allowed)
    accepted = sweep_cell.cycles_of(analysis.arm).groupby("prompt_id")["accepted"].mean()
    prefix = clustered_mean(
        accepted, analysis.resamples, study.seeds.bootstrap, analysis.interval_percentiles
    )
    others = [size for size in sizes if size != arm]
    return {
        "mean_accepted_prefix": as_json(prefix),
        **primary(sweep.log_ratio(arm, base), margin),
        **beyond("any_faster_by", sweep.best_ratio(sizes, [base]), margin),
        **beyond("other_faster_by", sweep.best_ratio(others, [base]), margin),
        **choosing(adaptive, fixed, margin),
    }


def primary(ratio: Estimate, margin: float) -> Metrics:
    """The primary arm against native decoding, and beyond the margin."""
    slower = Estimate(-ratio.value, -ratio.high, -ratio.low)
    return {
        "k4_speedup_log": as_json(ratio),
        **beyond("k4_faster_by", ratio, margin),
        **beyond("k4_slower_by", slower, margin),
        "k4_outside": exact(max(abs(ratio.low), abs(ratio.high)) - margin),
        "aa_margin": exact(margin),
    }


def beyond(name: str, ratio: Estimate, margin: float) -> Metrics:
    """A log ratio less the margin."""
    less = Estimate(ratio.value - margin, ratio.low - margin, ratio.high - margin)
    return {name: as_json(less)}


def choosing(logs: PairedLogs, fixed: tuple[str, ...], margin: float) -> Metrics:
    """Arms that choose the width while decoding against the best fixed block of the same run."""
    best = logs.best_ratio(POLICY_ARMS, fixed)
    return {
        "adaptive_over_fixed": as_json(best),
        **beyond("adaptive_faster_by", best, margin),
        "confidence_over_fixed": as_json(logs.best_ratio([CONFIDENT], fixed)),
    }


def _published(cells: Cells, study: StudyRows, estimator: str) -> Metrics:
    analysis = study.analysis
    sweep = published_logs(cells, study, "ksweep", estimator)
    adaptive = published_logs(cells, study, "adaptive", estimator)
    margin, sizes = analysis.margin_floor, uno_arms(study.sample.block_sizes)
    others = [size for size in sizes if size != analysis.arm]
    fixed = max(adaptive[arm] for arm in uno_arms(study.sample.policies.allowed))
    chosen = max(adaptive[arm] for arm in POLICY_ARMS) - fixed
    k4 = headline(cells, "ksweep", study).of(analysis.arm)
    return {
        "mean_accepted_prefix": exact(per_cycle(k4, "accepted")),
        **primary(_point(sweep[analysis.arm]), margin),
        **beyond("any_faster_by", _point(max(sweep[size] for size in sizes)), margin),
        **beyond("other_faster_by", _point(max(sweep[size] for size in others)), margin),
        "adaptive_over_fixed": exact(chosen),
        **beyond("adaptive_faster_by", _point(chosen), margin),
        "confidence_over_fixed": exact(adaptive[CONFIDENT] - fixed),
    }


def _point(value: float) -> Estimate:
    return Estimate(value, value, value)


def published_logs(cells: Cells, study: StudyRows, run: str, estimator: str) -> dict[str, float]:
    """Logarithm of the speed-up of every arm of a run by a published estimator."""
    cell = headline(cells, run, study)
    native = cell.of(study.analysis.baseline_arm)
    return {arm: math.log(speedups(cell.of(arm), native)[estimator]) for arm in cell.arms}
