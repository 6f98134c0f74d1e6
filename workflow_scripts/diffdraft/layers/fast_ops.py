"""The element-wise parts of a layer, in the form that is cheap on a CPU, gradients included.

MLX's CPU backend computes `exp`, and the sigmoid and SiLU built on it, at some 25 ns an element,
the GELU at twice that, and the gradient of a depthwise convolution slowly. A training step spends
most of its time there. These forms give the same values to float32 rounding. Training, extraction
and text that is not timed run them; decoding runs the operations of `mlx_lm`, which it must equal
bit for bit.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models import gemma3_text

# tanh(y) = y P(y^2) / Q(y^2) on |y| <= 9, fitted by reweighted least squares: error 2e-8, below
# float32 rounding. Highest power first.
TANH_LIMIT = 9.0
TANH_P = (
    1.3185227325763199e-08,
    2.047263083262137e-05,
    3.4866337830386086e-03,
    1.3373242470320185e-01,
    9.999999065040165e-01,
)
TANH_Q = (
    7.703096751252496e-07,
    3.271467963899931e-04,
    2.5842179949869818e-02,
    4.670653939203737e-01,
    1.0,
)

GELU_SLOPE = 2 * math.sqrt(2 / math.pi)
GELU_CUBIC = 0.044715


class Ops(NamedTuple):
    """Three places where a layer is element-wise.

    `convolve(layer, conv_input [B, W + T, U])` is SiLU of the causal depthwise convolution;
    `mlp(module, x)` the gated MLP; `gated_norm(module, y, z)` RMS norm of y times SiLU of z.
    """

    convolve: Callable[[Any, mx.array], mx.array]
    mlp: Callable[[Any, mx.array], mx.array]
    gated_norm: Callable[[Any, mx.array, mx.array], mx.array]


STOCK = Ops(
    convolve=lambda layer, conv_input: nn.silu(layer.conv1d(conv_input)),
    mlp=lambda module, x: module(x),
    gated_norm=lambda module, y, z: module(y, z),
)


# Not `shapeless`: a graph first met inside a gradient would keep the shape that it had there, since
# MLX (0.32) traces shapes as variable only where compilation is the outermost transformation.
@mx.compile
def _rational_sigmoid(x: mx.array) -> mx.array:
    y = mx.clip(0.5 * x, -TANH_LIMIT, TANH_LIMIT)
    u = y * y
    return 0.5 + 0.5 * (y * _polynomial(TANH_P, u) / _polynomial(TANH_Q, u))


def _polynomial(coefficients: tuple[float, ...], u: mx.array) -> mx.array:
    value = coefficients[0] * u + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * u + coefficient
    return value


@mx.custom_function
def _sigmoid(x: mx.array) -> mx.array:
    return _rational_sigmoid(x)


@_sigmoid.vjp
def _sigmoid_vjp(x: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
    return cotangent * output * (1 - output)


def sigmoid(x: mx.array) -> mx.array:
    """Logistic function by a rational approximation; absolute error below 2e-7.

    Computed in float32 whatever the dtype: the polynomials need more digits than bfloat16 has.
    """
    return cast(mx.array, _sigmoid(x.astype(mx.float32))).astype(x.dtype)


def silu(x: mx.array) -> mx.array:
    """x times its sigmoid."""
    return x * sigmoid(x)


def gelu(x: mx.array) -> mx.array:
    """GELU by its tanh form, which is x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)).

    (Hendrycks and Gimpel, 1606.08415, Section 2.)
    """
    return x * sigmoid(GELU_SLOPE * (x + GELU_CUBIC * (x * x * x)))


def convolve(layer: Any, conv_input_BRU: mx.array) -> mx.array:
    """SiLU of the causal depthwise convolution, as shifted products. Returns [B, R - W, U]."""
    kernel_UJ = layer.conv1d.weight[..., 0]
    J = kernel_UJ.shape[1]
    T = conv_input_BRU.shape[1] - (J - 1)
    total_BTU = conv_input_BRU[:, :T] * kernel_UJ[:, 0]
    for j in range(1, J):
        total_BTU = total_BTU + conv_input_BRU[:, j : j + T] * kernel_UJ[:, j]
    return silu(total_BTU)


def mlp(module: Any, x_BTD: mx.array) -> mx.array:
    """down(act(gate(x)) * up(x)); the activation is Gemma's GELU or SiLU."""
    activation = gelu if isinstance(module, gemma3_text.MLP) else silu
    return module.down_proj(activation(module.gate_proj(x_BTD)) * module.up_proj(x_BTD))


def gated_norm(module: Any, y_BTHV: mx.array, z_BTHV: mx.array) -> mx.array:
    """RMS norm of y, times SiLU of z in float32, as `mlx_lm` has it."""
    normed = mx.fast.rms_norm(y_BTHV, module.weight, module.eps).astype(mx.float32)
    return (silu(z_BTHV.astype(mx.float32)) * normed).astype(y_BTHV.dtype)


FAST = Ops(convolve=convolve, mlp=mlp, gated_norm=gated_norm)
