"""The Uno drafter: noise rows behind the seed, one forward of the target with its adapter on them.

Input `[seed, noise, ..., noise]`, K rows, adapter off on the seed row and on on the others
(Uno, 2609.04010). Row i predicts the token i + 1 places after the seed, so row 0 gives the frozen
model's own next token and rows 1 to K - 1 the proposals.
"""

from dataclasses import dataclass

import mlx.core as mx

from diffdraft.decoding.cache_state import CacheSnapshot
from diffdraft.drafters.base import DraftRequest, Proposal, SlotConfidence
from diffdraft.drafters.noise import noise_ids, random_key
from diffdraft.drafters.sizes import check_size
from diffdraft.layers.lora import Adapter
from diffdraft.targets.load import Target


@dataclass(frozen=True)
class UnoDrafter:
    """Drafts one block in `passes` forwards. `seed` names the generation: same seed, same noise.

    Every pass after the first replaces the noise by the draft of the pass before. Row i stands at
    the place of draft token i - 1, so the block is read in moved by one: `[seed, *draft[:-1]]`
    (qwen-block-diffusion-lab, refinement). With `confidence`, the last pass says how sure it is of
    each offered token.

    Raises:
        UserError: `passes` is not a whole number of at least 1.
    """

    target: Target
    adapter: Adapter
    seed: int
    passes: int = 1
    confidence: bool = False

    def __post_init__(self) -> None:
        check_size("drafter", "passes", self.passes)

    def propose(self, request: DraftRequest) -> Proposal:
        """A block of exactly `block_size` tokens, the first of them given."""
        seed_1 = mx.array([request.history[-1]], dtype=mx.int32)
        before = CacheSnapshot.take(request.cache)
        behind_seed = self._noise(request)
        for index in range(self.passes):
            if index:
                before.restore()
            logits_KV = self._forward(mx.concatenate([seed_1, behind_seed]), request)
            tokens_K = mx.argmax(logits_KV, axis=-1).astype(mx.int32)
            behind_seed = tokens_K[:-1]
        tokens: list[int] = tokens_K.tolist()  # type: ignore[assignment]
        sure = slot_confidence(logits_KV[1:]) if self.confidence else ()
        return Proposal(tokens, given=1, forwards=self.passes, confidence=sure)

    def _noise(self, request: DraftRequest) -> mx.array:
        key = random_key(self.seed, "bench_noise", request.cycle)
        return noise_ids(key, (request.block_size - 1,), self.target.noise_high)

    def _forward(self, ids_K: mx.array, request: DraftRequest) -> mx.array:
        """Logits [K, V] of one pass, the adapter on every row but the seed's."""
        gate_BK = mx.array([[0] + [1] * (request.block_size - 1)])
        with self.adapter.rows(gate_BK):
            return self.target.model(ids_K[None], cache=request.cache)[0]


def slot_confidence(logits_NV: mx.array) -> tuple[SlotConfidence, ...]:
    """Largest softmax probability of each row, and its lead over the second; in float32."""
    if logits_NV.shape[0] == 0:
        return ()
    probs_NV = mx.softmax(logits_NV.astype(mx.float32), axis=-1, precise=True)
    best_N1 = mx.argmax(probs_NV, axis=-1, keepdims=True)
    # One entry is struck out, not all of its value: of two equal maxima the lead is 0.
    others_NV = mx.put_along_axis(probs_NV, best_N1, mx.array(0.0), axis=-1)
    top1_N = mx.max(probs_NV, axis=-1)
    margin_N = top1_N - mx.max(others_NV, axis=-1)
    rows: list[list[float]] = mx.stack([top1_N, margin_N], axis=-1).tolist()  # type: ignore[assignment]
    return tuple(SlotConfidence(top1, margin) for top1, margin in rows)
