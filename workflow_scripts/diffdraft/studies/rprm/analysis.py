"""RPRM stage 1 as qwen-block-diffusion-lab coded it: position rows to figures and metrics.

`analyse` mirrors the published analysis JSON, stratum by stratum, unrounded. `metrics` names the
numbers that a plan's criteria may use. Nothing here compares a number with a bound.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from diffdraft.stats.auroc import log_losses, spearman
from diffdraft.stats.bootstrap import ClusterBootstrap, Interval, interval
from diffdraft.studies.rprm import models, tables
from diffdraft.studies.rprm.models import COMPARISONS, MODELS, Prediction
from diffdraft.studies.rprm.settings import RprmAnalysis, RprmSeeds
from diffdraft.studies.rprm.strata import Part, Stratum, load_strata

SPEARMAN_COLUMNS = (
    "normalized_entropy",
    "top1_probability",
    "top1_top2_margin",
    "existing_draftability_score",
    "teacher_entropy",
    "corrupt_entropy",
)

Json = dict[str, Any]
Metrics = dict[str, dict[str, float | None]]


@dataclass(frozen=True)
class StratumResult:
    """Figures of one stratum, and the tables that go to CSV."""

    name: str
    figures: Json
    metrics: Metrics
    calibration: tables.Records
    roc: pd.DataFrame
    pr: pd.DataFrame


def analyse(
    frame: pd.DataFrame, analysis: RprmAnalysis, seeds: RprmSeeds, file: object = "positions"
) -> list[StratumResult]:
    """Analyse a checked position table of one adapter.

    Raises:
        UserError: too few windows for the plan, or a split with one class only.
    """
    n_windows = frame["example_id"].nunique()
    return [
        _analyse_stratum(stratum, n_windows, analysis, seeds)
        for stratum in load_strata(frame, analysis, seeds.split, file)
    ]


def _analyse_stratum(
    stratum: Stratum, n_windows: int, analysis: RprmAnalysis, seeds: RprmSeeds
) -> StratumResult:
    predictions = {key: models.predict(stratum, model, analysis) for key, model in MODELS.items()}
    scored: Json = {key: models.scores(stratum, p, analysis) for key, p in predictions.items()}
    progress_auroc = scored["1_progress_only"]["auroc"]
    scored[models.SHUFFLED] = models.shuffled_control(stratum, analysis, seeds.shuffle_first)
    windows = ClusterBootstrap.draw(stratum.test.windows, analysis.resamples, seeds.bootstrap_auroc)
    quantiles = {
        f"quintiles_{name}": tables.quantile_table(stratum, column, analysis, windows)
        for name, column in tables.PREDICTORS.items()
    }
    figures = {
        "stratum": stratum.name,
        **_sizes(stratum.fit, "fit"),
        **_sizes(stratum.test, "test"),
        "models": scored,
        **quantiles,
        "within_offset": tables.within_offset_table(stratum, analysis),
        "spearman_test": _correlations(stratum.test),
        "diagnostic_alternatives": models.diagnostics(stratum, analysis, progress_auroc),
        "comparisons": _comparisons(stratum, predictions, scored, analysis, seeds, windows),
    }
    figures["effects"] = _effects(figures, analysis)
    roc, pr = tables.curve_tables(stratum, predictions)
    calibration = tables.calibration_table(stratum, predictions, analysis)
    metrics = metrics_of(figures, n_windows)
    return StratumResult(stratum.name, figures, metrics, calibration, roc, pr)


def _sizes(part: Part, name: str) -> Json:
    return {
        f"n_{name}": len(part.rows),
        f"windows_{name}": part.rows["example_id"].nunique(),
        f"acceptance_{name}": float(part.accepted_N.mean()),
    }


def _correlations(test: Part) -> dict[str, float | None]:
    values = {name: spearman(test.accepted_N, test.column(name)) for name in SPEARMAN_COLUMNS}
    return {name: tables.or_none(value) for name, value in values.items()}


def _comparisons(
    stratum: Stratum,
    predictions: dict[str, Prediction],
    scored: Json,
    analysis: RprmAnalysis,
    seeds: RprmSeeds,
    by_auroc: ClusterBootstrap,
) -> Json:
    """Model 4 against 1 and 6 against 5. Both AUROC comparisons share one set of resamples."""
    test, keys = stratum.test, {key[0]: key for key in MODELS}
    p_N = {number: predictions[key].probability_N for number, key in keys.items()}
    auroc = {number: scored[key]["auroc"] for number, key in keys.items()}
    by_loss = ClusterBootstrap.draw(test.windows, analysis.resamples, seeds.bootstrap_log_loss)
    out: Json = {}
    for better, worse in COMPARISONS:
        gain_R = by_auroc.aurocs(test.accepted_N, p_N[better]) - by_auroc.aurocs(
            test.accepted_N, p_N[worse]
        )
        out[f"{better}_vs_{worse}_auroc_delta"] = auroc[better] - auroc[worse]
        gain = interval(gain_R, analysis.interval_percentiles)
        out[f"{better}_vs_{worse}_bootstrap"] = _interval_json(gain, "delta_mean")
    losses_5, losses_6 = (
        log_losses(test.accepted_N, p_N[number], analysis.probability_clip) for number in "56"
    )
    reduction = interval(by_loss.means(losses_5 - losses_6), analysis.interval_percentiles)
    out["6_vs_5_logloss"] = _interval_json(reduction, "reduction_mean")
    return out


def _interval_json(found: Interval, mean_name: str) -> Json:
    return {
        mean_name: tables.or_none(found.mean),
        "ci_low": tables.or_none(found.low),
        "ci_high": tables.or_none(found.high),
        "n_resamples": found.resamples,
        "n_skipped": found.skipped,
    }


def _effects(figures: Json, analysis: RprmAnalysis) -> Json:
    """Cells that can be judged and cells with the sign of the hypothesis; steps over the bins."""
    adequate = [cell for cell in figures["within_offset"] if cell["adequate"]]
    signs = [cell["auroc_neg_entropy"] for cell in adequate]
    return {
        "n_adequate_cells": len(adequate),
        "n_cells_signed": sum(s is not None and s > analysis.cell_auroc_above for s in signs),
        "quintile_inversions": tables.differences(figures["quintiles_entropy"]),
    }


def metrics_of(figures: Json, n_windows: int) -> Metrics:
    """The metrics of one scope, from figures in the published layout."""
    scored, effects, compared = figures["models"], figures["effects"], figures["comparisons"]
    steps = effects["quintile_inversions"]
    shuffled = scored["7_shuffled_control"]["auroc_p97_5"]
    reduction = compared["6_vs_5_logloss"]
    alternatives = figures["diagnostic_alternatives"]
    return {
        "n_windows": _metric(n_windows),
        "acceptance_test": _metric(figures["acceptance_test"]),
        "quintile_inversions": _metric(sum(step > 0 for step in steps)),
        "quintile_max_inversion": _metric(max([0.0, *steps])),
        "cells_adequate": _metric(effects["n_adequate_cells"]),
        "cells_signed": _metric(effects["n_cells_signed"]),
        "auroc_gain_4_over_1": _metric(
            compared["4_vs_1_auroc_delta"], compared["4_vs_1_bootstrap"]
        ),
        "auroc_4_minus_shuffled_p97_5": _metric(
            scored["4_progress_uncertainty"]["auroc"] - shuffled
        ),
        "auroc_gain_6_over_5": _metric(
            compared["6_vs_5_auroc_delta"], compared["6_vs_5_bootstrap"]
        ),
        "logloss_reduction_6_over_5": _metric(reduction["reduction_mean"], reduction),
        "auroc_gain_top1_probability": _metric(
            alternatives["top1_probability"]["delta_vs_progress"]
        ),
        "auroc_gain_margin": _metric(alternatives["top1_top2_margin"]["delta_vs_progress"]),
        "auroc_gain_effective_support": _metric(
            alternatives["effective_support"]["delta_vs_progress"]
        ),
    }


def _metric(value: float, bounds: Json | None = None) -> dict[str, float | None]:
    bounds = bounds or {}
    return {"value": value, "ci_low": bounds.get("ci_low"), "ci_high": bounds.get("ci_high")}
