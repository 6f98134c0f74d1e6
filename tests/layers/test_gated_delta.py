"""The chunked rule against the time loop, forward and backward; recorded states bit for bit."""

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.gated_delta import gated_delta_ops, normalize_qk

from diffdraft.layers.chunked import chunked_logits
from diffdraft.layers.gated_delta import (
    DeltaInputs,
    chunked_rule,
    delta_inputs,
    recurrent_states,
    unit_lower_inverse,
)
from diffdraft.targets.random import make_tiny_random


def normal(*shape, seed):
    return mx.random.normal(shape, key=mx.random.key(seed))


def random_inputs(rows=50, heads=4, key_heads=2, width=16):
    q, k = normalize_qk(
        normal(2, rows, key_heads, width, seed=1),
        normal(2, rows, key_heads, width, seed=2),
        inv_scale=width**-0.5,
        eps=1e-6,
    )
    log_g = -mx.exp(normal(2, rows, heads, seed=4))
    beta = mx.sigmoid(normal(2, rows, heads, seed=5))
    v = normal(2, rows, heads, width, seed=3)
    return DeltaInputs(q, k, v, mx.exp(log_g), log_g, beta, mx.zeros(()), mx.zeros(()))


def loop(inputs, state):
    return gated_delta_ops(
        inputs.q_BTNK, inputs.k_BTNK, inputs.v_BTHV, inputs.g_BTH, inputs.beta_BTH, state
    )


@pytest.mark.parametrize("chunk", [1, 7, 16, 32, 64])
def test_chunked_equals_loop(chunk):
    inputs, state = random_inputs(), 0.1 * normal(2, 4, 16, 16, seed=6)
    y, final = loop(inputs, state)
    chunked = chunked_rule(inputs, state, chunk)
    np.testing.assert_allclose(chunked.y_BTHV, y, atol=1e-6)
    np.testing.assert_allclose(chunked.states_BHVK[-1], final, atol=5e-6)


def test_states_between_chunks_are_those_of_the_loop():
    inputs = random_inputs(rows=24)
    _, states = recurrent_states(inputs, None)
    chunked = chunked_rule(inputs, chunk=8)
    for m, state in enumerate(chunked.states_BHVK):
        np.testing.assert_allclose(state, states[8 * m], atol=5e-6)


@pytest.mark.parametrize("chunk", [16, 32])
def test_gradients_equal_those_of_the_loop(chunk):
    inputs, state = random_inputs(), 0.1 * normal(2, 4, 16, 16, seed=6)

    def gradients(rule):
        def value(q, k, v, log_g, beta, state):
            parts = DeltaInputs(q, k, v, mx.exp(log_g), log_g, beta, mx.zeros(()), mx.zeros(()))
            y, final = rule(parts, state)
            weights_y, weights_s = normal(*y.shape, seed=9), normal(*final.shape, seed=10)
            return (y * weights_y).sum() + (final * weights_s).sum()

        arguments = (inputs.q_BTNK, inputs.k_BTNK, inputs.v_BTHV, inputs.log_g_BTH)
        return mx.grad(value, argnums=tuple(range(6)))(*arguments, inputs.beta_BTH, state)

    def chunked(parts, state):
        result = chunked_rule(parts, state, chunk)
        return result.y_BTHV, result.states_BHVK[-1]

    for ours, reference in zip(gradients(chunked), gradients(loop), strict=True):
        scale = mx.abs(reference).max().item()
        np.testing.assert_allclose(ours, reference, atol=2e-5 * scale)


def test_inverse_has_the_gradient_of_the_inverse():
    lower = mx.tril(normal(5, 5, seed=1), k=-1)
    weights = normal(5, 5, seed=2)
    ours = mx.grad(lambda a: (unit_lower_inverse(a) * weights).sum())(lower)
    inverse = np.linalg.inv(np.eye(5) + np.array(lower))
    expected = -inverse.T @ np.array(weights) @ inverse.T  # d(M^-1) = -M^-1 dM M^-1
    np.testing.assert_allclose(ours, expected, atol=2e-5 * np.abs(expected).max())


def test_strong_decay_is_finite():
    inputs = random_inputs()
    strong = inputs._replace(log_g_BTH=50 * inputs.log_g_BTH, g_BTH=mx.exp(50 * inputs.log_g_BTH))
    y, _ = loop(strong, None)
    np.testing.assert_allclose(chunked_rule(strong).y_BTHV, y, atol=1e-6)


def test_recorded_states_are_bit_equal_to_the_loop():
    inputs, state = random_inputs(rows=6), normal(2, 4, 16, 16, seed=6)
    y, states = recurrent_states(inputs, state)
    assert mx.array_equal(y, loop(inputs, state)[0])
    for m in range(1, 7):
        prefix = DeltaInputs(*(part[:, :m] if part.ndim > 1 else part for part in inputs))
        assert mx.array_equal(states[m], loop(prefix, state)[1])


def test_split_layer_equals_the_layer_of_mlx_lm():
    model = make_tiny_random(1).model
    layer = model.layers[0].linear_attn
    x = normal(2, 9, 32, seed=3)
    inputs = delta_inputs(layer, x, None)
    y, _ = recurrent_states(inputs, None)
    from diffdraft.layers.gated_delta import delta_output

    np.testing.assert_allclose(delta_output(layer, y, inputs.z_BTHV), layer(x), atol=1e-6)


@pytest.mark.parametrize("first_row", [0, 20])
def test_chunked_forward_equals_mlx_lm(first_row):
    model = make_tiny_random(2).model
    ids = mx.random.randint(1, 60, (2, 45), key=mx.random.key(0))
    np.testing.assert_allclose(
        chunked_logits(model, ids, first_row), model(ids)[:, first_row:], atol=3e-5
    )
