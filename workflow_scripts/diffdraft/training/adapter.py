"""Train a drafter adapter against its frozen target.

The teacher is the target's own distribution at the same rows of the clean window. Slot 0 is the
frozen model itself in both, so its loss is exactly zero; it counts in the mean, as published.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from diffdraft.config_adapters import AdapterSettings
from diffdraft.drafters.noise import random_key
from diffdraft.errors import UserError
from diffdraft.layers.chunked import chunked_hidden
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.layers.tensors import Tensors
from diffdraft.layers.walk import head
from diffdraft.targets.load import Target
from diffdraft.training.blocks import Corruption, block_seeds, corrupt, draft_rows
from diffdraft.training.branching import clean_pass, noisy_pass
from diffdraft.training.loop import LOWER, WindowOrder
from diffdraft.training.losses import total_variation
from diffdraft.training.objective import objective

SATURATED_GRAD_NORM = 1e-3
SATURATED_LOGIT_RATIO = 2.0
SATURATED_STEPS = 5


class Batch(NamedTuple):
    """Final hidden states [B, n, L - 1, D] of the draft rows: the teacher's, the student's."""

    model: Any
    teacher_hidden: mx.array
    student_hidden: Callable[[], mx.array]

    @property
    def teacher(self) -> mx.array:
        """Teacher logits [B, n, L - 1, V]."""
        return head(self.model, self.teacher_hidden)

    def student(self) -> mx.array:
        """Student logits [B, n, L - 1, V]."""
        return head(self.model, self.student_hidden())


def adapter_spec(settings: AdapterSettings) -> AdapterSpec:
    """The shape of the adapter that these settings ask for."""
    return AdapterSpec(
        rank=settings.rank,
        alpha=settings.alpha,
        init_std=settings.init_std,
        placement=settings.placement,
        seed=settings.optimiser.seed,
    )


def suffix_batch(
    adapter: Adapter, windows_BW: mx.array, noise: Corruption, seeds: list[int], block: int
) -> Batch:
    """The published layout: two plain forwards of W - 1 rows; the suffix holds the draft rows."""
    model, seed = adapter.model, seeds[0]
    student_ids = mx.concatenate([windows_BW[:, : seed + 1], noise.ids[:, 0]], axis=1)
    gate = mx.broadcast_to(mx.arange(student_ids.shape[1]) > seed, student_ids.shape)
    teacher = chunked_hidden(model, windows_BW[:, :-1])[:, None, seed + 1 :]

    def student() -> mx.array:
        with adapter.rows(gate.astype(mx.float32)):
            return chunked_hidden(model, student_ids)[:, None, seed + 1 :]

    return Batch(model, mx.stop_gradient(teacher), student)


def every_block_batch(
    adapter: Adapter, windows_BW: mx.array, noise: Corruption, seeds: list[int], block: int
) -> Batch:
    """All blocks of the window: one clean pass, one pass over all draft rows."""
    model = adapter.model
    clean = clean_pass(model, windows_BW[:, :-1], seeds, block)
    rows_nL = mx.array(seeds)[:, None] + mx.arange(1, block)[None, :]
    B, n, J = noise.ids.shape

    def student() -> mx.array:
        with adapter.rows(mx.ones((B * n, J))):
            return noisy_pass(model, noise.ids, seeds, clean)

    return Batch(model, mx.stop_gradient(clean.hidden_BTD)[:, rows_nL], student)


LAYOUTS = {"suffix": suffix_batch, "every_block": every_block_batch}


def shuffle_teacher(batch: Batch) -> Batch:
    """The control: every student meets the teacher of the window before it, B windows in a ring.

    The student and its input stay as they are; were both rolled, total variation would not
    notice. (qwen-block-diffusion-lab, shuffled targets: the teacher's ids are rolled. A row's
    hidden state depends on its own window only, so it is the same to roll those.)
    """
    return batch._replace(teacher_hidden=mx.roll(batch.teacher_hidden, 1, 0))


def block_mean(loss_BnJ: mx.array) -> mx.array:
    """The mean over all B n L supervised rows, the zero of the seed row included."""
    return loss_BnJ.sum() / (loss_BnJ.size + loss_BnJ.size // loss_BnJ.shape[-1])


class AdapterTask:
    """Training windows, keyed corruption and the gradient of the adapter's tensors.

    With `shuffle_targets` the teachers are dealt to the wrong windows (`shuffle_teacher`), which
    takes batches of two. Raises `UserError` for a batch of one.
    """

    def __init__(
        self,
        target: Target,
        adapter: Adapter,
        windows_NW: np.ndarray,
        settings: AdapterSettings,
        shuffle_targets: bool = False,
    ) -> None:
        self._target, self._adapter, self._settings = target, adapter, settings
        self._windows, self._shuffle_targets = windows_NW, shuffle_targets
        optimiser = settings.optimiser
        if shuffle_targets and optimiser.batch_size < 2:
            found = optimiser.batch_size
            raise UserError("profile", "batch_size", found, "at least 2, to shuffle teachers")
        self._order = WindowOrder(len(windows_NW), optimiser.batch_size, optimiser.seed)

    @property
    def block_size(self) -> int:
        """Block size of the last steps."""
        return self._settings.block_size

    @property
    def n_blocks(self) -> int:
        """Supervised blocks a window, of that size."""
        return len(self._seeds(self.block_size))

    @property
    def tensors(self) -> Tensors:
        """The adapter's trainable tensors."""
        return self._adapter.tensors

    def assign(self, tensors: Tensors) -> None:
        """Put updated tensors in place."""
        self._adapter.assign(tensors)

    def batch(self, windows_BW: mx.array, key: mx.array, corruption: str, block: int) -> Batch:
        """Teacher rows and student pass of some windows under one corruption key."""
        seeds = self._seeds(block)
        clean = draft_rows(windows_BW, seeds, block)
        noise = corrupt(clean, corruption, key, self._target.noise_high)
        layout = LAYOUTS[self._settings.layout]
        batch = layout(self._adapter, windows_BW, noise, seeds, block)
        return shuffle_teacher(batch) if self._shuffle_targets else batch

    def _seeds(self, block: int) -> list[int]:
        return block_seeds(self._settings.optimiser.window, block, self._settings.layout)

    def loss_and_grads(self, step: int) -> tuple[mx.array, Tensors, dict[str, mx.array]]:
        """Loss, gradients and largest logits of the batch of this step."""
        settings = self._settings
        windows = mx.array(self._windows[self._order.batch(step)])
        key = random_key(settings.optimiser.seed, "train_noise", step)
        batch = self.batch(windows, key, settings.corruption, settings.block_size_at(step))
        distance = objective(self._adapter.model, batch.teacher_hidden, settings.loss)

        def loss(tensors: Tensors) -> tuple[mx.array, mx.array]:
            self.assign(tensors)
            loss_BnJ, student_max = distance(batch.student_hidden())
            return block_mean(loss_BnJ), student_max

        before = self.tensors
        (value, student_max), grads = mx.value_and_grad(loss)(before)
        self.assign(before)
        maxima = {"student_absmax": student_max, "teacher_absmax": distance.teacher_absmax}
        return value, grads, maxima

    def check(self, history: list[dict[str, Any]]) -> None:
        """Saturation guard: a one-hot softmax has no gradient and trains no more, silently.

        Raises `UserError` when for 5 steps running the gradient is nothing and the logits are twice
        the teacher's (qwen-block-diffusion-lab, training guards).
        """
        recent = history[-SATURATED_STEPS:]
        if len(recent) == SATURATED_STEPS and all(map(_saturated, recent)):
            found = f"none up to step {recent[-1]['step']}, and logits that have grown"
            raise UserError("training", "gradient", found, "a softmax that still learns", LOWER)


def _saturated(record: dict[str, Any]) -> bool:
    no_gradient = record["grad_norm"] < SATURATED_GRAD_NORM
    return no_gradient and (
        record["student_absmax"] > SATURATED_LOGIT_RATIO * record["teacher_absmax"]
    )


def slot_quality(task: AdapterTask, windows_NW: np.ndarray, key: mx.array) -> dict[str, np.ndarray]:
    """Teacher-forced quality a slot: mean raw L1 and argmax agreement, lists of L - 1.

    Corruption is `full`, the only state that drafting knows, and blocks have their last size.
    """
    batch = task.batch(mx.array(windows_NW), key, "full", task.block_size)
    student, teacher = batch.student(), batch.teacher
    agreement = mx.argmax(student, axis=-1) == mx.argmax(teacher, axis=-1)
    distance = total_variation(student, teacher)
    return {
        "tv": np.array(distance.mean(axis=(0, 1))),
        "agreement": np.array(agreement.astype(mx.float32).mean(axis=(0, 1))),
    }
