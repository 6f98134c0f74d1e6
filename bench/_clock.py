"""Timing for the bars."""

import time
from collections.abc import Callable


def fastest(work: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of some runs, after one that warms up."""
    work()
    return min(seconds(work) for _ in range(repeats))


def seconds(work: Callable[[], object]) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
