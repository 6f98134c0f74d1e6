"""Intervals for a share."""

from scipy.stats import binomtest, norm


def wilson(successes: int, n: int, z: float) -> tuple[float, float]:
    """Wilson score interval of a share at a normal quantile `z`; NaN for n = 0.

    scipy takes a confidence level, so `z` (1.96 in the published tables, which is not quite 95 %)
    is turned into the level that belongs to it.
    """
    if n == 0:
        return float("nan"), float("nan")
    level = float(1 - 2 * norm.sf(z))
    interval = binomtest(successes, n).proportion_ci(confidence_level=level, method="wilson")
    return float(interval.low), float(interval.high)
