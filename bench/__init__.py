"""Bars, each measured in one run against its own baseline.

One module a subject; `measure()` yields what it found. Nothing where the comparison does not exist
on this platform.
"""

from dataclasses import dataclass

from diffdraft import fast_blas

fast_blas.use()  # before any of the modules imports MLX


@dataclass(frozen=True)
class Measured:
    """A number beside its bar: at least the bar, or below it where `at_most` is set."""

    name: str
    value: float
    bar: float
    unit: str = "x"
    at_most: bool = False
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.value <= self.bar if self.at_most else self.value >= self.bar
