"""Extract the position table of RPRM stage 1: what the drafter says, what the target would say.

Three distributions meet at every draft row of a window: P_full, the frozen target on the true
context; P_corrupt, the same on the student's ids; P_student, the drafter on the student's ids. No
statistic that links uncertainty to acceptance is computed here. (qwen-block-diffusion-lab, RPRM
stage 1, extraction.)

Shapes: B windows, J draft rows (slots 1..L-1), V vocabulary.
"""

import math
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from diffdraft.layers.chunked import chunked_logits
from diffdraft.layers.lora import Adapter
from diffdraft.measure.windows import WindowBatch
from diffdraft.training.losses import log_probabilities

Row = dict[str, Any]


class Passes(NamedTuple):
    """Logits [B, J, V] of the three distributions, and the two argmaxes [B] at the seed row."""

    full: mx.array
    corrupt: mx.array
    student: mx.array
    seed_agreement: mx.array


def full_logits(adapter: Adapter, batch: WindowBatch, seed_row: int) -> mx.array:
    """The frozen target on the true tokens, from the seed row on, [B, 1 + J, V]."""
    return chunked_logits(adapter.model, batch.windows_BW[:, :-1], seed_row)


def run_passes(
    adapter: Adapter, batch: WindowBatch, stratum: str, seed_row: int, full: mx.array
) -> Passes:
    """Plain causal forwards of W - 1 rows; the adapter acts on every draft row, noise or not.

    `full` (of `full_logits`) depends on neither stratum nor adapter.
    """
    model, windows = adapter.model, batch.windows_BW
    ids = mx.concatenate([windows[:, : seed_row + 1], batch.noise[stratum].ids], axis=1)
    gate = mx.broadcast_to(mx.arange(ids.shape[1]) > seed_row, ids.shape).astype(mx.float32)
    corrupt = chunked_logits(model, ids, seed_row)
    with adapter.rows(gate):
        student = chunked_logits(model, ids, seed_row)
    agreement = mx.argmax(student[:, 0], axis=-1) == mx.argmax(full[:, 0], axis=-1)
    return Passes(full[:, 1:], corrupt[:, 1:], student[:, 1:], agreement)


def measures(passes: Passes) -> dict[str, np.ndarray]:
    """Every model-made column of the table, [B, J] each, in float32."""
    log_student = log_probabilities(passes.student)
    p_full = mx.softmax(passes.full.astype(mx.float32), axis=-1)
    p_corrupt = mx.softmax(passes.corrupt.astype(mx.float32), axis=-1)
    student_entropy = entropy(log_student)
    best_two = mx.sort(mx.topk(mx.exp(log_student), 2, axis=-1), axis=-1)
    columns = {
        "proposed_token": mx.argmax(passes.student, axis=-1),
        "verifier_token": mx.argmax(passes.full, axis=-1),
        "entropy": student_entropy,
        "normalized_entropy": student_entropy / math.log(log_student.shape[-1]),
        "top1_probability": best_two[..., 1],
        "top1_top2_margin": best_two[..., 1] - best_two[..., 0],
        "effective_support": mx.exp(student_entropy),
        "existing_draftability_score": mx.abs(p_full - p_corrupt).sum(axis=-1),
        "teacher_entropy": entropy(log_probabilities(passes.full)),
        "corrupt_entropy": entropy(log_probabilities(passes.corrupt)),
    }
    mx.eval(columns)
    return {name: np.array(value) for name, value in columns.items()}


def entropy(log_p: mx.array) -> mx.array:
    """Entropy in nats over the last axis; rounding cannot make it negative."""
    return mx.maximum(-(mx.exp(log_p) * log_p).sum(axis=-1), 0.0)


def batch_rows(adapter: Adapter, batch: WindowBatch, index: int, seed_row: int) -> list[Row]:
    """Rows of one batch, by stratum, window and slot."""
    rows = []
    full = full_logits(adapter, batch, seed_row)
    for stratum in batch.noise:
        passes = run_passes(adapter, batch, stratum, seed_row, full)
        if not passes.seed_agreement.all().item():
            raise RuntimeError(f"batch {index}: the adapter moved the seed row, where it is off")
        rows += _rows(batch, stratum, index, seed_row, measures(passes))
    return rows


def _rows(
    batch: WindowBatch, stratum: str, index: int, seed_row: int, columns: dict[str, np.ndarray]
) -> list[Row]:
    noise = batch.noise[stratum]
    level, rate = np.array(noise.level), np.array(noise.rate)
    clean = np.array(batch.windows_BW)[:, seed_row + 2 :]
    before = np.cumsum(level, axis=1) - level
    return [
        {
            "example_id": f"w{index:04d}r{b}",
            "stratum": stratum,
            "position": seed_row + slot,
            "offset": slot + 1,
            "timestep": shortest(rate[b, 0]),
            "corruption_level": int(level[b, slot - 1]),
            "n_corrupted_predecessors": int(before[b, slot - 1]),
            "clean_token": int(clean[b, slot - 1]),
            "accepted": int(
                columns["proposed_token"][b, slot - 1] == columns["verifier_token"][b, slot - 1]
            ),
            **{name: shortest(values[b, slot - 1]) for name, values in columns.items()},
        }
        for b in range(level.shape[0])
        for slot in range(1, level.shape[1] + 1)
    ]


def shortest(value: np.generic) -> int | float:
    """The Python number with the fewest digits that reads back as this float32 (or integer)."""
    return float(str(value)) if isinstance(value, np.floating) else int(value)
