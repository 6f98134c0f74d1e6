"""Wilson intervals: the closed form, the published rounding, the edges."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.stats.intervals import wilson


def closed_form(k, n, z):
    p, denominator = k / n, 1 + z * z / n
    centre = (p + z * z / (2 * n)) / denominator
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / denominator
    return max(0.0, centre - half), min(1.0, centre + half)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_closed_form(k_n):
    assert wilson(*k_n, 1.96) == pytest.approx(closed_form(*k_n, 1.96), abs=1e-10)


def test_z_is_used_as_given():
    assert wilson(185, 469, 1.96) != wilson(185, 469, 1.959963984540054)
    assert wilson(185, 469, 1.96) == pytest.approx((0.35125, 0.43937), abs=5e-6)  # published


def test_nothing_observed():
    assert all(map(math.isnan, wilson(0, 0, 1.96)))
