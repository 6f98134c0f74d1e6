"""The windows of a position table and their noise: drawn once, the same for every adapter.

Shapes: B windows a batch, W window, L block size, J = L - 1 draft rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from diffdraft.errors import UserError
from diffdraft.files import sha256_bytes
from diffdraft.prereg.schema import Plan, WindowSample
from diffdraft.targets.corpus import read_windows, with_start_token
from diffdraft.training.blocks import Corruption, corrupt, suffix_seed
from diffdraft.training.loop import WindowOrder

POOL_LIMIT = 2048  # windows of the split that can be drawn
SPLIT = "extract"
STRATUM_CORRUPTION = {"FULL": "full", "SCHEDULE": "uniform"}  # in the order of their keys


class WindowBatch(NamedTuple):
    """Some windows [B, W] and, by stratum, the draft rows [B, J] that the student reads."""

    windows_BW: mx.array
    noise: dict[str, Corruption]


@dataclass(frozen=True)
class WindowPlan:
    """All batches of a measurement, as a function of the batch index."""

    pool_NW: np.ndarray
    sample: WindowSample
    noise_high: int
    seeds: dict[str, int]

    @property
    def seed_row(self) -> int:
        """Row of the seed: the block is the window's suffix."""
        return suffix_seed(self.sample.window_tokens, self.sample.block_size)

    def batch(self, index: int) -> WindowBatch:
        """Windows and noise of one batch; no draw depends on any other batch having been made."""
        order = WindowOrder(len(self.pool_NW), self.sample.batch_size, self.seeds["window_order"])
        windows = mx.array(self.pool_NW[order.batch(index)])
        clean = windows[:, self.seed_row + 1 : -1]
        strata_keys = mx.random.split(mx.random.key(self.seeds["extraction"]), 2)
        noise = {}
        for stratum, key in zip(STRATUM_CORRUPTION, strata_keys, strict=True):
            batch_key = mx.random.split(key, self.sample.batches)[index]
            noise[stratum] = corrupt(clean, STRATUM_CORRUPTION[stratum], batch_key, self.noise_high)
        return WindowBatch(windows, noise)

    def digest(self) -> str:
        """SHA-256 over every window and every student row: equal for all adapters of a study."""
        return sha256_bytes(b"".join(_bytes(batch) for batch in map(self.batch, self.indices())))

    def indices(self) -> Iterator[int]:
        """Indices of all batches."""
        return iter(range(self.sample.batches))


def _bytes(batch: WindowBatch) -> bytes:
    arrays = [batch.windows_BW, *(noise.ids for noise in batch.noise.values())]
    return b"".join(np.array(array).astype("<i4").tobytes() for array in arrays)


def planned_windows(plan: Plan, profile: str, corpus: Path, noise_high: int) -> WindowPlan:
    """The windows that a plan asks for from a corpus, each with the corpus's start token if any.

    Raises `UserError` when the plan has no window sample for the profile, or when the split is too
    small to give every window once.
    """
    sample = plan.sample_of(WindowSample, profile, plan.study)
    pool = read_windows(corpus, SPLIT, sample.window_tokens)[:POOL_LIMIT]
    if len(pool) < sample.windows:
        found = f"{len(pool)} windows of {sample.window_tokens} tokens"
        raise UserError(corpus / f"{SPLIT}.npy", "windows", found, f"{sample.windows}, each once")
    return WindowPlan(with_start_token(corpus, pool), sample, noise_high, plan.seeds)
