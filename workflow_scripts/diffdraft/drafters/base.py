"""What a drafter is: something that proposes the next tokens, at a known price in forwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import mlx.core as mx


class SlotConfidence(NamedTuple):
    """A drafter's softmax at one offered token, in float32.

    `top1` is the probability of the token itself, the largest of the row, and `margin` what the
    second largest falls short of it. Both lie in [0, 1].
    """

    top1: float
    margin: float


@dataclass(frozen=True)
class Proposal:
    """Tokens that a drafter puts before the target, to follow the last committed token.

    The first `given` tokens are the target's own (a Uno block's first row runs the frozen model),
    so they are committed unchecked; the others are offered for acceptance. `log_probs_NV` are the
    drafter's for the offered tokens, where the acceptance rule is a sampling one. `confidence` has
    one entry an offered token, and is empty where the drafter was not asked for it.
    """

    tokens: list[int]
    given: int
    forwards: int
    log_probs_NV: mx.array | None = None
    confidence: tuple[SlotConfidence, ...] = ()

    @property
    def offered(self) -> int:
        """Number of tokens that the acceptance rule decides on."""
        return len(self.tokens) - self.given


@dataclass(frozen=True)
class DraftRequest:
    """What a drafter may look at: all tokens so far, and the target's cache.

    `history` is prompt and generated text; its last token, the seed, is not in `cache` yet.
    A drafter may run the cache forward: the decode loop takes it back. `cycle` counts from 1.
    """

    history: Sequence[int]
    cache: list[Any]
    block_size: int
    cycle: int


class Drafter(Protocol):
    """One generation's drafter."""

    def propose(self, request: DraftRequest) -> Proposal:
        """Up to `block_size` tokens to follow the history; none at all is allowed."""
        ...
