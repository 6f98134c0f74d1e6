"""The control with shuffled targets: teachers of other windows, everything else as it is."""

import mlx.core as mx
import numpy as np
import pytest

from diffdraft.drafters.noise import random_key
from diffdraft.errors import UserError
from diffdraft.layers.lora import Adapter
from diffdraft.targets.random import make_tiny_random
from diffdraft.training import adapter as training
from diffdraft.training.adapter import AdapterTask, adapter_spec
from diffdraft.training.blocks import corrupt, draft_rows
from diffdraft.training.loop import fit, history_csv
from tests.training.test_branching import block_loss
from tests.training.test_loop import Killed, kill_at, optimiser, settings

LAYOUTS = pytest.mark.parametrize("layout", list(training.LAYOUTS))
WINDOWS = np.random.default_rng(0).integers(1, 60, (9, 16)).astype(np.int32)


def new_task(shuffle=True, **changes):
    target = make_tiny_random(1)
    chosen = settings(**changes)
    adapter = Adapter.attach(target.model, adapter_spec(chosen))
    keys = mx.random.split(mx.random.key(5), len(adapter.tensors))
    drawn = zip(keys, adapter.tensors.items(), strict=True)
    adapter.assign({n: mx.random.normal(t.shape, scale=0.2, key=k) for k, (n, t) in drawn})
    return AdapterTask(target, adapter, WINDOWS, chosen, shuffle)


def batches(layout, corruption="uniform"):
    key, windows = mx.random.key(8), mx.array(WINDOWS[:3])
    plain, shuffled = (new_task(shuffle, layout=layout) for shuffle in (False, True))
    return tuple(task.batch(windows, key, corruption, 4) for task in (plain, shuffled))


@LAYOUTS
def test_teacher_is_that_of_the_rolled_windows(layout):
    _, shuffled = batches(layout)
    rolled = mx.array(np.roll(WINDOWS[:3], 1, axis=0))
    oracle = new_task(False, layout=layout).batch(rolled, mx.random.key(8), "uniform", 4)
    np.testing.assert_allclose(shuffled.teacher, oracle.teacher, atol=1e-5)


@LAYOUTS
@pytest.mark.parametrize("corruption", ["uniform", "full"])
def test_student_is_untouched(layout, corruption):
    plain, shuffled = batches(layout, corruption)
    assert mx.array_equal(shuffled.student(), plain.student())
    for window in range(3):
        assert mx.array_equal(shuffled.teacher_hidden[window], plain.teacher_hidden[window - 1])
        assert not mx.allclose(shuffled.teacher[window], plain.teacher[window], atol=0.1)


def plain_step(task, step):
    """Loss and gradients of a step, spelled out as they were before there was a control."""
    chosen, adapter = task._settings, task._adapter
    windows = mx.array(WINDOWS[task._order.batch(step)])
    block, seeds = chosen.block_size, task._seeds(chosen.block_size)
    key = random_key(chosen.optimiser.seed, "train_noise", step)
    clean = draft_rows(windows, seeds, block)
    noise = corrupt(clean, chosen.corruption, key, task._target.noise_high)
    batch = training.LAYOUTS[chosen.layout](adapter, windows, noise, seeds, block)

    def loss(tensors):
        adapter.assign(tensors)
        return block_loss(batch, chosen.loss)

    before = adapter.tensors
    value, grads = mx.value_and_grad(loss)(before)
    adapter.assign(before)
    return value, grads


@LAYOUTS
def test_normal_training_is_what_it_was_bit_for_bit(layout):
    task = new_task(False, layout=layout)
    for step in range(3):
        value, grads, _ = task.loss_and_grads(step)
        expected, expected_grads = plain_step(task, step)
        assert value.item() == expected.item()
        for name, grad in grads.items():
            assert mx.array_equal(grad, expected_grads[name]), name


def test_not_shuffling_is_the_default(tmp_path):
    target = make_tiny_random(1)
    adapter = Adapter.attach(target.model, adapter_spec(settings()))
    default = AdapterTask(target, adapter, WINDOWS, settings())
    for step in range(2):
        value, _, _ = default.loss_and_grads(step)
        assert value.item() == plain_step(default, step)[0].item()


@LAYOUTS
def test_resumed_run_is_bit_identical(tmp_path, layout):
    whole = new_task(layout=layout)
    history = fit(whole, optimiser(), "hash", tmp_path / "whole")
    with pytest.raises(Killed):
        fit(new_task(layout=layout), optimiser(), "hash", tmp_path / "killed", kill_at(4))
    resumed = new_task(layout=layout)
    assert history_csv(fit(resumed, optimiser(), "hash", tmp_path / "killed")) == history_csv(
        history
    )
    for name, tensor in whole.tensors.items():
        assert mx.array_equal(resumed.tensors[name], tensor), name


def test_a_batch_of_one_has_no_other_teacher():
    one = optimiser(batch_size=1)
    with pytest.raises(UserError, match="at least 2, to shuffle teachers"):
        new_task(optimiser=one)
    new_task(False, optimiser=one)
