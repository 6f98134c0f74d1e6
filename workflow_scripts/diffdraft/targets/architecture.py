"""Build the real Qwen3.5 hybrid architecture (`mlx_lm.models.qwen3_5`) at a chosen size.

MLX is lazy: a model of 4 billion parameters is built here without a byte of weights, as long as
nothing evaluates them.
"""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import qwen3_5

DECAY_RATE_RANGE = (1.0, 16.0)  # A of every head, uniform in its logarithm
TIME_STEP_RANGE = (1e-3, 0.1)  # softplus(dt_bias), uniform in its logarithm


def model_config(text: dict[str, Any]) -> dict[str, Any]:
    """The config.json of a text-only Qwen3.5 model with these text settings."""
    return {"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text", **text}}


def build(text: dict[str, Any]) -> Any:
    """An `mlx_lm` Qwen3.5 model with `mlx_lm`'s own (lazy) initial weights."""
    return qwen3_5.Model(qwen3_5.ModelArgs.from_dict(model_config(text)))


def initialise(model: Any, seed: int, init_std: float) -> None:
    """Draw all weights from keys of `seed`: normal matrices, slow-decaying linear layers.

    `mlx_lm`'s default time step (dt_bias = 1) forgets nearly everything at each token; Mamba's
    range (Gu and Dao, 2312.00752, Section 3.6) lets a small model remember.
    """
    tensors = dict(nn.utils.tree_flatten(model.parameters()))
    keys = mx.random.split(mx.random.key(seed), len(tensors))
    drawn = [
        (name, _draw(name, tensors[name], key, init_std))
        for name, key in zip(sorted(tensors), keys, strict=True)
    ]
    model.load_weights(drawn)
    mx.eval(model.parameters())


def _draw(name: str, tensor: mx.array, key: mx.array, init_std: float) -> mx.array:
    if name.endswith("A_log"):
        return mx.log(_log_uniform(tensor.shape, DECAY_RATE_RANGE, key))
    if name.endswith("dt_bias"):
        return _softplus_inverse(_log_uniform(tensor.shape, TIME_STEP_RANGE, key))
    if "conv1d" in name:
        bound = tensor.shape[1] ** -0.5
        return mx.random.uniform(-bound, bound, tensor.shape, key=key)
    if tensor.ndim == 1:
        return tensor  # norm weights start at one
    return mx.random.normal(tensor.shape, scale=init_std, key=key)


def _log_uniform(shape: tuple[int, ...], bounds: tuple[float, float], key: mx.array) -> mx.array:
    low, high = (mx.log(mx.array(bound)) for bound in bounds)
    return mx.exp(mx.random.uniform(low, high, shape, key=key))


def _softplus_inverse(x: mx.array) -> mx.array:
    return x + mx.log(-mx.expm1(-x))
