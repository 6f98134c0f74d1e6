"""Tables of the RPRM study: acceptance by bin, by offset, calibration, ROC and PR curves."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import precision_recall_curve, roc_curve

from diffdraft.stats.auroc import auroc
from diffdraft.stats.bootstrap import ClusterBootstrap, Interval, interval
from diffdraft.stats.intervals import wilson
from diffdraft.stats.quantiles import bin_of, quantile_edges
from diffdraft.studies.rprm.models import GAP, TEACHER, UNCERTAINTY, Prediction
from diffdraft.studies.rprm.settings import RprmAnalysis
from diffdraft.studies.rprm.strata import Stratum

PREDICTORS = {"entropy": UNCERTAINTY, "gap": GAP, "teacher_entropy": TEACHER}
CURVES = (
    "1_progress_only",
    "4_progress_uncertainty",
    "5_progress_existing",
    "6_progress_existing_uncertainty",
)
CALIBRATED = ("1_progress_only", "5_progress_existing", "6_progress_existing_uncertainty")

Array = npt.NDArray[np.float64]
Records = list[dict[str, Any]]


def quantile_table(
    stratum: Stratum, column: str, analysis: RprmAnalysis, windows: ClusterBootstrap
) -> Records:
    """Acceptance on TEST by bin of a column, edges from FIT with its offsets pooled.

    `ci_low` and `ci_high` are Wilson's, as published: positions taken as independent of each
    other. `cluster_ci_low` and `cluster_ci_high` are percentiles over resampled `windows`. An
    empty bin has n = 0 and null elsewhere.
    """
    edges = quantile_edges(stratum.fit.column(column), analysis.quantile_bins)
    value_N, accepted_N = stratum.test.column(column), stratum.test.accepted_N
    bin_N = bin_of(value_N, edges)
    records = []
    for index in range(analysis.quantile_bins):
        inside = bin_N == index
        n, k = int(inside.sum()), int(accepted_N[inside].sum())
        low, high = wilson(k, n, analysis.wilson_z)
        cluster = share_interval(windows, accepted_N, inside, analysis)
        record = {
            "quintile": index,
            "n": n,
            "mean_value": float(value_N[inside].mean()) if n else None,
            "acceptance": k / n if n else None,
            "ci_low": low if n else None,
            "ci_high": high if n else None,
            "cluster_ci_low": or_none(cluster.low),
            "cluster_ci_high": or_none(cluster.high),
        }
        records.append(record)
    return records


def share_interval(
    windows: ClusterBootstrap,
    accepted_N: npt.NDArray[np.int64],
    inside_N: npt.NDArray[np.bool_],
    analysis: RprmAnalysis,
) -> Interval:
    """Interval of the share accepted among some rows; resamples without such rows are skipped."""
    rows_R = windows.sums(inside_N.astype(np.float64))
    accepted_R = windows.sums((accepted_N * inside_N).astype(np.float64))
    share_R = np.divide(accepted_R, rows_R, out=np.full_like(rows_R, np.nan), where=rows_R > 0)
    return interval(share_R, analysis.interval_percentiles)


def differences(quantiles: Records) -> list[float]:
    """Acceptance of each bin minus that of the bin below; empty bins are passed over."""
    filled = [record["acceptance"] for record in quantiles if record["n"]]
    return [float(d) for d in np.diff(filled)]


def within_offset_table(stratum: Stratum, analysis: RprmAnalysis) -> Records:
    """Each offset by itself: AUROC of low entropy and of low gap, acceptance of the outer bins."""
    return [
        _offset_record(stratum, int(offset), analysis)
        for offset in sorted(stratum.test.rows["offset"].unique())
    ]


def _offset_record(stratum: Stratum, offset: int, analysis: RprmAnalysis) -> dict[str, Any]:
    at_fit = stratum.fit.rows["offset"].to_numpy() == offset
    at_test = stratum.test.rows["offset"].to_numpy() == offset
    edges = quantile_edges(stratum.fit.column(UNCERTAINTY)[at_fit], analysis.within_offset_bins)
    entropy_N = stratum.test.column(UNCERTAINTY)[at_test]
    accepted_N = stratum.test.accepted_N[at_test]
    bin_N = bin_of(entropy_N, edges)
    low, high = accepted_N[bin_N == 0], accepted_N[bin_N == analysis.within_offset_bins - 1]
    enough = min(len(low), len(high)) >= analysis.adequate_bucket_n
    return {
        "offset": offset,
        "n": len(accepted_N),
        "acceptance": float(accepted_N.mean()),
        "auroc_neg_entropy": or_none(auroc(accepted_N, -entropy_N)),
        "auroc_neg_gap": or_none(auroc(accepted_N, -stratum.test.column(GAP)[at_test])),
        "n_low": len(low),
        "acc_low": float(low.mean()) if len(low) else None,
        "n_high": len(high),
        "acc_high": float(high.mean()) if len(high) else None,
        "adequate": bool(len(accepted_N) >= analysis.adequate_cell_n and enough),
    }


def or_none(value: float) -> float | None:
    """A number for JSON, which has no NaN."""
    return None if np.isnan(value) else value


def calibration_table(
    stratum: Stratum, predictions: dict[str, Prediction], analysis: RprmAnalysis
) -> Records:
    """Mean prediction and observed share by quantile of the TEST prediction; empty bins dropped."""
    records = []
    for model in CALIBRATED:
        p_N = predictions[model].probability_N
        bin_N = bin_of(p_N, quantile_edges(p_N, analysis.calibration_bins))
        for index in np.unique(bin_N):
            inside = bin_N == index
            record = {
                "stratum": stratum.name,
                "model": model,
                "bin": int(index),
                "n": int(inside.sum()),
                "predicted": float(p_N[inside].mean()),
                "observed": float(stratum.test.accepted_N[inside].mean()),
            }
            records.append(record)
    return records


def curve_tables(
    stratum: Stratum, predictions: dict[str, Prediction]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Points of the ROC and of the precision-recall curves; equal scores make one point."""
    roc, pr = [], []
    for model in CURVES:
        key = {"stratum": stratum.name, "model": model}
        accepted_N, p_N = stratum.test.accepted_N, predictions[model].probability_N
        fpr, tpr, _ = roc_curve(accepted_N, p_N)
        roc.append(pd.DataFrame({**key, "fpr": fpr, "tpr": tpr}))
        precision, recall, _ = precision_recall_curve(accepted_N, p_N, drop_intermediate=True)
        pr.append(pd.DataFrame({**key, "recall": recall, "precision": precision}))
    return pd.concat(roc, ignore_index=True), pd.concat(pr, ignore_index=True)
