"""Texts that a model writes side by side, one token of each at a time."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from diffdraft.layers.cached import next_logits

Choice = Callable[[np.ndarray, int], np.ndarray]  # (logits [B, V], place) to ids [B]


def write(model: Any, ids_BP: np.ndarray, tokens: int, choose: Choice) -> np.ndarray:
    """Extend texts [B, P] to `tokens` tokens each, [B, tokens] int32."""
    cache, text_BT = make_prompt_cache(model), ids_BP.astype(np.int32)
    new_BT = text_BT
    while text_BT.shape[1] < tokens:
        logits_BV = next_logits(model, mx.array(new_BT), cache)
        new_BT = choose(np.array(logits_BV.astype(mx.float32)), text_BT.shape[1])[:, None]
        new_BT = new_BT.astype(np.int32)
        text_BT = np.concatenate([text_BT, new_BT], axis=1)
    return text_BT


def greedy(logits_BV: np.ndarray, _: int) -> np.ndarray:
    """The most probable token, the first of equals."""
    return logits_BV.argmax(axis=-1)


def sample(logits_BV: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A token of each row at temperature 1, by the inverse of its distribution function."""
    weights_BV = np.exp(logits_BV - logits_BV.max(axis=-1, keepdims=True))
    sums_BV = np.cumsum(weights_BV, axis=-1, dtype=np.float64)
    drawn_B = generator.random(len(sums_BV)) * sums_BV[:, -1]
    found = [
        np.searchsorted(row, at, side="right") for row, at in zip(sums_BV, drawn_B, strict=True)
    ]
    return np.minimum(found, logits_BV.shape[1] - 1)
