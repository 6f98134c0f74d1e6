"""Exact resume: a run killed at any step and started again ends bit for bit as one that was not."""

import mlx.core as mx
import numpy as np
import pytest

from diffdraft.config_adapters import AdapterSettings, OptimiserSettings, StagedAdapterSettings
from diffdraft.errors import UserError
from diffdraft.layers.lora import Adapter
from diffdraft.targets.random import make_tiny_random
from diffdraft.training.adapter import AdapterTask, adapter_spec
from diffdraft.training.loop import WindowOrder, fit, history_csv, learning_rate

STEPS = 7


def optimiser(**changes):
    settings = {
        "steps": STEPS,
        "batch_size": 2,
        "window": 16,
        "learning_rate": 1e-2,
        "warmup_steps": 2,
        "schedule": "cosine",
        "weight_decay": 0.01,
        "betas": (0.9, 0.99),
        "bias_correction": True,
        "clip_norm": 1.0,
        "checkpoint_every": 3,
        "seed": 5,
    }
    return OptimiserSettings(**{**settings, **changes})


def settings(**changes):
    values = {
        "block_size": 4,
        "rank": 2,
        "alpha": 4,
        "init_std": 0.1,
        "placement": ("attention", "mlp", "delta_net"),
        "layout": "every_block",
        "corruption": "uniform",
        "continuations": None,
        "loss": {"tv": 1.0, "kl": 0.1},
        "optimiser": optimiser(),
    }
    return AdapterSettings(**{**values, **changes})


def new_task(**changes):
    return task_of(settings(**changes))


def task_of(chosen):
    target = make_tiny_random(1)
    windows = np.random.default_rng(0).integers(1, 60, (9, 16)).astype(np.int32)
    return AdapterTask(target, Adapter.attach(target.model, adapter_spec(chosen)), windows, chosen)


class Killed(Exception):
    """Stands for a kill: nothing after it runs."""


def kill_at(step):
    def on_step(done):
        if done == step:
            raise Killed

    return on_step


@pytest.mark.parametrize("step", range(1, STEPS + 1))
@pytest.mark.parametrize("layout", ["every_block", "suffix"])
def test_resumed_run_is_bit_identical(tmp_path, step, layout):
    whole = new_task(layout=layout)
    history = fit(whole, optimiser(), "hash", tmp_path / "whole")
    with pytest.raises(Killed):
        fit(new_task(layout=layout), optimiser(), "hash", tmp_path / "killed", kill_at(step))
    resumed = new_task(layout=layout)
    again = fit(resumed, optimiser(), "hash", tmp_path / "killed")
    assert history_csv(again) == history_csv(history)
    for name, tensor in whole.tensors.items():
        assert mx.array_equal(resumed.tensors[name], tensor), name


def test_other_settings_start_afresh(tmp_path):
    fit(new_task(), optimiser(), "one" * 6, tmp_path)
    history = fit(new_task(), optimiser(), "two" * 6, tmp_path)
    assert [record["step"] for record in history] == list(range(1, STEPS + 1))


def test_training_moves_only_the_adapter(tmp_path):
    task = new_task()
    before = task.tensors
    fit(task, optimiser(), "hash", tmp_path)
    task._target.check_unchanged()
    assert any(not mx.array_equal(task.tensors[name], before[name]) for name in before)


@pytest.mark.parametrize("spoilt", ["loss", "grad_norm"])
def test_what_is_not_finite_ends_the_training(tmp_path, monkeypatch, spoilt):
    task = new_task()
    whole = task.loss_and_grads

    def loss_and_grads(step):
        loss, grads, others = whole(step)
        if step == 2 and spoilt == "loss":
            return mx.array(float("nan")), grads, others
        if step == 2:
            grads = {name: gradient * float("inf") for name, gradient in grads.items()}
        return loss, grads, others

    monkeypatch.setattr(task, "loss_and_grads", loss_and_grads)
    before = task.tensors
    with pytest.raises(
        UserError, match=rf"{spoilt}: found (nan|inf) at step 3; .* Lower optimiser"
    ):
        fit(task, optimiser(), "hash", tmp_path)
    assert all(mx.all(mx.isfinite(tensor)) for tensor in task.tensors.values())
    assert set(task.tensors) == set(before)


def test_saturation_is_an_error():
    task = new_task()
    stuck = {"grad_norm": 1e-4, "student_absmax": 50.0, "teacher_absmax": 20.0}
    history = [{"step": step, **stuck} for step in range(5)]
    task.check(history[:4])
    with pytest.raises(UserError, match=r"gradient: found none up to step 4, .* Lower optimiser"):
        task.check(history)
    task.check([*history[:4], {"step": 4, **stuck, "grad_norm": 1e-2}])


def test_window_order_is_a_function_of_the_step():
    order = WindowOrder(10, 4, seed=3)
    batches = [order.batch(step).tolist() for step in range(6)]
    assert WindowOrder(10, 4, seed=3).batch(5).tolist() == batches[5]
    first = np.random.default_rng(3).permutation(10)
    assert batches[0] + batches[1] == first[:8].tolist()
    assert len({i for batch in batches[2:4] for i in batch}) == 8  # no repeat in one permutation


def test_too_few_windows_for_a_batch():
    with pytest.raises(UserError, match="at least one batch of 4"):
        WindowOrder(3, 4, seed=0)


def test_learning_rate_warms_up_and_follows_its_schedule():
    rates = [learning_rate(optimiser(warmup_steps=4, steps=104), step) for step in range(104)]
    assert rates[:4] == pytest.approx([2.5e-3, 5e-3, 7.5e-3, 1e-2])
    assert rates[54] == pytest.approx(5e-3)
    assert rates[103] < 1e-5
    constant = optimiser(schedule="constant")
    assert learning_rate(constant, 6) == 1e-2


def staged(first_steps):
    values = settings(block_size=8).model_dump()
    return StagedAdapterSettings(**values, first_block_size=4, first_steps=first_steps)


def test_stages_train_one_block_size_after_the_other():
    """The first steps are those of an adapter of the first size."""
    both, small = task_of(staged(first_steps=2)), new_task(block_size=4)
    assert both.block_size == 8
    for step in range(4):
        found, expected = (task.loss_and_grads(step)[0].item() for task in (both, small))
        assert (found == expected) == (step < 2)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"block_size": 5}, "a divisor of the window, 16"),
        ({"block_size": 15, "layout": "suffix"}, "at most the window of 16 less 2"),
        ({"loss": {"tv": 0.0, "kl": 0.0}}, "a weight above 0"),
        ({"loss": {"top_tokens": 4, "tv": 0.0, "forward_kl": 0.0}}, "a weight above 0"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_the_profile(changes, match):
    with pytest.raises(ValueError, match=match):
        settings(**changes)


@pytest.mark.parametrize(("first", "match"), [(5, "a divisor of"), (8, "another than block_size")])
def test_a_first_stage_that_cannot_be_trained(first, match):
    values = settings(block_size=8).model_dump()
    with pytest.raises(ValueError, match=match):
        StagedAdapterSettings(**values, first_block_size=first, first_steps=2)


def test_stages_that_leave_no_step_for_the_last_are_refused():
    with pytest.raises(ValueError, match=f"less than optimiser.steps, {STEPS}"):
        staged(first_steps=STEPS)
