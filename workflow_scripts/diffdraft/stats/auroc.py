"""How well scores and probabilities tell accepted rows from rejected ones.

Shapes: every argument is one value a row, [N]; `accepted` holds 0 and 1.
"""

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata, spearmanr

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.integer]


def auroc(accepted_N: Labels, score_N: Array) -> float:
    """Area under the ROC curve as the Mann-Whitney statistic, average ranks for ties.

    NaN when a class is missing.
    """
    positives = int(accepted_N.sum())
    negatives = len(accepted_N) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    rank_sum = rankdata(score_N)[accepted_N == 1].sum()
    return float((rank_sum - positives * (positives + 1) / 2) / (positives * negatives))


def average_precision(accepted_N: Labels, score_N: Array) -> float:
    """Mean over accepted rows of the precision at their place in descending score.

    Equal scores keep the order of the rows and are not grouped, as qwen-block-diffusion-lab
    (RPRM stage 1) computes it, so the value depends on that order. NaN without an accepted row.
    """
    hits = accepted_N[np.argsort(-score_N, kind="stable")] == 1
    if not hits.any():
        return float("nan")
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean())


def log_losses(accepted_N: Labels, probability_N: Array, clip: float) -> Array:
    """Negative log-likelihood of each row in nats, probabilities kept in [clip, 1 - clip]."""
    p_N = np.clip(probability_N, clip, 1 - clip)
    return -np.where(accepted_N == 1, np.log(p_N), np.log1p(-p_N))


def log_loss(accepted_N: Labels, probability_N: Array, clip: float) -> float:
    """Mean of `log_losses`, in nats a row."""
    return float(log_losses(accepted_N, probability_N, clip).mean())


def spearman(accepted_N: Labels, value_N: Array) -> float:
    """Rank correlation with average ranks; NaN when either side is constant."""
    if np.ptp(value_N) == 0 or np.ptp(accepted_N) == 0:
        return float("nan")
    return float(spearmanr(value_N, accepted_N).statistic)
