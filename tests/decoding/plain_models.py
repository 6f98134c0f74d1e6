"""Tiny random models without linear layers: Gemma 3 with its sliding window, and plain Qwen3."""

from typing import Any

import diffdraft.decoding  # noqa: F401  (sets BLAS up before MLX is imported)

# isort: split
import mlx.core as mx
from mlx_lm.models import gemma3_text, qwen3
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache

from diffdraft.decoding.cache_state import temporal_rows
from diffdraft.targets.architecture import initialise
from diffdraft.targets.load import Target, target_of
from diffdraft.targets.random import IdTokenizer

SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "intermediate_size": 48,
    "head_dim": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 61,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512,
}
WINDOW = 8


def make_gemma3(seed: int = 2, window: int = WINDOW, tied: bool = False) -> Target:
    """Layers 0 and 2 slide over `window` rows, layers 1 and 3 see everything."""
    args = gemma3_text.ModelArgs(
        "gemma3_text",
        **SHAPE,
        query_pre_attn_scalar=16,
        sliding_window=window,
        sliding_window_pattern=2,
    )
    model = gemma3_text.Model(args)
    if tied:
        model.sanitize({})
    initialise(model, seed, init_std=0.3)
    return target_of(model, IdTokenizer())


def make_qwen3(seed: int = 2, tied: bool = False) -> Target:
    """A stock transformer: full attention in every layer."""
    args = qwen3.ModelArgs("qwen3", **SHAPE, rope_theta=1e4, tie_word_embeddings=tied)
    model = qwen3.Model(args)
    initialise(model, seed, init_std=0.3)
    return target_of(model, IdTokenizer())


def visible_arrays(cache: list[Any]) -> list[mx.array]:
    """What a following token can see, the oldest row first.

    Of a sliding window these are the last (window - 1) rows: older ones may be there or not.
    """
    arrays: list[mx.array] = []
    for entry in cache:
        if isinstance(entry, ArraysCache):
            arrays += entry.cache
            continue
        assert isinstance(entry, KVCache | RotatingKVCache)
        keys, values = temporal_rows(entry)
        rows = entry.offset
        if isinstance(entry, RotatingKVCache):
            rows = min(rows, entry.max_size - 1)
        first = keys.shape[2] - rows
        arrays += [keys[..., first:, :], values[..., first:, :]]
    return arrays
