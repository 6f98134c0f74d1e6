"""How much of a generated text only repeats itself.

(qwen-block-diffusion-lab, degeneration diagnostic.) A small model's greedy text falls into loops,
and a loop is easy to draft: a speed-up on such text says little about a drafter.
"""

from collections.abc import Sequence

DECIMALS = 4  # as published


def looped_fraction(ids: Sequence[int], n: int) -> float:
    """Share of the n-grams of a text that occurred in it before, rounded to 4 decimals.

    0 for a text shorter than two n-grams (16 tokens for the published n of 8).
    """
    if len(ids) < 2 * n:
        return 0.0
    repeats = _repeats(ids, n)
    return round(sum(repeats) / len(repeats), DECIMALS)


def distinct_ratio(ids: Sequence[int]) -> float:
    """Number of distinct tokens over number of tokens, of a text of at least one token."""
    return len(set(ids)) / len(ids)


def loop_onset(ids: Sequence[int], n: int) -> int | None:
    """Tokens of the text when its first repeated n-gram is complete; None if none repeats."""
    repeats = _repeats(ids, n)
    return repeats.index(True) + n if True in repeats else None


def _repeats(ids: Sequence[int], n: int) -> list[bool]:
    """For each n-gram of the text, whether it occurred at an earlier place."""
    if n < 1:
        raise ValueError(f"n-grams have at least one token, not {n}")
    seen: set[tuple[int, ...]] = set()
    repeats = []
    for start in range(len(ids) - n + 1):
        gram = tuple(ids[start : start + n])
        repeats.append(gram in seen)
        seen.add(gram)
    return repeats
