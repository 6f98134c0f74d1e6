"""What the adapter of the tiny profile learned, on held-out prompts. Needs a finished `make run`.

Two views that must not be confused: the mean accepted prefix while decoding greedily, and how close
each draft slot is to the teacher on held-out text with full corruption.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench import Measured
from diffdraft.config import load_profile
from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.drafters.noise import random_key
from diffdraft.drafters.uno import UnoDrafter
from diffdraft.layers.adapter_file import load_adapter
from diffdraft.layers.lora import Adapter
from diffdraft.stats.bootstrap import ClusterBootstrap, interval
from diffdraft.targets.corpus import read_windows
from diffdraft.targets.load import Target, load_target
from diffdraft.training.adapter import AdapterTask, slot_quality
from diffdraft.training.drafter import ADAPTER_FILE

PROFILE, BUILD = Path("config/profiles/tiny.yaml"), Path("build/tiny")
TAG = "primary"
PROMPTS, PROMPT_TOKENS, NEW_TOKENS, BLOCK, SEED = 128, 32, 48, 4, 20260905
QUALITY_WINDOWS = 128  # all of them, if there are fewer
RESAMPLES, PERCENTILES = 10_000, (2.5, 97.5)


def measure() -> Iterator[Measured]:
    """Mean accepted prefix at K = 4, trained and untrained, with intervals over prompts."""
    target = load_target(BUILD / "target")
    adapter = load_adapter(
        target.model, target.fingerprint, BUILD / "adapters" / TAG / ADAPTER_FILE
    )
    trained_tensors = adapter.tensors
    prompts = held_out_prompts()
    trained = accepted_and_cycles(target, adapter, prompts, NEW_TOKENS)
    slots = slot_lines(target, adapter)
    adapter.zero()
    untrained = accepted_and_cycles(target, adapter, prompts, NEW_TOKENS)
    adapter.assign(trained_tensors)
    yield prefix_measured(trained, f"the cycles of {PROMPTS} held-out prompts", 0.5, slots)
    low, high = prefix_interval(untrained)
    yield Measured(
        "the same, as a multiple of the untrained adapter's",
        mean_prefix(trained) / mean_prefix(untrained),
        3,
        note=f"untrained {mean_prefix(untrained):.3f} [{low:.3f}, {high:.3f}]",
    )


def held_out_prompts() -> list[list[int]]:
    """Token ids of the prompts, spread over the whole split."""
    windows = read_windows(BUILD / "corpus", "prompts", PROMPT_TOKENS)
    chosen = np.arange(PROMPTS) * (len(windows) // PROMPTS)
    prompts: list[list[int]] = windows[chosen].tolist()
    return prompts


def accepted_and_cycles(
    target: Target, adapter: Adapter, prompts: list[list[int]], new_tokens: int
) -> np.ndarray:
    """Accepted tokens and cycles of each prompt, [n, 2]; every prompt has its own noise."""
    rows = []
    for index, prompt in enumerate(prompts):
        drafter = UnoDrafter(target, adapter, SEED + index)
        trace = decode(target, drafter, GreedyAcceptance(), FixedBlock(BLOCK), prompt, new_tokens)
        rows.append((trace.total("accepted"), len(trace.cycles)))
    return np.array(rows, dtype=float)


def prefix_measured(rows: np.ndarray, over: str, bar: float, more: str) -> Measured:
    """The pooled mean against its bar, with its interval."""
    low, high = prefix_interval(rows)
    return Measured(
        f"mean accepted prefix of 3 at K=4, pooled over {over}",
        mean_prefix(rows),
        bar,
        unit="",
        note=f"95 % interval over prompts [{low:.3f}, {high:.3f}]; {more}",
    )


def mean_prefix(rows: np.ndarray) -> float:
    """Accepted tokens a cycle, pooled over prompts."""
    accepted, cycles = rows.sum(axis=0)
    return float(accepted / cycles)


def prefix_interval(rows: np.ndarray) -> tuple[float, float]:
    """Bootstrap interval of the pooled mean; prompts are the units."""
    resamples = ClusterBootstrap.draw([f"{i:04d}" for i in range(len(rows))], RESAMPLES, SEED)
    bounds = interval(resamples.sums(rows[:, 0]) / resamples.sums(rows[:, 1]), PERCENTILES)
    return bounds.low, bounds.high


def slot_lines(target: Target, adapter: Adapter) -> str:
    """Teacher-forced raw L1 and argmax agreement of each slot, every block of the dev windows.

    Not on the windows of the position tables, which belong to the study.
    """
    settings = load_profile(PROFILE).adapters[TAG]
    windows = read_windows(BUILD / "corpus", "dev", settings.optimiser.window)
    task = AdapterTask(target, adapter, windows, settings)
    quality = slot_quality(task, windows[:QUALITY_WINDOWS], random_key(SEED, "eval_noise", 0))
    tv, agreement = (" ".join(f"{x:.2f}" for x in quality[name]) for name in ("tv", "agreement"))
    return f"raw L1 by slot {tv}; agreement {agreement}"
