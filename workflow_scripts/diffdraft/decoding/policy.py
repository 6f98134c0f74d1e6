"""Width policies: how many rows the next draft gets, decided from the past only."""

from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from diffdraft.decoding.trace import Cycle
from diffdraft.drafters.sizes import check_size


class Policy(Protocol):
    """One generation's width policy."""

    def block_size(self) -> int:
        """Rows of the next draft, chosen before it is run."""
        ...

    def observe(self, cycle: Cycle, logits_WV: mx.array) -> None:
        """Learn from a finished cycle and the target's verify logits."""
        ...


@dataclass(frozen=True)
class FixedBlock:
    """Always the same block size K: the given token and K - 1 offered ones.

    Raises:
        UserError: `size` is not a whole number of at least 1.
    """

    size: int

    def __post_init__(self) -> None:
        check_size("policy", "block size", self.size)

    def block_size(self) -> int:
        """K."""
        return self.size

    def observe(self, cycle: Cycle, logits_WV: mx.array) -> None:
        """A fixed size has nothing to learn."""
