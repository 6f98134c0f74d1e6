"""Quantile bins: interpolation and the rule for a value on an edge."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.stats.quantiles import bin_of, quantile_edges


def test_edges_interpolate_linearly():
    np.testing.assert_allclose(quantile_edges(np.arange(10.0), 5), [1.8, 3.6, 5.4, 7.2])


def test_a_value_on_an_edge_goes_up():
    edges = np.array([0.0, 1.0])
    np.testing.assert_array_equal(bin_of(np.array([-1, 0, 0.5, 1, 2]), edges), [0, 1, 1, 2, 2])


def test_zeros_leave_the_lowest_bin_empty():
    values = np.array([0.0] * 50 + list(range(1, 51)))
    bins = bin_of(values, quantile_edges(values, 5))
    assert 0 not in bins
    assert (bins[:50] == 2).all()  # the 20 % and the 40 % quantile are both 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.integers(2, 6))
def test_each_bin_is_between_its_edges(values, bins):
    values = np.array(values)
    edges = quantile_edges(values, bins)
    index = bin_of(values, edges)
    low, high = np.r_[-np.inf, edges], np.r_[edges, np.inf]
    assert ((low[index] <= values) & (values < high[index])).all()
