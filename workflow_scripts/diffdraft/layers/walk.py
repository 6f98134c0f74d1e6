"""One walk over the layers of a hybrid model, with the two token mixers left to the caller.

`mlx_lm`'s own forward serves plain passes. A pass that must see inside a layer (training with the
chunked rule, recording states, branching from recorded ones) supplies its mixers here, so that
norms, residuals, MLP and head are written once.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from diffdraft.layers.fast_ops import STOCK, Ops

Mixer = Callable[[int, Any, mx.array], mx.array]  # (layer index, mixer module, x_BTD) -> [B, T, D]


def text_model(model: Any) -> Any:
    """The text model inside `model`: embeddings, layers and final norm live under its `.model`."""
    return getattr(model, "language_model", model)


def walk_layers(
    model: Any, ids_BT: mx.array, attend: Mixer, recur: Mixer, ops: Ops = STOCK
) -> mx.array:
    """Final hidden states [B, T, D]; full-attention layers call `attend`, linear ones `recur`."""
    backbone = text_model(model).model
    h_BTD = backbone.embed_tokens(ids_BT)
    for index, layer in enumerate(backbone.layers):
        x_BTD = layer.input_layernorm(h_BTD)
        if layer.is_linear:
            h_BTD = h_BTD + recur(index, layer.linear_attn, x_BTD)
        else:
            h_BTD = h_BTD + attend(index, layer.self_attn, x_BTD)
        h_BTD = h_BTD + ops.mlp(layer.mlp, layer.post_attention_layernorm(h_BTD))
    return backbone.norm(h_BTD)


def head(model: Any, h_BTD: mx.array) -> mx.array:
    """Logits [B, T, vocabulary] of final hidden states.

    A tied model of `mlx_lm` has no `lm_head`, wherever else it says that it is tied: Qwen in its
    `args`, Gemma 3 in the model itself.
    """
    text = text_model(model)
    readout = text.lm_head if hasattr(text, "lm_head") else text.model.embed_tokens.as_linear
    return readout(h_BTD)
