"""Search: which path of a draft goes to the verifier.

A width policy chooses before the draft; a search chooses after it, knowing what the drafter said.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from operator import mul
from typing import Protocol

from diffdraft.drafters.base import Proposal
from diffdraft.errors import UserError


class Search(Protocol):
    """One rule for all cycles of a generation."""

    def choose(self, proposal: Proposal) -> Proposal:
        """The part of the proposal to verify; its given tokens are always in it."""
        ...


@dataclass(frozen=True)
class WholeBlock:
    """All that was proposed."""

    def choose(self, proposal: Proposal) -> Proposal:
        """The proposal itself."""
        return proposal


@dataclass(frozen=True)
class ConfidentPrefix:
    """The longest prefix that the drafter itself holds likely enough to stand.

    Offered tokens stay while the running product of their top-1 probabilities is at least `floor`:
    were the drafter's probabilities those of acceptance, and slots independent, that product would
    be the chance that all of them are accepted.

    Raises:
        UserError: `floor` is not a number from 0 to 1.
    """

    floor: float

    def __post_init__(self) -> None:
        real = isinstance(self.floor, int | float) and not isinstance(self.floor, bool)
        if not (real and 0 <= self.floor <= 1):
            raise UserError("search", "floor", self.floor, "a probability, from 0 to 1")

    def choose(self, proposal: Proposal) -> Proposal:
        """The given tokens and the likely prefix of the others.

        Raises:
            ValueError: the drafter did not say how confident it is in each offered token.
        """
        if len(proposal.confidence) != proposal.offered:
            raise ValueError("a confident prefix needs the drafter's confidence in every token")
        kept = self._likely([slot.top1 for slot in proposal.confidence])
        log_probs_NV = proposal.log_probs_NV
        return replace(
            proposal,
            tokens=proposal.tokens[: proposal.given + kept],
            log_probs_NV=None if log_probs_NV is None else log_probs_NV[:kept],
            confidence=proposal.confidence[:kept],
        )

    def _likely(self, top1: Sequence[float]) -> int:
        return len(list(takewhile(lambda product: product >= self.floor, accumulate(top1, mul))))
