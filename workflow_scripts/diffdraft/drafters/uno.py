"""The Uno drafter: noise rows behind the seed, one forward of the target with its adapter on them.

Input `[seed, noise, ..., noise]`, K rows, adapter off on the seed row and on on the others
(Uno, 2609.04010). Row i predicts the token i + 1 places after the seed, so row 0 gives the frozen
model's own next token and rows 1 to K - 1 the proposals.
"""

from dataclasses import dataclass

import mlx.core as mx

from diffdraft.drafters.base import DraftRequest, Proposal
from diffdraft.drafters.noise import noise_ids, random_key
from diffdraft.layers.lora import Adapter
from diffdraft.targets.load import Target


@dataclass(frozen=True)
class UnoDrafter:
    """Drafts one block in one forward. `seed` names the generation: same seed, same noise."""

    target: Target
    adapter: Adapter
    seed: int

    def propose(self, request: DraftRequest) -> Proposal:
        """A block of exactly `block_size` tokens, the first of them given."""
        slots = request.block_size - 1
        key = random_key(self.seed, "bench_noise", request.cycle)
        noise = noise_ids(key, (slots,), self.target.noise_high)
        ids_BK = mx.concatenate([mx.array([request.history[-1]], dtype=mx.int32), noise])[None]
        gate_BK = mx.array([[0] + [1] * slots])
        with self.adapter.rows(gate_BK):
            logits_BKV = self.target.model(ids_BK, cache=request.cache)
        tokens: list[int] = mx.argmax(logits_BKV[0], axis=-1).tolist()  # type: ignore[assignment]
        return Proposal(tokens, given=1, forwards=1)
