"""Parts of decoders for tests: tiny random targets, adapters, and a drafter that knows the text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import diffdraft.decoding  # noqa: F401  (sets BLAS up before MLX is imported)

# isort: split
import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx_lm.models.cache import KVCache

from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.decoding.trace import Trace
from diffdraft.decoding.transaction import SnapshotTransaction
from diffdraft.drafters.base import DraftRequest, Proposal
from diffdraft.drafters.uno import UnoDrafter
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.targets.load import Target
from diffdraft.targets.random import make_tiny_random

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]
SPEC = AdapterSpec(4, 8.0, 0.5, ("attention", "mlp", "delta_net"), seed=3)


def make_target(seed: int = 1) -> Target:
    """A readout of its own: a tied one repeats a token, which hides errors by one place."""
    return make_tiny_random(seed, tie_word_embeddings=False)


def randomise(adapter: Adapter, seed: int = 7) -> Adapter:
    """An adapter whose update is as large as the frozen output."""
    keys = iter(mx.random.split(mx.random.key(seed), len(adapter.tensors)))
    drawn = {
        name: mx.random.normal(tensor.shape, scale=0.5, key=next(keys))
        for name, tensor in adapter.tensors.items()
        if name.endswith("lora_b")
    }
    adapter.assign(drawn)
    return adapter


def native(target: Target, prompt: Sequence[int], tokens: int, **options: Any) -> Trace:
    return decode(target, None, GreedyAcceptance(), FixedBlock(1), prompt, tokens, **options)


def uno(
    target: Target,
    adapter: Adapter,
    size: int,
    prompt: Sequence[int],
    tokens: int,
    seed: int = 5,
    **options: Any,
) -> Trace:
    drafter = UnoDrafter(target, adapter, seed)
    return decode(target, drafter, GreedyAcceptance(), FixedBlock(size), prompt, tokens, **options)


def next_token(target: Target, ids: Sequence[int]) -> int:
    """The slow oracle: a full-context forward without any cache."""
    return int(mx.argmax(target.model(mx.array([list(ids)]))[0, -1]).item())


@dataclass
class Scripted:
    """Proposes the text it was told, with wrong tokens where `wrong(cycle)` says (slots from 1)."""

    text: list[int]
    vocab_size: int
    wrong: Callable[[int], set[int]] = lambda cycle: set()
    given: int = 1
    seen: list[DraftRequest] = field(default_factory=list)

    def propose(self, request: DraftRequest) -> Proposal:
        self.seen.append(request)
        start = len(request.history)
        tokens = self.text[start : start + request.block_size]
        for slot in self.wrong(request.cycle):
            if slot < len(tokens):
                tokens[slot] = (tokens[slot] + 1) % self.vocab_size
        return Proposal(tokens, self.given, forwards=1)


def scripted(target: Target, drafter: Scripted, size: int, tokens: int, **options: Any) -> Trace:
    options = {"commit": SnapshotTransaction, **options}
    return decode(target, drafter, GreedyAcceptance(), FixedBlock(size), PROMPT, tokens, **options)


def cache_arrays(cache: list[Any]) -> list[mx.array]:
    """All that a cache holds, up to its offset."""
    arrays: list[mx.array] = []
    for entry in cache:
        if isinstance(entry, KVCache):
            arrays += [entry.keys[..., : entry.offset, :], entry.values[..., : entry.offset, :]]
        else:
            arrays += entry.cache
    return arrays


def watch_embedding(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by the number of tokens of every forward that is run from now on."""
    widths: list[int] = []
    embed = nn.Embedding.__call__

    def spy(self: nn.Embedding, ids_BT: mx.array) -> mx.array:
        widths.append(ids_BT.shape[1])
        return embed(self, ids_BT)

    monkeypatch.setattr(nn.Embedding, "__call__", spy)
    return widths
