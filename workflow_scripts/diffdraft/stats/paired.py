"""Times of several arms on the same clusters (prompts), compared by logarithms.

All comparisons share their resamples, so that differences between arms are paired. Where the best
of several arms is taken, it is taken again in every resample: choosing on the data that judges
would make the chosen one look better than it is.
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

    def log_ratio(self, arms: Sequence[str], against: Sequence[str]) -> Estimate:
        """Mean log ratio of the best of `against` to the best of `arms`; above 0 `arms` win."""
        value = self._least(arms, against, self.log_time_CA.mean().to_numpy()[None])
        means_RA = np.column_stack(
            [self.bootstrap.means(self.log_time_CA[arm].to_numpy()) for arm in self.log_time_CA]
        )
        return _estimate(float(value[0]), self._least(arms, against, means_RA), self.percentiles)

    def _least(self, arms: Sequence[str], against: Sequence[str], mean_RA: Array) -> Array:
        place = {arm: i for i, arm in enumerate(self.log_time_CA)}
        best_R = mean_RA[:, [place[arm] for arm in arms]].min(axis=1)
        other_R = mean_RA[:, [place[arm] for arm in against]].min(axis=1)
        return np.asarray(other_R - best_R)


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
