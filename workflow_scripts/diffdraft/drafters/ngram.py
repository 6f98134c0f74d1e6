"""The n-gram drafter: what followed the last tokens when they stood in the text before.

Prompt lookup with one n-gram order (qwen-block-diffusion-lab). It knows nothing but the text, so
it drafts without a forward, and lives on repetition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from diffdraft.drafters.base import DraftRequest, Proposal
from diffdraft.drafters.sizes import check_size


@dataclass(frozen=True)
class NgramDrafter:
    """Looks the last `order` tokens up in prompt and generated text.

    Raises:
        UserError: `order` is not a whole number of at least 1.
    """

    order: int

    def __post_init__(self) -> None:
        check_size("drafter", "order", self.order)

    def propose(self, request: DraftRequest) -> Proposal:
        """`block_size` - 1 offered tokens, or none; no forward.

        With the seed they are as many verify rows as the block size says.
        """
        tokens = _follow(request.history, self.order, request.block_size - 1)
        return Proposal(tokens, given=0, forwards=0)


def _follow(history: Sequence[int], order: int, wanted: int) -> list[int]:
    """The tokens after the latest occurrence that has all the `wanted` ones behind it."""
    pattern = history[-order:]
    for start in range(len(history) - order - wanted, -1, -1):
        end = start + order
        if history[start:end] == pattern:
            return list(history[end : end + wanted])
    return []
