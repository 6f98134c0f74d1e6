"""A plain causal forward with the chunked rule: training and measurement run it without a cache."""

from typing import Any

import mlx.core as mx

from diffdraft.layers.fast_ops import FAST
from diffdraft.layers.gated_delta import chunked_rule, delta_inputs, delta_output
from diffdraft.layers.walk import causal_mask, head, walk_layers

CHUNK = 32  # fastest of 16, 32 and 64 at T = 128 on a CPU


def chunked_logits(model: Any, ids_BT: mx.array, first_row: int = 0) -> mx.array:
    """Logits [B, T - first_row, vocabulary] of the rows from `first_row` on.

    Only the rows asked for go through the head, which is most of the work with a large vocabulary.
    """
    return head(model, chunked_hidden(model, ids_BT)[:, first_row:])


def chunked_hidden(model: Any, ids_BT: mx.array) -> mx.array:
    """Final hidden states [B, T, D]."""

    def attend(_: int, module: Any, x_BTD: mx.array) -> mx.array:
        return module(x_BTD, mask=causal_mask(model, module, x_BTD.shape[1]))

    def recur(_: int, module: Any, x_BTD: mx.array) -> mx.array:
        inputs = delta_inputs(module, x_BTD, None, FAST)
        return delta_output(module, chunked_rule(inputs, chunk=CHUNK).y_BTHV, inputs.z_BTHV, FAST)

    return walk_layers(model, ids_BT, attend, recur, FAST)
