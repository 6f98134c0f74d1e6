"""Gemma 3's text forward in NumPy, as a reference: no cache, float64, one sequence.

Written from the report (2503.19786) and the publisher's configuration, sharing no code with what it
is compared to. The weights carry names of their own; `from_gguf` and `from_folder` fill them from
either side of the conversion.

Shapes: T positions, D hidden size, H heads and G key-value heads of size E, V vocabulary.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

Tensors = Mapping[str, np.ndarray]
VOCABULARY_ROWS = 32_768  # rows of the head at a time: a float64 copy of all of them is large

# Reference name: (name in GGUF, name in an MLX folder); norms hold the whole gain, 1 + w.
OF_LAYER = {
    "norm_before_attention": ("attn_norm", "input_layernorm"),
    "query": ("attn_q", "self_attn.q_proj"),
    "key": ("attn_k", "self_attn.k_proj"),
    "value": ("attn_v", "self_attn.v_proj"),
    "norm_query": ("attn_q_norm", "self_attn.q_norm"),
    "norm_key": ("attn_k_norm", "self_attn.k_norm"),
    "out": ("attn_output", "self_attn.o_proj"),
    "norm_after_attention": ("post_attention_norm", "post_attention_layernorm"),
    "norm_before_mlp": ("ffn_norm", "pre_feedforward_layernorm"),
    "gate": ("ffn_gate", "mlp.gate_proj"),
    "up": ("ffn_up", "mlp.up_proj"),
    "down": ("ffn_down", "mlp.down_proj"),
    "norm_after_mlp": ("post_ffw_norm", "post_feedforward_layernorm"),
}


def from_gguf(tensors: Tensors, layers: int) -> dict[str, np.ndarray]:
    """Reference weights from dequantised tensors by their names in GGUF."""
    named = {"embedding": tensors["token_embd.weight"], "norm": tensors["output_norm.weight"]}
    return named | {
        f"{layer}.{name}": tensors[f"blk.{layer}.{gguf}.weight"]
        for layer in range(layers)
        for name, (gguf, _) in OF_LAYER.items()
    }


def from_folder(tensors: Tensors, layers: int) -> dict[str, np.ndarray]:
    """Reference weights from a model folder's tensors; the 1 of a norm is added here."""
    named = {
        "embedding": tensors["model.embed_tokens.weight"],
        "norm": tensors["model.norm.weight"],
    }
    named |= {
        f"{layer}.{name}": tensors[f"model.layers.{layer}.{mlx}.weight"]
        for layer in range(layers)
        for name, (_, mlx) in OF_LAYER.items()
    }
    return {name: tensor + 1.0 if tensor.ndim == 1 else tensor for name, tensor in named.items()}


def read_config(folder: Path) -> dict[str, float]:
    """The config.json of a model folder."""
    return json.loads((folder / "config.json").read_text())


def logits(
    weights: Tensors, config: Mapping[str, float], ids: list[int], first_row: int = 0
) -> np.ndarray:
    """Logits [T - first_row, V] in float64 of the positions of `ids` from `first_row` on."""
    eps = config["rms_norm_eps"]
    x_TD = weights["embedding"][ids].astype(np.float64) * to_bfloat16(config["hidden_size"] ** 0.5)
    for layer in range(int(config["num_hidden_layers"])):
        own = {name: weights[f"{layer}.{name}"].astype(np.float64) for name in OF_LAYER}
        attended_TD = attention(
            own, config, layer, rms_norm(x_TD, own["norm_before_attention"], eps)
        )
        x_TD = x_TD + rms_norm(attended_TD, own["norm_after_attention"], eps)
        h_TD = rms_norm(x_TD, own["norm_before_mlp"], eps)
        fed_TD = (gelu(h_TD @ own["gate"].T) * (h_TD @ own["up"].T)) @ own["down"].T
        x_TD = x_TD + rms_norm(fed_TD, own["norm_after_mlp"], eps)
    x_TD = rms_norm(x_TD[first_row:], weights["norm"].astype(np.float64), eps)
    return head(weights["embedding"], x_TD)


def attention(
    own: Tensors, config: Mapping[str, float], layer: int, x_TD: np.ndarray
) -> np.ndarray:
    """Grouped-query attention [T, D] over the past, or over the last `sliding_window` positions."""
    is_global = (layer + 1) % config["sliding_window_pattern"] == 0
    base = config["rope_theta"] if is_global else config["rope_local_base_freq"]
    size, eps = int(config["head_dim"]), config["rms_norm_eps"]
    q_HTE = rope(rms_norm(heads(x_TD @ own["query"].T, size), own["norm_query"], eps), base)
    k_GTE = rope(rms_norm(heads(x_TD @ own["key"].T, size), own["norm_key"], eps), base)
    v_GTE = heads(x_TD @ own["value"].T, size)
    k_HTE, v_HTE = (np.repeat(x, len(q_HTE) // len(x), axis=0) for x in (k_GTE, v_GTE))
    scores_HTT = q_HTE @ k_HTE.transpose(0, 2, 1) / config["query_pre_attn_scalar"] ** 0.5
    behind_TT = np.subtract.outer(np.arange(len(x_TD)), np.arange(len(x_TD)))
    window = len(x_TD) if is_global else config["sliding_window"]
    scores_HTT = np.where((behind_TT >= 0) & (behind_TT < window), scores_HTT, -np.inf)
    mixed_HTE = softmax(scores_HTT) @ v_HTE
    return mixed_HTE.transpose(1, 0, 2).reshape(len(x_TD), -1) @ own["out"].T


def heads(x_TN: np.ndarray, size: int) -> np.ndarray:
    """Columns split into heads: [N / size, T, size]."""
    return x_TN.reshape(len(x_TN), -1, size).transpose(1, 0, 2)


def rope(x_HTE: np.ndarray, base: float) -> np.ndarray:
    """Rotary positions (Su et al., 2104.09864): component i turns with component i + E / 2."""
    half = x_HTE.shape[-1] // 2
    angles = np.outer(np.arange(x_HTE.shape[1]), base ** (-np.arange(half) / half))
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = x_HTE[..., :half], x_HTE[..., half:]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def rms_norm(x: np.ndarray, gain: np.ndarray, eps: float) -> np.ndarray:
    """Root mean square normalisation over the last axis (Zhang and Sennrich, 1910.07467)."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * gain


def gelu(x: np.ndarray) -> np.ndarray:
    """GELU in its tanh form (Hendrycks and Gimpel, 1606.08415)."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def head(embedding_VD: np.ndarray, x_TD: np.ndarray) -> np.ndarray:
    """Logits [T, V]; the embedding is the readout too."""
    parts = [
        x_TD @ embedding_VD[start : start + VOCABULARY_ROWS].astype(np.float64).T
        for start in range(0, len(embedding_VD), VOCABULARY_ROWS)
    ]
    return np.concatenate(parts, axis=-1)


def to_bfloat16(value: float) -> float:
    """The nearest bfloat16, to even on a tie: the model's embedding scale is rounded to it."""
    bits = int(np.float32(value).view(np.uint32))
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(np.uint32(rounded).view(np.float32))
