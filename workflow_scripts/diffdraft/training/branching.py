"""Every block of a window supervised: one clean pass, and noisy blocks that branch from it.

The clean pass runs the frozen model over the whole window and records what a block needs to start
anywhere: rotated keys and values of the attention layers, convolution windows and recurrent states
of the linear layers. The noisy pass then runs all draft rows of all blocks at once; block b sees
clean rows up to its seed and its own earlier rows, exactly as if it were the suffix of a window
that ends with it. (The two-stream layout of Uno, 2609.04010, carried over to recurrent layers.)

Shapes: B windows, T rows of the clean pass, n blocks, L block size, J = n (L - 1) noisy rows,
N key-value heads, H query or value heads, D head width.
"""

from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
from mlx_lm.models import qwen3_next
from mlx_lm.models.base import scaled_dot_product_attention
from mlx_lm.models.cache import KVCache

from diffdraft.layers.fast_ops import FAST, sigmoid
from diffdraft.layers.gated_delta import chunked_rule, delta_inputs, delta_output
from diffdraft.layers.walk import causal_mask, sliding_window, walk_layers


@dataclass
class Recording:
    """What the clean pass leaves behind, by layer index."""

    hidden_BTD: mx.array
    keys_values: dict[int, tuple[mx.array, mx.array]] = field(default_factory=dict)  # [B, N, T, D]
    windows: dict[int, mx.array] = field(default_factory=dict)  # [B * n, W, U] up to the seed
    states: dict[int, mx.array] = field(default_factory=dict)  # [B * n, H, V, K] after the seed


def clean_pass(model: Any, ids_BT: mx.array, seeds: list[int], block: int) -> Recording:
    """Run the frozen model and record its state after every seed; no gradient flows from here.

    A chunk of `block` rows ends at each seed (`blocks.block_seeds` sees to that).
    """
    recording = Recording(mx.zeros(()))

    def attend(index: int, module: Any, x_BTD: mx.array) -> mx.array:
        cache = KVCache()
        out = module(x_BTD, mask=causal_mask(model, module, x_BTD.shape[1]), cache=cache)
        recording.keys_values[index] = cache.keys_and_values()
        return out

    def recur(index: int, module: Any, x_BTD: mx.array) -> mx.array:
        inputs = delta_inputs(module, x_BTD, None, FAST)
        result = chunked_rule(inputs, chunk=block)
        kept = module.conv_kernel_size - 1
        rows = mx.array(seeds)[:, None] + mx.arange(1, kept + 1)[None, :]
        recording.windows[index] = inputs.conv_input_BRU[:, rows].flatten(0, 1)
        after_seed = [result.states_BHVK[(seed + 1) // block] for seed in seeds]
        recording.states[index] = mx.stack(after_seed, axis=1).flatten(0, 1)
        return delta_output(module, result.y_BTHV, inputs.z_BTHV, FAST)

    recording.hidden_BTD = walk_layers(model, ids_BT, attend, recur, FAST)
    return recording


def noisy_pass(model: Any, ids_BnJ: mx.array, seeds: list[int], clean: Recording) -> mx.array:
    """Final hidden states [B, n, L - 1, D] of all draft rows, each block from its recording."""
    B, n, J = ids_BnJ.shape
    T = clean.hidden_BTD.shape[1]

    def attend(index: int, module: Any, x_BJD: mx.array) -> mx.array:
        visible = _visible(seeds, J, T, sliding_window(model, module))
        return _branch_attention(module, x_BJD, clean.keys_values[index], seeds, visible)

    def recur(index: int, module: Any, x_BJD: mx.array) -> mx.array:
        inputs = delta_inputs(module, x_BJD, clean.windows[index], FAST)
        result = chunked_rule(inputs, clean.states[index], chunk=J)
        return delta_output(module, result.y_BTHV, inputs.z_BTHV, FAST)

    hidden = walk_layers(model, ids_BnJ.reshape(B * n, J), attend, recur, FAST)
    return hidden.reshape(B, n, J, -1)


def _visible(seeds: list[int], n_rows: int, T: int, window: int | None) -> mx.array:
    """Mask [n J, T + n J]: clean rows up to the own seed, own block's rows up to oneself.

    With a sliding window, of these only the last `window` places before and at one's own.
    """
    block_of = mx.repeat(mx.arange(len(seeds)), n_rows)
    seed_of = mx.array(seeds)[block_of]
    place = seed_of + 1 + mx.tile(mx.arange(n_rows), len(seeds))
    clean = mx.arange(T)[None, :] <= seed_of[:, None]
    own = (block_of[:, None] == block_of[None, :]) & (place[None, :] <= place[:, None])
    visible = mx.concatenate([clean, own], axis=1)
    if window is None:
        return visible
    places = mx.concatenate([mx.arange(T), place])
    return visible & (place[:, None] - places[None, :] < window)


def _branch_attention(
    module: Any,
    x_BJD: mx.array,
    clean: tuple[mx.array, mx.array],
    seeds: list[int],
    visible: mx.array,
) -> mx.array:
    """`mlx_lm`'s attention, with each block at its own position and the clean rows shared."""
    rows, J, _ = x_BJD.shape
    n = len(seeds)
    B = rows // n
    q, k, v, gate = _projections(module, x_BJD)
    offsets = mx.tile(mx.array(seeds) + 1, B)

    def together(x_RHJD: mx.array) -> mx.array:
        """[B n, heads, J, D] to [B, heads, n J, D]."""
        split = x_RHJD.reshape(B, n, *x_RHJD.shape[1:])
        return split.swapaxes(1, 2).flatten(2, 3)

    q = together(module.rope(module.q_norm(q).swapaxes(1, 2), offset=offsets))
    k = together(module.rope(module.k_norm(k).swapaxes(1, 2), offset=offsets))
    v = together(v.swapaxes(1, 2))
    keys = mx.concatenate([mx.stop_gradient(clean[0]), k], axis=2)
    values = mx.concatenate([mx.stop_gradient(clean[1]), v], axis=2)
    out = scaled_dot_product_attention(q, keys, values, None, scale=module.scale, mask=visible)
    out = out.swapaxes(1, 2).reshape(rows, J, -1)
    return module.o_proj(out if gate is None else out * sigmoid(gate.reshape(rows, J, -1)))


def _projections(
    module: Any, x_RJD: mx.array
) -> tuple[mx.array, mx.array, mx.array, mx.array | None]:
    """Queries, keys and values [R, J, heads, width]; Qwen3.5's queries bring a gate along."""
    rows, J, _ = x_RJD.shape
    gated = isinstance(module, qwen3_next.Qwen3NextAttention)
    heads = module.num_attention_heads if gated else module.n_heads
    q = module.q_proj(x_RJD).reshape(rows, J, heads, -1)
    q, gate = mx.split(q, 2, axis=-1) if gated else (q, None)
    kv_heads = module.num_key_value_heads if gated else module.n_kv_heads
    k = module.k_proj(x_RJD).reshape(rows, J, kv_heads, -1)
    v = module.v_proj(x_RJD).reshape(rows, J, kv_heads, -1)
    return q, k, v, gate
