"""Two texts, as token ids, side by side."""

from collections.abc import Sequence
from itertools import zip_longest


def first_divergence(a: Sequence[object], b: Sequence[object]) -> int:
    """The first place, from 0, where two texts differ; -1 if nowhere.

    Where one text is the beginning of the other, it is the place after the shorter one.
    """
    pairs = enumerate(zip_longest(a, b))
    return next((place for place, (left, right) in pairs if left != right), -1)
