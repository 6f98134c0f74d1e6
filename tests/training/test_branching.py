"""Every block of a window, run by branching, equals the published layout block by block."""

import mlx.core as mx
import numpy as np
import pytest

from diffdraft.config_adapters import LossWeights
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.targets.random import make_tiny_random
from diffdraft.training import adapter as training
from diffdraft.training.blocks import Corruption, block_seeds, corrupt, draft_rows
from diffdraft.training.objective import objective
from tests.decoding.plain_models import make_gemma3

WINDOW = 32


def trained_adapter(target, placement=("attention", "mlp", "delta_net")):
    """An adapter whose B is not zero."""
    adapter = Adapter.attach(target.model, AdapterSpec(4, 8.0, 0.2, placement, seed=1))
    keys = mx.random.split(mx.random.key(5), len(adapter.tensors))
    adapter.assign(
        {
            name: mx.random.normal(tensor.shape, scale=0.2, key=key)
            for key, (name, tensor) in zip(keys, adapter.tensors.items(), strict=True)
        }
    )
    return adapter


def block_loss(batch, weights):
    """The loss that a step minimises, of a batch."""
    rows, _ = objective(batch.model, batch.teacher_hidden, weights)(batch.student_hidden())
    return training.block_mean(rows)


@pytest.mark.parametrize("block", [4, 8])
@pytest.mark.parametrize("mode", ["full", "uniform"])
@pytest.mark.parametrize("make", [make_tiny_random, make_gemma3], ids=["qwen3.5", "gemma3"])
def test_blocks_equal_published_layout(block, mode, make):
    """Gemma's windows of 8 rows slide within these 32."""
    target = make(3)
    adapter = trained_adapter(target)
    windows = mx.random.randint(1, 60, (2, WINDOW), key=mx.random.key(7))
    seeds = block_seeds(WINDOW, block, "every_block")
    noise = corrupt(draft_rows(windows, seeds, block), mode, mx.random.key(8), target.noise_high)
    together = training.every_block_batch(adapter, windows, noise, seeds, block)
    student = together.student()
    for b, seed in enumerate(seeds):
        one = Corruption(
            noise.ids[:, b : b + 1], noise.level[:, b : b + 1], noise.rate[:, b : b + 1]
        )
        # The published layout of the shorter window that ends with this block.
        window = windows[:, : seed + block + 1]
        alone = training.suffix_batch(adapter, window, one, [seed], block)
        np.testing.assert_allclose(together.teacher[:, b], alone.teacher[:, 0], atol=1e-4)
        np.testing.assert_allclose(student[:, b], alone.student()[:, 0], atol=1e-4)


def test_gradient_is_the_mean_of_the_blocks():
    target = make_tiny_random(3)
    adapter = trained_adapter(target)
    block, weights = 8, LossWeights(tv=1.0, kl=0.3)
    windows = mx.random.randint(1, 60, (2, WINDOW), key=mx.random.key(7))
    seeds = block_seeds(WINDOW, block, "every_block")
    noise = corrupt(draft_rows(windows, seeds, block), "full", mx.random.key(8), target.noise_high)

    def together(tensors):
        adapter.assign(tensors)
        batch = training.every_block_batch(adapter, windows, noise, seeds, block)
        return block_loss(batch, weights)

    def one_by_one(tensors):
        adapter.assign(tensors)
        losses = []
        for b, seed in enumerate(seeds):
            one = Corruption(*(part[:, b : b + 1] for part in noise))
            window = windows[:, : seed + block + 1]
            batch = training.suffix_batch(adapter, window, one, [seed], block)
            losses.append(block_loss(batch, weights))
        return mx.stack(losses).mean()

    tensors = adapter.tensors
    loss_a, grads_a = mx.value_and_grad(together)(tensors)
    loss_b, grads_b = mx.value_and_grad(one_by_one)(tensors)
    assert loss_a.item() == pytest.approx(loss_b.item(), rel=1e-5)
    for name, grad in grads_a.items():
        scale = mx.abs(grads_b[name]).max().item()
        assert scale > 0
        np.testing.assert_allclose(grad, grads_b[name], atol=1e-3 * scale)
