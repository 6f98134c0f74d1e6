"""The drafter of Gemma 3 270M: what a training step costs, and what was learned.

Needs build/gemma3_270m (target and corpus; the adapter for the second part), and says so where it
is not there.
"""

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np

from bench import Measured
from bench._clock import fastest
from bench.acceptance import accepted_and_cycles, mean_prefix, prefix_measured
from bench.decoding import CONTEXT
from bench.gemma import WORKLOAD
from diffdraft import backend
from diffdraft.config import load_profile
from diffdraft.drafters.noise import random_key
from diffdraft.layers.adapter_file import load_adapter
from diffdraft.layers.chunked import chunked_hidden
from diffdraft.layers.lora import Adapter
from diffdraft.layers.walk import head
from diffdraft.measure.workloads import encode_workload, load_workload
from diffdraft.targets.corpus import read_windows
from diffdraft.targets.load import Target, load_target
from diffdraft.training.adapter import AdapterTask, adapter_spec
from diffdraft.training.drafter import ADAPTER_FILE

PROFILE, BUILD, TAG = Path("config/profiles/gemma3_270m.yaml"), Path("build/gemma3_270m"), "primary"
NEEDED = (BUILD / "target" / "model.safetensors", BUILD / "corpus" / "train.npy")
ADAPTER = BUILD / "adapters" / TAG / ADAPTER_FILE
# What is written as sentences; the rest of the suite is program text, tables, sums and nonsense.
MODERN_PROSE = ("prose", "factual", "technical", "dialogue", "reasoning")
NEW_TOKENS = 48
BYTES_PER_GB = 1e9


def measure() -> Iterator[Measured]:
    """The step against the forwards it is made of, its memory, and the accepted prefix."""
    for path in NEEDED:
        if not path.is_file():
            print(f"skipped bench.gemma_drafting: {path} is not there")
            return
    target = load_target(BUILD / "target")
    if ADAPTER.is_file():
        yield accepted_prefix(target)
    else:
        print(f"skipped the accepted prefix: {ADAPTER} is not there")
    # Trains from its start, so it comes last and in a model of its own.
    yield from training_step(load_target(BUILD / "target"))


def training_step(target: Target) -> Iterator[Measured]:
    """A step, gradient included, against a teacher's and a student's forward on the same rows."""
    settings = load_profile(PROFILE).adapters[TAG]
    block, size = settings.block_size_at(0), settings.optimiser.batch_size
    adapter = Adapter.attach(target.model, adapter_spec(settings))
    windows_NW = read_windows(BUILD / "corpus", "train", settings.optimiser.window)
    task = AdapterTask(target, adapter, windows_NW, settings)
    windows_BW = mx.array(windows_NW[:size])
    batch = task.batch(windows_BW, random_key(0, "train_noise", 0), settings.corruption, block)
    rows = batch.teacher_hidden.size // batch.teacher_hidden.shape[-1]

    def teacher() -> None:
        hidden_BTD = chunked_hidden(target.model, windows_BW[:, :-1])
        mx.eval(head(target.model, hidden_BTD.reshape(-1, hidden_BTD.shape[-1])[:rows]))

    step = fastest(lambda: mx.eval(task.loss_and_grads(0)), repeats=3)
    forwards = fastest(teacher, 3) + fastest(lambda: mx.eval(batch.student()), 3)
    yield Measured(
        "adapter training step over three times a teacher's and a student's forward",
        step / (3 * forwards),
        2,
        at_most=True,
        note=f"{rows} supervised rows in {step:.2f} s, {rows / step:.0f} a second; forwards"
        f" {forwards:.2f} s",
    )
    peak = backend.process_peak_bytes() / BYTES_PER_GB
    yield Measured("peak memory of this process", peak, 8, "GB", at_most=True)


def accepted_prefix(target: Target) -> Measured:
    """Mean accepted prefix at K = 4 on the openings of the suite that are modern prose."""
    adapter = load_adapter(target.model, target.fingerprint, ADAPTER)
    prompts = encode_workload(load_workload(WORKLOAD), target.tokenizer, NEW_TOKENS, CONTEXT)
    rows = accepted_and_cycles(target, adapter, [prompt.ids for prompt in prompts], NEW_TOKENS)
    prose = rows[np.isin([prompt.category for prompt in prompts], MODERN_PROSE)]
    suite = f"all {len(rows)} of the suite {mean_prefix(rows):.3f}"
    return prefix_measured(prose, f"{len(prose)} openings of modern prose", 0.8, suite)
