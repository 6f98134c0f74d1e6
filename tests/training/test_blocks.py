"""Where blocks start and how their rows are corrupted."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.drafters.noise import random_key
from diffdraft.errors import UserError
from diffdraft.layers.lora import Adapter
from diffdraft.targets.random import make_tiny_random
from diffdraft.training.adapter import suffix_batch
from diffdraft.training.blocks import block_seeds, corrupt, draft_rows, suffix_seed
from diffdraft.training.losses import reverse_kl, total_variation
from tests.training.test_loop import settings as adapter_settings


def test_published_sizes():
    assert suffix_seed(128, 8) == 119
    assert block_seeds(128, 8, "suffix") == [119]
    seeds = block_seeds(128, 8, "every_block")
    assert seeds == list(range(7, 120, 8))
    assert len(block_seeds(128, 4, "every_block")) == 31


@given(block=st.integers(2, 16), blocks=st.integers(2, 8))
def test_blocks_tile_the_window_without_overlap(block, blocks):
    seeds = block_seeds(block * blocks, block, "every_block")
    supervised = [row for seed in seeds for row in range(seed, seed + block)]
    assert len(set(supervised)) == len(supervised)
    assert supervised[-1] == block * blocks - 2  # the last row that has a next token


def test_window_too_small_or_untiled():
    with pytest.raises(UserError, match="at least block_size"):
        suffix_seed(9, 8)
    with pytest.raises(UserError, match="multiple of block_size"):
        block_seeds(127, 8, "every_block")


def test_full_corruption_replaces_every_row():
    clean = mx.full((3, 2, 7), 60)
    noise = corrupt(clean, "full", mx.random.key(1), 60)
    assert noise.ids.max().item() < 60 and noise.ids.min().item() >= 1
    assert noise.level.min().item() == 1
    assert noise.rate.tolist() == [[[1.0]] * 2] * 3


def test_uniform_corruption_keeps_rows_with_one_minus_t():
    clean = mx.full((4000, 7), 60)
    noise = corrupt(clean, "uniform", mx.random.key(1), 60)
    level, rate = np.array(noise.level), np.array(noise.rate)[:, 0]
    assert np.array_equal(level == 0, np.array(noise.ids) == 60)
    assert rate.mean() == pytest.approx(0.5, abs=0.02)
    for low in (0.0, 0.25, 0.5, 0.75):
        chosen = (rate >= low) & (rate < low + 0.25)
        assert level[chosen].mean() == pytest.approx(rate[chosen].mean(), abs=0.03)


def test_both_modes_share_their_noise_ids():
    clean = mx.zeros((2, 7), dtype=mx.int32)
    full = corrupt(clean, "full", mx.random.key(3), 60)
    some = corrupt(clean, "uniform", mx.random.key(3), 60)
    assert mx.array_equal(mx.where(some.level, full.ids, 0), some.ids)


def test_corruption_leaves_the_global_generator_alone():
    mx.random.seed(1)
    expected = mx.random.uniform(shape=(3,))
    mx.random.seed(1)
    corrupt(mx.zeros((2, 7)), "uniform", random_key(1, "train_noise", 2), 60)
    assert mx.array_equal(mx.random.uniform(shape=(3,)), expected)


def test_draft_rows_are_the_true_tokens_after_the_seed():
    windows = mx.arange(32)[None]
    assert draft_rows(windows, [7, 15, 23], 8)[0, 1].tolist() == list(range(16, 23))


def test_seed_row_has_zero_loss_exactly():
    target = make_tiny_random(1)
    adapter = Adapter.attach(target.model, adapter_spec_of())
    for name, tensor in adapter.tensors.items():
        adapter.assign({name: mx.ones_like(tensor)})
    windows = mx.random.randint(1, 60, (2, 16), key=mx.random.key(7))
    noise = corrupt(draft_rows(windows, [11], 4), "full", mx.random.key(8), target.noise_high)
    # Take the row before the draft rows as one of them: the adapter is off there.
    student_ids = mx.concatenate([windows[:, :12], noise.ids[:, 0]], axis=1)
    gate = mx.broadcast_to(mx.arange(15) > 11, (2, 15)).astype(mx.float32)
    with adapter.rows(gate):
        student = target.model(student_ids)[:, 11]
    teacher = target.model(windows[:, :-1])[:, 11]
    assert mx.abs(total_variation(student, teacher)).max().item() == 0.0
    batch = suffix_batch(adapter, windows, noise, [11], 4)
    assert total_variation(batch.student(), batch.teacher).min().item() > 0


def adapter_spec_of():
    from diffdraft.training.adapter import adapter_spec

    return adapter_spec(adapter_settings())


def test_losses_against_numpy():
    student = mx.random.normal((5, 11), key=mx.random.key(1))
    teacher = mx.random.normal((5, 11), key=mx.random.key(2))

    def softmax(x):
        e = np.exp(np.array(x, dtype=np.float64))
        return e / e.sum(-1, keepdims=True)

    p, q = softmax(student), softmax(teacher)
    np.testing.assert_allclose(total_variation(student, teacher), np.abs(p - q).sum(-1), rtol=1e-5)
    np.testing.assert_allclose(reverse_kl(student, teacher), (p * np.log(p / q)).sum(-1), rtol=1e-4)
