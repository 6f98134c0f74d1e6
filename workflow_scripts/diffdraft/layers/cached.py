"""A forward with a cache over many texts at once, in the form that is cheap on a CPU.

For text that is written in bulk and never timed: decoding that is measured runs `mlx_lm`'s own
forward.
"""

from typing import Any

import mlx.core as mx
from mlx_lm.models.base import create_attention_mask

from diffdraft.layers.fast_ops import FAST
from diffdraft.layers.walk import head, sliding_window, walk_layers


def next_logits(model: Any, ids_BT: mx.array, cache: list[Any]) -> mx.array:
    """Logits [B, V] of the token after each text; the cache is moved on by T rows."""

    def attend(index: int, module: Any, x_BTD: mx.array) -> mx.array:
        window = sliding_window(model, module)
        mask = create_attention_mask(x_BTD, cache[index], window_size=window)
        return module(x_BTD, mask, cache[index])

    def recur(index: int, module: Any, x_BTD: mx.array) -> mx.array:
        return module(x_BTD, None, cache[index])

    return head(model, walk_layers(model, ids_BT, attend, recur, FAST)[:, -1])
