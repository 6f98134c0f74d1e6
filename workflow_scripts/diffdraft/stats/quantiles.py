"""Bins by quantile: edges from one sample, applied to another."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def quantile_edges(values_N: Array, bins: int) -> Array:
    """The `bins` - 1 inner quantiles, linearly interpolated between order statistics."""
    return np.quantile(values_N, np.arange(1, bins) / bins, method="linear")


def bin_of(values_N: Array, edges: Array) -> npt.NDArray[np.intp]:
    """Bin 0 … len(edges) of each value; a value equal to an edge belongs to the upper bin."""
    return np.searchsorted(edges, values_N, side="right")
