"""Printed figures against the same figures recomputed from others that were printed."""

from collections.abc import Iterable
from dataclasses import dataclass

from diffdraft.studies.published.figures import Json

SLACK = 1e-9  # of the figures' own arithmetic, far below any printed digit


@dataclass(frozen=True)
class Pair:
    """One figure, as printed and recomputed, and whether that counts as agreement."""

    figure: str
    printed: float
    recomputed: float
    agrees: bool

    def to_json(self) -> Json:
        return {"figure": self.figure, "printed": self.printed, "recomputed": self.recomputed}


@dataclass(frozen=True)
class Group:
    """One group of recomputed figures; those that do not agree stand with both numbers."""

    scope: str
    check: str
    figures: int
    largest_difference: float
    misses: list[Pair]

    @property
    def holds(self) -> bool:
        return not self.misses

    def to_json(self) -> Json:
        own = {"scope": self.scope, "check": self.check, "figures": self.figures}
        found = {"largest_difference": self.largest_difference, "holds": self.holds}
        return {**own, **found, "misses": [pair.to_json() for pair in self.misses]}


def half(decimals: int) -> float:
    """Half a unit of the last digit printed."""
    return 0.5 * 10.0**-decimals


def near(figure: str, printed: float, recomputed: float, tolerance: float = 0.0) -> Pair:
    """A figure that should come out as printed, but for rounding."""
    agrees = abs(printed - recomputed) <= tolerance + SLACK
    return Pair(figure, printed, recomputed, agrees)


def below(figure: str, bound: float, recomputed: float) -> Pair:
    """A figure that was said to lie below a bound."""
    return Pair(figure, bound, recomputed, recomputed < bound)


def group(scope: str, check: str, pairs: Iterable[Pair]) -> Group:
    """Put pairs together; there must be one at least."""
    listed = list(pairs)
    largest = max(abs(pair.printed - pair.recomputed) for pair in listed)
    misses = [pair for pair in listed if not pair.agrees]
    return Group(scope, check, len(listed), largest, misses)
