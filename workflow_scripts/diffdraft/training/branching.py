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
from mlx_lm.models.base import scaled_dot_product_attention
from mlx_lm.models.cache import KVCache

from diffdraft.layers.fast_ops import FAST, sigmoid
from diffdraft.layers.gated_delta import chunked_rule, delta_inputs, delta_output
from diffdraft.layers.walk import head, walk_layers


@dataclass
class Recording:
    """What the clean pass leaves behind, by layer index."""

    logits_BTV: mx.array
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
        out = module(x_BTD, mask="causal", cache=cache)
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

    recording.logits_BTV = head(model, walk_layers(model, ids_BT, attend, recur, FAST))
    return recording


def noisy_pass(model: Any, ids_BnJ: mx.array, seeds: list[int], clean: Recording) -> mx.array:
    """Logits [B, n, L - 1, vocabulary] of all draft rows, each block from its recorded state."""
    B, n, J = ids_BnJ.shape
    T = clean.logits_BTV.shape[1]
    visible = _visible(seeds, J, T)

    def attend(index: int, module: Any, x_BJD: mx.array) -> mx.array:
        return _branch_attention(module, x_BJD, clean.keys_values[index], seeds, visible)

    def recur(index: int, module: Any, x_BJD: mx.array) -> mx.array:
        inputs = delta_inputs(module, x_BJD, clean.windows[index], FAST)
        result = chunked_rule(inputs, clean.states[index], chunk=J)
        return delta_output(module, result.y_BTHV, inputs.z_BTHV, FAST)

    hidden = walk_layers(model, ids_BnJ.reshape(B * n, J), attend, recur, FAST)
    return head(model, hidden).reshape(B, n, J, -1)


def _visible(seeds: list[int], n_rows: int, T: int) -> mx.array:
    """Mask [n J, T + n J]: clean rows up to the own seed, own block's rows up to oneself."""
    block_of = mx.repeat(mx.arange(len(seeds)), n_rows)
    row_of = mx.tile(mx.arange(n_rows), len(seeds))
    clean = mx.arange(T)[None, :] <= mx.array(seeds)[block_of][:, None]
    same_block = block_of[:, None] == block_of[None, :]
    return mx.concatenate([clean, same_block & (row_of[None, :] <= row_of[:, None])], axis=1)


def _branch_attention(
    module: Any,
    x_BJD: mx.array,
    clean: tuple[mx.array, mx.array],
    seeds: list[int],
    visible: mx.array,
) -> mx.array:
    """`mlx_lm`'s gated attention, with each block at its own position and the clean rows shared."""
    rows, J, _ = x_BJD.shape
    n = len(seeds)
    B, width = rows // n, module.head_dim
    q_and_gate = module.q_proj(x_BJD).reshape(rows, J, module.num_attention_heads, 2 * width)
    q, gate = mx.split(q_and_gate, 2, axis=-1)
    k = module.k_proj(x_BJD).reshape(rows, J, module.num_key_value_heads, width)
    v = module.v_proj(x_BJD).reshape(rows, J, module.num_key_value_heads, width)
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
    return module.o_proj(out * sigmoid(gate.reshape(rows, J, -1)))
