"""A straight line through points, by least squares."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import linregress


class Line(NamedTuple):
    """y = intercept + slope x, and the share of the variance of y that it explains."""

    intercept: float
    slope: float
    r_squared: float


def fit_line(x_N: npt.ArrayLike, y_N: npt.ArrayLike) -> Line | None:
    """Ordinary least squares; None for fewer than two different x.

    `r_squared` is 1 where y does not vary, since the line then fits it.
    """
    x, y = np.asarray(x_N, dtype=np.float64), np.asarray(y_N, dtype=np.float64)
    if len(np.unique(x)) < 2:
        return None
    found = linregress(x, y)
    constant = np.ptp(y) == 0
    r_squared = 1.0 if constant else float(found.rvalue) ** 2
    return Line(float(found.intercept), float(found.slope), r_squared)
