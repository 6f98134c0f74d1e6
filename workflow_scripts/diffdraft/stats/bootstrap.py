"""The clustered bootstrap: whole clusters (windows, prompts) are drawn with replacement.

Predictions stay fixed; only which clusters count, and how often, changes. Every resample draws
`integers(0, C, C)` from one generator, over clusters in sorted order, as qwen-block-diffusion-lab
(RPRM stage 1) does, so the same rows give the same resamples.

Shapes: N rows, C clusters, R resamples. A resample is a row of `weight_RC`: how often each
cluster was drawn. What depends on rows is reduced to clusters once; resampling is then a matrix
product, whatever R is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.integer]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Interval:
    """Mean and percentile bounds over the resamples where the statistic exists."""

    mean: float
    low: float
    high: float
    resamples: int
    skipped: int


@dataclass(frozen=True)
class ClusterBootstrap:
    """R resamples of the C clusters that N rows belong to."""

    cluster_N: Indices
    weight_RC: Array

    @classmethod
    def draw(
        cls, ids: Sequence[str] | npt.NDArray[np.str_], resamples: int, seed: int
    ) -> "ClusterBootstrap":
        """Draw the resamples; `ids` names the cluster of each row."""
        names, cluster_N = np.unique(np.asarray(ids, dtype=object), return_inverse=True)
        n = len(names)
        draws_RC = np.random.default_rng(seed).integers(0, n, (resamples, n))
        flat = (draws_RC + n * np.arange(resamples)[:, None]).ravel()
        weight_RC = np.bincount(flat, minlength=resamples * n).reshape(resamples, n)
        return cls(cluster_N, weight_RC.astype(np.float64))

    def sums(self, value_N: Array) -> Array:
        """Sum over the rows of each resample, [R]."""
        n_clusters = self.weight_RC.shape[1]
        return self.weight_RC @ np.bincount(self.cluster_N, value_N, minlength=n_clusters)

    def means(self, value_N: Array) -> Array:
        """Mean over the rows of each resample, [R]."""
        return self.sums(value_N) / self.sums(np.ones(len(value_N)))

    def aurocs(self, accepted_N: Labels, score_N: Array) -> Array:
        """AUROC of each resample, [R]; NaN where a class is missing.

        The numerator is w' K w with w the cluster weights and K[c, d] the number of pairs of an
        accepted row of c above a rejected row of d, ties one half. All terms are multiples of
        one half and far below 2^53, so the result is exact before the division.
        """
        wins_CC = self._wins(accepted_N, score_N)
        wins_R = np.einsum("rc,rc->r", self.weight_RC @ wins_CC, self.weight_RC)
        accepted_R = self.sums(accepted_N.astype(np.float64))
        pairs_R = accepted_R * self.sums((accepted_N == 0).astype(np.float64))
        return np.divide(wins_R, pairs_R, out=np.full_like(wins_R, np.nan), where=pairs_R > 0)

    def _wins(self, accepted_N: Labels, score_N: Array) -> Array:
        """K of `aurocs`, [C, C], one cluster of accepted rows at a time to bound memory."""
        n_clusters = self.weight_RC.shape[1]
        rejected = accepted_N == 0
        score_M, cluster_M = score_N[rejected], self.cluster_N[rejected]
        wins_CC = np.zeros((n_clusters, n_clusters))
        for cluster in np.unique(self.cluster_N[~rejected]):
            own = np.sort(score_N[~rejected & (self.cluster_N == cluster)])
            below_M = np.searchsorted(own, score_M, side="left")
            not_above_M = np.searchsorted(own, score_M, side="right")
            won_M = len(own) - (below_M + not_above_M) / 2
            wins_CC[cluster] = np.bincount(cluster_M, won_M, minlength=n_clusters)
        return wins_CC


def interval(statistic_R: Array, percentiles: tuple[float, float]) -> Interval:
    """Percentile interval; resamples without the statistic (NaN) are skipped and counted."""
    kept = statistic_R[~np.isnan(statistic_R)]
    skipped = len(statistic_R) - len(kept)
    if len(kept) == 0:
        return Interval(float("nan"), float("nan"), float("nan"), 0, skipped)
    low, high = np.percentile(kept, percentiles)
    return Interval(float(kept.mean()), float(low), float(high), len(kept), skipped)
