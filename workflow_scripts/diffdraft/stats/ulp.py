"""One unit in the last place: how far apart neighbouring numbers of a format are."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Format(NamedTuple):
    """A binary floating-point format: stored significand bits, and the least normal exponent."""

    fraction_bits: int
    least_exponent: int

    @property
    def smallest(self) -> float:
        """The smallest number above zero, which is also the distance of all subnormal numbers."""
        return 2.0 ** (self.least_exponent - self.fraction_bits)


FORMATS = {"bfloat16": Format(7, -126), "float32": Format(23, -126)}


def ulp(x: npt.ArrayLike, dtype: str) -> Array:
    """2^(floor(log2 |x|) - fraction bits) of each number: the distance to the next larger one.

    Zero and what is not finite get the smallest number of the format (2^-133 in bfloat16), as do
    subnormal numbers. `x` holds numbers of the format in any wider dtype.

    Raises:
        ValueError: `dtype` is neither "bfloat16" nor "float32".
    """
    if dtype not in FORMATS:
        raise ValueError(f"no ULP of {dtype!r}; of {', '.join(FORMATS)}")
    form = FORMATS[dtype]
    values = np.abs(np.asarray(x, dtype=np.float64))
    normal = np.isfinite(values) & (values > 0)
    # frexp gives the exponent exactly, where log2 may round up to the next power of two.
    _, exponent = np.frexp(np.where(normal, values, 1.0))
    spacing = np.ldexp(1.0, exponent - 1 - form.fraction_bits)
    return np.where(normal, np.maximum(spacing, form.smallest), form.smallest)
