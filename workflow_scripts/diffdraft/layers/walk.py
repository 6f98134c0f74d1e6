"""One walk over the layers of a model, with the two token mixers left to the caller.

It knows two kinds of layer: that of Qwen (norm, mixer; norm, MLP; hybrid or not) and that of
Gemma 3, which norms what a mixer or MLP gives once more before it is added.

`mlx_lm`'s own forward serves plain passes. A pass that must see inside a layer (training with the
chunked rule, recording states, branching from recorded ones) supplies its mixers here, so that
norms, residuals, MLP and head are written once.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx_lm.models import gemma3_text
from mlx_lm.models.base import create_causal_mask

from diffdraft.layers.fast_ops import STOCK, Ops

Mixer = Callable[[int, Any, mx.array], mx.array]  # (layer index, mixer module, x_BTD) -> [B, T, D]


def text_model(model: Any) -> Any:
    """The text model inside `model`: embeddings, layers and final norm live under its `.model`."""
    return getattr(model, "language_model", model)


def walk_layers(
    model: Any, ids_BT: mx.array, attend: Mixer, recur: Mixer, ops: Ops = STOCK
) -> mx.array:
    """Final hidden states [B, T, D]; attention layers call `attend`, linear ones `recur`."""
    backbone = text_model(model).model
    h_BTD = embed(backbone, ids_BT)
    for index, layer in enumerate(backbone.layers):
        x_BTD = layer.input_layernorm(h_BTD)
        if getattr(layer, "is_linear", False):
            mixed_BTD = recur(index, layer.linear_attn, x_BTD)
        else:
            mixed_BTD = attend(index, layer.self_attn, x_BTD)
        h_BTD = _add(layer, h_BTD, mixed_BTD, ops)
    return backbone.norm(h_BTD)


def embed(backbone: Any, ids_BT: mx.array) -> mx.array:
    """Embeddings [B, T, D] as the first layer takes them.

    Gemma 3 scales them by the root of the width, rounded to bfloat16 as in its release.
    """
    h_BTD = backbone.embed_tokens(ids_BT)
    if isinstance(backbone, gemma3_text.Gemma3Model):
        scale = mx.array(backbone.args.hidden_size**0.5, mx.bfloat16)
        h_BTD = h_BTD * scale.astype(h_BTD.dtype)
    return h_BTD


def _add(layer: Any, h_BTD: mx.array, mixed_BTD: mx.array, ops: Ops) -> mx.array:
    """Residual stream after a layer's mixer and MLP."""
    if isinstance(layer, gemma3_text.TransformerBlock):
        h_BTD = h_BTD + layer.post_attention_layernorm(mixed_BTD)
        y_BTD = ops.mlp(layer.mlp, layer.pre_feedforward_layernorm(h_BTD))
        return h_BTD + layer.post_feedforward_layernorm(y_BTD)
    h_BTD = h_BTD + mixed_BTD
    return h_BTD + ops.mlp(layer.mlp, layer.post_attention_layernorm(h_BTD))


def sliding_window(model: Any, module: Any) -> int | None:
    """How many rows an attention module sees, itself included; None if all before it."""
    return text_model(model).model.window_size if getattr(module, "is_sliding", False) else None


def causal_mask(model: Any, module: Any, T: int) -> mx.array | str:
    """Mask of T rows without a cache, as `mlx_lm`'s attention modules take it."""
    window = sliding_window(model, module)
    if window is None or window >= T:
        return "causal"
    return create_causal_mask(T, window_size=window)


def head(model: Any, h_BTD: mx.array) -> mx.array:
    """Logits [B, T, vocabulary] of final hidden states.

    A tied model of `mlx_lm` has no `lm_head`, wherever else it says that it is tied: Qwen in its
    `args`, Gemma 3 in the model itself.
    """
    text = text_model(model)
    readout = text.lm_head if hasattr(text, "lm_head") else text.model.embed_tokens.as_linear
    return readout(h_BTD)
