"""The gated delta rule of Qwen3.5's linear layers, in the three forms that the project needs.

Per value head, with state S of shape [Dv, Dk] (Yang et al., "Gated Delta Networks", 2412.06464,
Eq. 10):

    S_t = g_t S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T,      y_t = S_t q_t

`mlx_lm` steps through time. `recurrent_states` does the same steps and keeps every state, so that
a decoder can go back to any of them; `chunked_rule` is the parallel form for training.

Shapes: B batch, T rows, H value heads, N key heads, K key width, V value width, C chunk length,
M chunks, U convolution channels, W kernel rows kept (kernel - 1).
"""

from typing import Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.gated_delta import (
    _gated_delta_step_ops,
    compute_g,
    normalize_qk,
)

from diffdraft.layers.fast_ops import STOCK, Ops

QK_EPSILON = 1e-6  # of the reference L2 norm, as in mlx_lm's layer


class DeltaInputs(NamedTuple):
    """What the recurrence reads, and the convolution input that a cache has to keep."""

    q_BTNK: mx.array
    k_BTNK: mx.array
    v_BTHV: mx.array
    g_BTH: mx.array  # for the steps, by `mlx_lm`'s compiled function
    log_g_BTH: mx.array  # for the chunks: log(g) would lose what g rounds to zero
    beta_BTH: mx.array
    z_BTHV: mx.array
    conv_input_BRU: mx.array  # R = W + T rows: the window from before, then this block


def delta_inputs(
    layer: Any, x_BTD: mx.array, window_BWU: mx.array | None, ops: Ops = STOCK
) -> DeltaInputs:
    """Project, convolve and normalise: everything before the recurrence.

    `window_BWU` holds the last W convolution rows before this block; None means zeros.
    """
    B, T, _ = x_BTD.shape
    qkv_BTU = layer.in_proj_qkv(x_BTD)
    if window_BWU is None:
        window_BWU = mx.zeros((B, layer.conv_kernel_size - 1, layer.conv_dim), dtype=x_BTD.dtype)
    conv_input = mx.concatenate([window_BWU, qkv_BTU], axis=1)
    convolved_BTU = ops.convolve(layer, conv_input)
    q, k, v = mx.split(convolved_BTU, [layer.key_dim, 2 * layer.key_dim], axis=-1)
    q = q.reshape(B, T, layer.num_k_heads, layer.head_k_dim)
    k = k.reshape(B, T, layer.num_k_heads, layer.head_k_dim)
    q, k = normalize_qk(q, k, inv_scale=layer.head_k_dim**-0.5, eps=QK_EPSILON)
    a_BTH = layer.in_proj_a(x_BTD)
    return DeltaInputs(
        q_BTNK=q,
        k_BTNK=k,
        v_BTHV=v.reshape(B, T, layer.num_v_heads, layer.head_v_dim),
        g_BTH=compute_g(layer.A_log, a_BTH, layer.dt_bias),
        log_g_BTH=-mx.exp(layer.A_log.astype(mx.float32)) * nn.softplus(a_BTH + layer.dt_bias),
        beta_BTH=mx.sigmoid(layer.in_proj_b(x_BTD)),
        z_BTHV=layer.in_proj_z(x_BTD).reshape(B, T, layer.num_v_heads, layer.head_v_dim),
        conv_input_BRU=conv_input,
    )


def delta_output(layer: Any, y_BTHV: mx.array, z_BTHV: mx.array, ops: Ops = STOCK) -> mx.array:
    """Gated norm and output projection: everything after the recurrence. Returns [B, T, D]."""
    B, T = y_BTHV.shape[:2]
    return layer.out_proj(ops.gated_norm(layer.norm, y_BTHV, z_BTHV).reshape(B, T, -1))


def zero_state(inputs: DeltaInputs) -> mx.array:
    """The state before the first token, [B, H, V, K] in float32."""
    B, _, H, V = inputs.v_BTHV.shape
    return mx.zeros((B, H, V, inputs.k_BTNK.shape[-1]), dtype=mx.float32)


