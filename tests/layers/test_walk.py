"""The walk over the layers gives what mlx-lm's own forward gives, for every kind of layer."""

import mlx.core as mx
import numpy as np
import pytest

from diffdraft.layers.chunked import chunked_logits
from diffdraft.targets.random import make_tiny_random
from tests.decoding.plain_models import make_gemma3, make_qwen3


@pytest.mark.parametrize("make", [make_tiny_random, make_gemma3, make_qwen3])
def test_chunked_forward_equals_mlx_lm(make):
    """20 rows, past Gemma's windows of 8."""
    model = make(2).model
    ids = mx.random.randint(1, 60, (2, 20), key=mx.random.key(1))
    np.testing.assert_allclose(chunked_logits(model, ids), model(ids), atol=2e-4)


def test_only_the_rows_asked_for_are_read_out():
    model = make_gemma3(2).model
    ids = mx.random.randint(1, 60, (1, 20), key=mx.random.key(1))
    np.testing.assert_allclose(chunked_logits(model, ids, 15), model(ids)[:, 15:], atol=2e-4)
