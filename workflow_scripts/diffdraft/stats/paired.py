"""Times of several arms on the same clusters (prompts), compared by logarithms.

All comparisons share their resamples, so that differences between arms are paired. Choosing the
best of several arms on the data that judges would make it look better than it is, and choosing it
again in every resample keeps that bias, so the bounds of a best arm are simultaneous ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd

from diffdraft.stats.bootstrap import ClusterBootstrap, interval

Array = npt.NDArray[np.float64]
Percentiles = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """A value over the clusters, with percentile bounds over the resamples."""

    value: float
    low: float
    high: float


@lru_cache(maxsize=16)
def shared_resamples(clusters: tuple[str, ...], resamples: int, seed: int) -> ClusterBootstrap:
    """Resamples of these clusters, drawn once for all that is asked of them."""
    return ClusterBootstrap.draw(clusters, resamples, seed)


def log_times(
    rows: pd.DataFrame, cluster: str = "prompt_id", arm: str = "arm", time: str = "wall_seconds"
) -> pd.DataFrame:
    """Mean log time of every cluster (rows) in every arm (columns), over its repeats.

    With every repeat there in every arm, a difference of two columns is the mean over repeats of
    the log ratio within the same repeat. An arm that some cluster lacks is a ValueError.
    """
    logs = np.log(rows[time]).groupby([rows[cluster], rows[arm]]).mean().unstack(arm)
    if logs.isna().to_numpy().any():
        raise ValueError("every cluster needs every arm")
    return logs


@dataclass(frozen=True)
class PairedLogs:
    """Mean log time of every cluster [C] in every arm [A]; `bootstrap` draws clusters."""

    log_time_CA: pd.DataFrame = field(repr=False)
    bootstrap: ClusterBootstrap = field(repr=False)
    percentiles: Percentiles

    @classmethod
    def of(
        cls, log_time_CA: pd.DataFrame, resamples: int, seed: int, percentiles: Percentiles
    ) -> "PairedLogs":
        """Draw the resamples of the clusters that index `log_time_CA`, or find them drawn."""
        bootstrap = shared_resamples(tuple(map(str, log_time_CA.index)), resamples, seed)
        return cls(log_time_CA, bootstrap, percentiles)

    def __len__(self) -> int:
        return len(self.log_time_CA)

    def per_cluster(self, arm: str, against: str) -> Array:
        """Log ratio of `against` time to `arm` time, [C]; above 0 `arm` is faster there."""
        return (self.log_time_CA[against] - self.log_time_CA[arm]).to_numpy(dtype=np.float64)

    def log_ratio(self, arm: str, against: str) -> Estimate:
        """Mean log ratio of `against` time to `arm` time; above 0 `arm` is faster."""
        return self._log_ratio(arm, against, self.percentiles)

    def best_ratio(self, arms: Sequence[str], against: Sequence[str]) -> Estimate:
        """Mean log ratio of the best of `arms` to the best of `against`, bounds for all at once.

        Each of the m arms is held against whichever of the others leaves it least. The lower bound
        is the largest of the m lower ones, each at 1/m of its tail (Bonferroni; beating all others
        needs no correction, Berger 1982), so it lies above 0 for no arm that is not better with no
        more than the nominal probability. The upper bound is the largest of the m upper ones.
        """
        low, high = self.percentiles
        shared = (low / len(arms), 100 - (100 - high) / len(arms))
        least = [self._least(arm, against, shared) for arm in arms]
        return Estimate(
            *(max(getattr(one, name) for one in least) for name in ("value", "low", "high"))
        )

    def _least(self, arm: str, against: Sequence[str], percentiles: Percentiles) -> Estimate:
        ratios = [self._log_ratio(arm, other, percentiles) for other in against]
        return Estimate(
            *(min(getattr(one, name) for one in ratios) for name in ("value", "low", "high"))
        )

    def _log_ratio(self, arm: str, against: str, percentiles: Percentiles) -> Estimate:
        ratio_C = self.per_cluster(arm, against)
        return _estimate(float(ratio_C.mean()), self.bootstrap.means(ratio_C), percentiles)


def clustered_mean(
    values: pd.Series, resamples: int, seed: int, percentiles: Percentiles
) -> Estimate:
    """Mean of one value a cluster; the index names the clusters."""
    ordered = values.sort_index()
    bootstrap = shared_resamples(tuple(map(str, ordered.index)), resamples, seed)
    value_C = ordered.to_numpy(dtype=np.float64)
    return _estimate(float(value_C.mean()), bootstrap.means(value_C), percentiles)


def _estimate(value: float, statistic_R: Array, percentiles: Percentiles) -> Estimate:
    found = interval(statistic_R, percentiles)
    return Estimate(value, found.low, found.high)
