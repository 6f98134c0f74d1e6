"""Controls: drafters that know nothing, for what drafting costs when it cannot help.

An untrained or a wrongly trained adapter is a control too, but needs no code: it is another
adapter in a `UnoDrafter`.
"""

from dataclasses import dataclass

from diffdraft.drafters.base import DraftRequest, Proposal
from diffdraft.drafters.noise import noise_ids, random_key
from diffdraft.drafters.sizes import check_size


@dataclass(frozen=True)
class RandomDrafter:
    """Offers token ids uniform in [1, `noise_high`), keyed by `seed` and cycle.

    Raises:
        UserError: `noise_high` is not a whole number of at least 2: there is no id to draw.
    """

    noise_high: int
    seed: int

    def __post_init__(self) -> None:
        check_size("drafter", "noise_high", self.noise_high, least=2)

    def propose(self, request: DraftRequest) -> Proposal:
        """`block_size` - 1 offered tokens; no forward."""
        key = random_key(self.seed, "eval_sampling", request.cycle)
        tokens_N = noise_ids(key, (request.block_size - 1,), self.noise_high)
        tokens: list[int] = tokens_N.tolist()  # type: ignore[assignment]
        return Proposal(tokens, given=0, forwards=0)