def _repeat_heads(inputs: DeltaInputs) -> tuple[mx.array, mx.array]:
    """Queries and keys once for every value head: [B, T, H, K] each."""
    times = inputs.v_BTHV.shape[2] // inputs.k_BTNK.shape[2]
    if times == 1:
        return inputs.q_BTNK, inputs.k_BTNK
    return mx.repeat(inputs.q_BTNK, times, axis=2), mx.repeat(inputs.k_BTNK, times, axis=2)


def recurrent_states(
    inputs: DeltaInputs, state_BHVK: mx.array | None
) -> tuple[mx.array, list[mx.array]]:
    """Step token by token and keep every state.

    Returns y [B, T, H, V] and T + 1 states [B, H, V, K], the first one being the state given.
    The steps are `mlx_lm`'s own, so the result is bit-equal to its loop.
    """
    state = zero_state(inputs) if state_BHVK is None else state_BHVK
    q_BTHK, k_BTHK = _repeat_heads(inputs)
    ys, states = [], [state]
    for t in range(q_BTHK.shape[1]):
        y, state = _gated_delta_step_ops(
            q_BTHK[:, t],
            k_BTHK[:, t],
            inputs.v_BTHV[:, t],
            inputs.g_BTH[:, t],
            inputs.beta_BTH[:, t],
            state,
            None,
        )
        ys.append(y)
        states.append(state)
    return mx.stack(ys, axis=1), states


