"""One training loop with exact resume, for the target and for adapters.

Everything that a step depends on is either in the checkpoint (tensors, optimiser moments) or a
pure function of the step number (learning rate, batch order, noise keys). So a run that was killed
at any step and started again ends bit for bit as an uninterrupted one (on a CPU).
"""

import csv
import io
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
from tqdm import tqdm

from diffdraft import files
from diffdraft.config_adapters import OptimiserSettings
from diffdraft.errors import UserError
from diffdraft.layers.tensors import Tensors, load_tensors, save_tensors

History = dict[str, float]  # one step: its number, loss, gradient norm and whatever was measured
LOWER = "Lower optimiser.learning_rate in the profile"
LOG_LINES = 20  # progress lines of a whole run when there is no terminal


class Task(Protocol):
    """What is being trained: named tensors, and a loss whose batch is a function of the step."""

    @property
    def tensors(self) -> Tensors:
        """The trainable tensors by name."""

    def loss_and_grads(self, step: int) -> tuple[mx.array, Tensors, dict[str, mx.array]]:
        """Loss, gradients (named as `tensors`) and other scalars to log, at an absolute step."""

    def assign(self, tensors: Tensors) -> None:
        """Put updated tensors in place."""

    def check(self, history: list[History]) -> None:
        """Raise if the run so far has gone wrong (saturation, for one)."""


class WindowOrder:
    """Batches of window indices: a fresh permutation whenever fewer than a batch is left.

    A pure function of the step: permutations are drawn in sequence from one generator of `seed`.
    """

    def __init__(self, n_windows: int, batch_size: int, seed: int) -> None:
        self._per_epoch = n_windows // batch_size
        if self._per_epoch == 0:
            raise UserError("corpus", "windows", n_windows, f"at least one batch of {batch_size}")
        self._n, self._batch = n_windows, batch_size
        self._generator = np.random.default_rng(seed)
        self._epochs: list[np.ndarray] = []

    def batch(self, step: int) -> np.ndarray:
        """Indices [batch_size] of the windows of this step."""
        epoch, place = divmod(step, self._per_epoch)
        while len(self._epochs) <= epoch:
            self._epochs.append(self._generator.permutation(self._n))
        return self._epochs[epoch][place * self._batch : (place + 1) * self._batch]


def learning_rate(settings: OptimiserSettings, step: int) -> float:
    """Linear warm-up over the first steps, then constant or a cosine down to zero."""
    rate = settings.learning_rate
    if step < settings.warmup_steps:
        return rate * (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return rate
    done = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
    return rate * 0.5 * (1 + math.cos(math.pi * done))


def fit(
    task: Task,
    settings: OptimiserSettings,
    config_hash: str,
    work: Path,
    on_step: Callable[[int], History | None] = lambda step: None,
) -> list[History]:
    """Train from the last checkpoint in `work`, or from the start, to the last step.

    `on_step` may add held-out measurements to the log at a step. Returns one record a step.
    A checkpoint is named by its configuration, so that changed settings start afresh.
    """
    optimiser = optim.AdamW(
        learning_rate=settings.learning_rate,
        betas=list(settings.betas),
        weight_decay=settings.weight_decay,
        bias_correction=settings.bias_correction,
    )
    optimiser.init(task.tensors)
    checkpoint = work / f"{config_hash[:16]}.safetensors"
    start, history = _resume(task, optimiser, checkpoint)
    for step in tqdm(
        range(start, settings.steps), initial=start, total=settings.steps, disable=None, unit="step"
    ):
        record = _step(task, optimiser, settings, step)
        history.append({"step": step + 1, **record, **(on_step(step + 1) or {})})
        task.check(history)
        if (step + 1) % settings.checkpoint_every == 0 or step + 1 == settings.steps:
            _save(task, optimiser, step + 1, history, checkpoint)
        if not sys.stderr.isatty() and (step + 1) % max(1, settings.steps // LOG_LINES) == 0:
            print(f"step {step + 1}/{settings.steps} loss {record['loss']:.4f}", file=sys.stderr)
    return history


def _step(
    task: Task, optimiser: optim.Optimizer, settings: OptimiserSettings, step: int
) -> History:
    optimiser.learning_rate = learning_rate(settings, step)
    loss, grads, others = task.loss_and_grads(step)
    grads, norm = optim.clip_grad_norm(grads, settings.clip_norm)
    updated = optimiser.apply_gradients(grads, task.tensors)
    mx.eval(loss, norm, others, updated, optimiser.state)
    scalars = {"loss": loss, "grad_norm": norm, **others}
    record = {name: float(value.item()) for name, value in scalars.items()}
    for name in ("loss", "grad_norm"):
        if not math.isfinite(record[name]):
            found = f"{record[name]} at step {step + 1}"
            raise UserError("training", name, found, "a finite number", LOWER)
    task.assign(updated)
    return record


def _save(
    task: Task,
    optimiser: optim.Optimizer,
    step: int,
    history: list[History],
    path: Path,
) -> None:
    arrays = {f"tensor:{name}": tensor for name, tensor in task.tensors.items()}
    arrays |= {f"optimiser:{name}": value for name, value in _pack(optimiser.state).items()}
    metadata = {"step": str(step), "history": json.dumps(history)}
    save_tensors(path, arrays, metadata)


def _resume(task: Task, optimiser: optim.Optimizer, path: Path) -> tuple[int, list[History]]:
    if not path.is_file():
        return 0, []
    arrays, metadata = load_tensors(path)
    task.assign({name[7:]: value for name, value in arrays.items() if name.startswith("tensor:")})
    state = {name[10:]: v for name, v in arrays.items() if name.startswith("optimiser:")}
    optimiser.state = _unpack(state)
    return int(metadata["step"]), json.loads(metadata["history"])


def _pack(state: dict[str, Any]) -> Tensors:
    """Optimiser state as one level: scalars by name, moments as `tensor|moment`.

    MLX's own flattening splits names at dots, and tensor names have dots.
    """
    packed: Tensors = {}
    for name, value in state.items():
        moments = value if isinstance(value, dict) else {"": value}
        packed |= {f"{name}|{moment}": array for moment, array in moments.items()}
    return packed


def _unpack(packed: Tensors) -> dict[str, Any]:
    """Inverse of `_pack`."""
    state: dict[str, Any] = {}
    for key, array in packed.items():
        name, moment = key.split("|")
        if moment:
            state.setdefault(name, {})[moment] = array
        else:
            state[name] = array
    return state


def history_csv(history: list[History]) -> str:
    """The training log as CSV; columns that a step did not measure stay empty."""
    columns = list(dict.fromkeys(name for record in history for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue()


def hash_config(**parts: Any) -> str:
    """SHA-256 of the settings that decide what a run computes."""
    return files.sha256_bytes(json.dumps(parts, sort_keys=True).encode())
