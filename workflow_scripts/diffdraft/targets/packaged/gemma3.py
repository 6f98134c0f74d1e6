"""Gemma 3 (Gemma Team, 2503.19786): from the names of GGUF to those of `mlx_lm.models.gemma3_text`.

Shapes: D hidden size, F MLP, H heads and G key-value heads of size E, V vocabulary.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from diffdraft.errors import UserError
from diffdraft.targets.packaged.gguf_file import GGUFFile

ARCHITECTURE = "gemma3"
# Name in config.json: name in GGUF, behind the architecture's.
SIZES = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "sliding_window": "attention.sliding_window",
    "max_position_embeddings": "context_length",
}
REALS = {"rms_norm_eps": "attention.layer_norm_rms_epsilon", "rope_theta": "rope.freq_base"}
VALUE_LENGTH = "attention.value_length"
# GGUF holds neither of the next two, since readers build them into the architecture: every sixth
# layer attends to everything (5:1, Section 2 of the report), and the sliding ones kept the rope
# base of Gemma 2 when that of the others was raised to a million.
LOCAL_ROPE_BASE = 10_000.0
SLIDING_WINDOW_PATTERN = 6
TOKEN_IDS = {
    f"{name}_token_id": f"tokenizer.ggml.{key}_token_id"
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
}
MATRICES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
NORMS = {
    "attn_norm": "input_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
EMBEDDING, FINAL_NORM = "token_embd.weight", "output_norm.weight"


def check_architecture(file: GGUFFile) -> None:
    """Raise `UserError` for any other model, and for settings that the conversion cannot carry."""
    found = file.get("general.architecture", str)
    if found != ARCHITECTURE:
        raise UserError(file.name, "general.architecture", found, ARCHITECTURE)
    known = {f"{ARCHITECTURE}.{key}" for key in (*SIZES.values(), *REALS.values(), VALUE_LENGTH)}
    for key in file.keys(f"{ARCHITECTURE}."):
        if key not in known:
            raise UserError(file.name, key, "a setting", "none that this conversion does not know")


def model_config(file: GGUFFile) -> dict[str, Any]:
    """The config.json of the model. Raises `UserError` for metadata that are missing or wrong."""
    config: dict[str, Any] = {"model_type": "gemma3_text"}
    config |= {name: _size(file, f"{ARCHITECTURE}.{key}") for name, key in SIZES.items()}
    config |= {name: _real(file, f"{ARCHITECTURE}.{key}") for name, key in REALS.items()}
    config |= {name: file.get(key, int) for name, key in TOKEN_IDS.items()}
    value_length = file.get(f"{ARCHITECTURE}.{VALUE_LENGTH}", int, config["head_dim"])
    if value_length != config["head_dim"]:
        expected = f"{config['head_dim']}, that of keys"
        raise UserError(file.name, f"{ARCHITECTURE}.{VALUE_LENGTH}", value_length, expected)
    return config | {
        "vocab_size": len(file.get("tokenizer.ggml.tokens", list)),
        "rope_local_base_freq": LOCAL_ROPE_BASE,
        "sliding_window_pattern": SLIDING_WINDOW_PATTERN,
        # Scores are divided by the root of this. Only the 27B model takes another value, and its
        # file is refused: it scales its rope.
        "query_pre_attn_scalar": config["head_dim"],
    }


def _size(file: GGUFFile, key: str) -> int:
    value = file.get(key, int)
    if value < 1:
        raise UserError(file.name, key, value, "at least 1")
    return value


def _real(file: GGUFFile, key: str) -> float:
    """The shortest decimal of a float32: 1e-06, where its exact value is 9.99999997e-07."""
    return float(str(np.float32(file.get(key, float))))


def tensor_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Every tensor that the model has, by its name in GGUF, with its shape."""
    D, F, E = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    H, G = config["num_attention_heads"], config["num_key_value_heads"]
    of_layer: dict[str, tuple[int, ...]] = {
        "attn_q": (H * E, D),
        "attn_k": (G * E, D),
        "attn_v": (G * E, D),
        "attn_output": (D, H * E),
        "ffn_gate": (F, D),
        "ffn_up": (F, D),
        "ffn_down": (D, F),
        **{name: (E,) if name in ("attn_q_norm", "attn_k_norm") else (D,) for name in NORMS},
    }
    return {EMBEDDING: (config["vocab_size"], D), FINAL_NORM: (D,)} | {
        f"blk.{layer}.{name}.weight": shape
        for layer in range(config["num_hidden_layers"])
        for name, shape in of_layer.items()
    }


def check_tensors(file: GGUFFile, config: dict[str, Any]) -> None:
    """Raise `UserError` for a tensor that is missing, left over, or of another shape."""
    found, expected = file.shapes, tensor_shapes(config)
    for name in sorted(set(found) | set(expected)):
        if found.get(name) != expected.get(name):
            absent = "no such tensor"
            raise UserError(file.name, name, found.get(name, absent), expected.get(name, absent))


def mlx_name(name: str) -> str:
    """The name in `mlx_lm` of a tensor of GGUF."""
    whole = {EMBEDDING: "model.embed_tokens.weight", FINAL_NORM: "model.norm.weight"}
    if name in whole:
        return whole[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{(MATRICES | NORMS)[part]}.weight"


def weights(file: GGUFFile, config: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Every tensor in float32 by its name in `mlx_lm`, the largest first.

    Norms lose the 1 that GGUF adds to them, since `mlx_lm` adds it itself.
    """
    for name in tensor_shapes(config):
        values = file.tensor(name)
        yield mlx_name(name), values - 1 if name.endswith("norm.weight") else values
