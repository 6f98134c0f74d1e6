"""Acceptance rules: how much of a proposal the target lets stand, and its own token after that."""

from typing import NamedTuple, Protocol

import mlx.core as mx

from diffdraft.drafters.base import Proposal


class Decision(NamedTuple):
    """`accepted` of the offered tokens stand, and `next_token` follows them."""

    accepted: int
    next_token: int


class Acceptance(Protocol):
    """A rule over one proposal."""

    def accept(self, proposal: Proposal, logits_WV: mx.array) -> Decision:
        """Decide from the verify logits.

        Row i of `logits_WV` is the target's distribution after the seed and the first i proposed
        tokens, so proposed token i is judged by row i; W is the number of proposed tokens plus 1.
        """
        ...


class GreedyAcceptance:
    """Accept the longest offered prefix that the target would have chosen itself.

    The commit is what greedy decoding of the target alone would have said (Leviathan et al.,
    2211.17192, with temperature 0): the token after the prefix is the target's replacement for
    the first miss, or one token beyond a block without a miss.
    """

    def accept(self, proposal: Proposal, logits_WV: mx.array) -> Decision:
        """See `Acceptance.accept`; of equal logits the lowest token id counts."""
        choices: list[int] = mx.argmax(logits_WV, axis=-1).tolist()  # type: ignore[assignment]
        place = proposal.given
        while place < len(proposal.tokens) and proposal.tokens[place] == choices[place]:
            place += 1
        return Decision(place - proposal.given, choices[place])
