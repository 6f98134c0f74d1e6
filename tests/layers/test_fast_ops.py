"""The cheap forms against MLX's and mlx-lm's own, values and gradients."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from diffdraft.layers.fast_ops import FAST, STOCK, sigmoid, silu
from diffdraft.targets.random import make_tiny_random


def normal(*shape, seed, scale=1.0):
    return mx.random.normal(shape, scale=scale, key=mx.random.key(seed))


def test_sigmoid_within_2e_7_everywhere():
    x = np.concatenate([np.linspace(-30, 30, 100_001), [-1e30, -88.0, 0.0, 88.0, 1e30]])
    x = x.astype(np.float32)
    exact = np.exp(-np.logaddexp(0, -x.astype(np.float64)))
    assert np.abs(np.array(sigmoid(mx.array(x))) - exact).max() < 2e-7


@pytest.mark.parametrize(("ours", "theirs"), [(sigmoid, mx.sigmoid), (silu, nn.silu)])
def test_gradients(ours, theirs):
    x = mx.linspace(-12, 12, 4001)
    weights = normal(4001, seed=1)
    gradients = [mx.grad(lambda x, f=f: (f(x) * weights).sum())(x) for f in (ours, theirs)]
    np.testing.assert_allclose(gradients[0], gradients[1], atol=5e-6)


def test_a_shape_first_met_inside_a_gradient_is_not_kept():
    # Five axes: no other test compiles for as many, so the first trace is the one in here.
    long, short, single = (normal(2, 1, 1, rows, 4, seed=rows) for rows in (31, 15, 1))
    mx.eval(mx.grad(lambda scale: (sigmoid(long) * scale).sum())(mx.array(1.0)))
    for x in (short, single, long):
        np.testing.assert_allclose(sigmoid(x), mx.sigmoid(x), atol=2e-7)


def test_bfloat16_is_rounded_once():
    x = mx.linspace(-10, 10, 2001).astype(mx.bfloat16)
    assert mx.array_equal(sigmoid(x), sigmoid(x.astype(mx.float32)).astype(mx.bfloat16))


def parts():
    model = make_tiny_random(1).model
    delta, mlp = model.layers[0].linear_attn, model.layers[0].mlp
    y, z = normal(2, 9, 2, 16, seed=2), normal(2, 9, 2, 16, seed=3, scale=3.0)
    return {
        "convolve": (delta, normal(2, 12, delta.conv_dim, seed=4)),
        "mlp": (mlp, normal(2, 9, 32, seed=5)),
        "gated_norm": (delta.norm, y, z),
    }


@pytest.mark.parametrize("name", ["convolve", "mlp", "gated_norm"])
def test_fast_equals_stock(name):
    module, *arrays = parts()[name]
    results, gradients = [], []
    for ops in (FAST, STOCK):
        function = getattr(ops, name)
        results.append(function(module, *arrays))
        weights = normal(*results[0].shape, seed=6)

        def value(*arrays, function=function, weights=weights):
            return (function(module, *arrays) * weights).sum()

        gradients.append(mx.grad(value, argnums=tuple(range(len(arrays))))(*arrays))
    np.testing.assert_allclose(results[0], results[1], atol=3e-6)
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * mx.abs(theirs).max().item())
