"""The formula against the bits: the distance to the next number of the format."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.stats.ulp import FORMATS, ulp

SHIFT = {"bfloat16": 16, "float32": 0}  # bits that a bfloat16 lacks at the end of a float32
LARGEST_EXPONENT_BITS = 0xFF << 23  # infinity; NaN above


def number(bits, dtype):
    """The number of a format with these bits, as float64."""
    return float(np.array(bits << SHIFT[dtype], dtype=np.uint32).view(np.float32))


def next_distance(bits, dtype):
    """The slow oracle: the number with the next bits, minus the number."""
    return number(bits + 1, dtype) - number(bits, dtype)


@pytest.mark.parametrize("dtype", FORMATS)
@given(st.data())
def test_is_the_distance_to_the_next_representable_number(dtype, data):
    last_finite = (LARGEST_EXPONENT_BITS >> SHIFT[dtype]) - 2  # its next is finite as well
    bits = data.draw(st.integers(1, last_finite))
    sign = data.draw(st.sampled_from([-1, 1]))
    assert ulp(sign * number(bits, dtype), dtype) == next_distance(bits, dtype)


def test_every_positive_bfloat16_at_once():
    bits = np.arange(1, 0x7F7F, dtype=np.uint32)  # the largest finite one is 0x7F7F
    numbers = (bits << 16).view(np.float32).astype(np.float64)
    above = ((bits + 1) << 16).view(np.float32).astype(np.float64)
    assert np.array_equal(ulp(numbers, "bfloat16"), above - numbers)
    assert np.array_equal(ulp(-numbers, "bfloat16"), above - numbers)


@pytest.mark.parametrize(
    ("x", "dtype", "expected"),
    [
        (24.875, "bfloat16", 0.125),
        (15.4, "bfloat16", 0.0625),
        (16.0, "bfloat16", 0.125),
        (-16.0, "bfloat16", 0.125),
        (15.999999, "float32", 2.0**-20),
        (1.0, "float32", 2.0**-23),
    ],
)
def test_known_distances(x, dtype, expected):
    assert ulp(x, dtype) == expected


@pytest.mark.parametrize("x", [0.0, -0.0, np.inf, -np.inf, np.nan])
def test_zero_and_what_is_not_finite_get_the_smallest_number(x):
    assert ulp(x, "bfloat16") == 2.0**-133
    assert ulp(x, "float32") == 2.0**-149


def test_subnormal_numbers_are_equally_spaced():
    assert ulp(2.0**-130, "bfloat16") == 2.0**-133
    assert ulp(3 * 2.0**-149, "float32") == 2.0**-149


def test_a_power_of_two_is_not_rounded_into_the_next_binade():
    below = np.nextafter(np.float32(2.0**20), np.float32(0))
    assert ulp(below, "float32") == 2.0**-4
    assert ulp(2.0**20, "float32") == 2.0**-3


def test_shape_is_kept():
    assert ulp(np.ones((2, 3)), "float32").shape == (2, 3)


def test_unknown_format_is_refused():
    with pytest.raises(ValueError, match="no ULP of 'float16'"):
        ulp(1.0, "float16")