class DeltaSteps(NamedTuple):
    """What the recurrence wrote with: one rank-1 update a row. All that undoing it needs."""

    k_BTNK: mx.array
    v_BTHV: mx.array
    g_BTH: mx.array
    beta_BTH: mx.array

    @classmethod
    def of(cls, inputs: DeltaInputs) -> "DeltaSteps":
        """The steps that these inputs make."""
        return cls(inputs.k_BTNK, inputs.v_BTHV, inputs.g_BTH, inputs.beta_BTH)

    def row(self, t: int) -> tuple[mx.array, mx.array, mx.array, mx.array]:
        """Key [B, H, K], value [B, H, V], decay and beta [B, H] of one row, in float32."""
        k_BNK, v_BHV, g_BH, beta_BH = (tensor[:, t].astype(mx.float32) for tensor in self)
        k_BHK = mx.repeat(k_BNK, v_BHV.shape[1] // k_BNK.shape[1], axis=1)
        return k_BHK, v_BHV, g_BH, beta_BH


def undo_step(
    state_BHVK: mx.array,
    k_BHK: mx.array,
    v_BHV: mx.array,
    g_BH: mx.array,
    gap_BH: mx.array,
    beta_BH: mx.array,
) -> mx.array:
    """The state before a step, from the state after it. Returns [B, H, V, K].

    S = g S' (I - beta k k^T) + beta v k^T is solved for S' by Sherman and Morrison (1950):
    g S' = S + beta / (1 - beta |k|^2) (S k - v) k^T. `gap_BH` is 1 - beta |k|^2; errors across k
    grow by 1 / g, errors along k by 1 / (g gap).
    """
    excess_BHV = (state_BHVK * k_BHK[..., None, :]).sum(axis=-1) - v_BHV
    scaled_BHV = (beta_BH / gap_BH)[..., None] * excess_BHV
    decayed_BHVK = state_BHVK + scaled_BHV[..., None] * k_BHK[..., None, :]
    return decayed_BHVK / g_BH[..., None, None]


def unit_lower_inverse(lower_CC: mx.array) -> mx.array:
    """Inverse of I + A for strictly lower triangular A, over leading axes; differentiable.

    LAPACK's triangular inverse has no gradient in MLX. One Newton step X(2I - MX) around its
    (constant) result has the value of the inverse and, as MX = I, the gradient of the inverse.
    """
    matrix = mx.eye(lower_CC.shape[-1]) + lower_CC
    inverse = mx.stop_gradient(mx.linalg.tri_inv(mx.stop_gradient(matrix), stream=mx.cpu))
    return 2 * inverse - inverse @ (matrix @ inverse)


class ChunkedResult(NamedTuple):
    """Output y [B, T, H, V], and the M + 1 states before, between and after the chunks."""

    y_BTHV: mx.array
    states_BHVK: list[mx.array]


def chunked_rule(
    inputs: DeltaInputs, state_BHVK: mx.array | None = None, chunk: int = 32
) -> ChunkedResult:
    """The gated delta rule, parallel inside chunks of C rows and sequential between them.

    With G the running sum of log g in a chunk, S the state before it and u the corrected values,
    (I + A) u = diag(beta) (v - diag(e^G) k S^T), A_ij = beta_i e^(G_i - G_j) k_i.k_j for j < i
    (Yang et al. 2412.06464, Section 3.3). (I + A)^-1 does not depend on S, so it is found for all
    chunks at once. T need not be a multiple of `chunk`: the last one is padded with rows that
    leave the state as it is (beta = 0, g = 1).
    """
    T = inputs.v_BTHV.shape[1]
    q, k, v, log_g, beta = _chunks(inputs, chunk)  # [B, H, M, C, ...]
    G = mx.cumsum(log_g, axis=-1)
    # Masked before exp: the upper triangle may overflow, and infinity times zero is not zero.
    rows = mx.arange(chunk)
    below = rows[:, None] >= rows[None, :]
    decay = mx.exp(mx.where(below, G[..., :, None] - G[..., None, :], -mx.inf))
    strictly = mx.where(rows[:, None] > rows[None, :], decay, 0.0)
    inverse = unit_lower_inverse(beta[..., None] * strictly * (k @ k.swapaxes(-1, -2)))
    values = inverse @ (beta[..., None] * v)  # [B, H, M, C, V]
    erased = inverse @ ((beta * mx.exp(G))[..., None] * k)  # [B, H, M, C, K]
    scores = decay * (q @ k.swapaxes(-1, -2))
    q_decayed = mx.exp(G)[..., None] * q
    k_to_end = mx.exp(G[..., -1:] - G)[..., None] * k
    chunk_decay = mx.exp(G[..., -1])[..., None, None]

    state = zero_state(inputs) if state_BHVK is None else state_BHVK
    states, ys = [state], []
    for m in range(G.shape[2]):
        u = values[:, :, m] - erased[:, :, m] @ state.swapaxes(-1, -2)
        ys.append(q_decayed[:, :, m] @ state.swapaxes(-1, -2) + scores[:, :, m] @ u)
        state = chunk_decay[:, :, m] * state + u.swapaxes(-1, -2) @ k_to_end[:, :, m]
        states.append(state)
    y_BHTV = mx.concatenate(ys, axis=2)[:, :, :T]
    return ChunkedResult(y_BHTV.transpose(0, 2, 1, 3).astype(inputs.q_BTNK.dtype), states)


def _chunks(inputs: DeltaInputs, chunk: int) -> tuple[mx.array, ...]:
    """q, k, v [B, H, M, C, width] and log g, beta [B, H, M, C], padded to whole chunks, float32."""
    padding = -inputs.v_BTHV.shape[1] % chunk

    def split(x_BTH: mx.array) -> mx.array:
        x_BTH = x_BTH.astype(mx.float32)
        if padding:
            x_BTH = mx.pad(x_BTH, [(0, 0), (0, padding)] + [(0, 0)] * (x_BTH.ndim - 2))
        B, rows, H, *width = x_BTH.shape
        x_BHT = x_BTH.swapaxes(1, 2)
        return x_BHT.reshape(B, H, rows // chunk, chunk, *width)

    q_BTHK, k_BTHK = _repeat_heads(inputs)
    wide = split(q_BTHK), split(k_BTHK), split(inputs.v_BTHV)
    return *wide, split(inputs.log_g_BTH), split(inputs.beta_BTH)
