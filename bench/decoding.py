"""Decoding: is native decoding no straw man, and what does the draft-verify loop cost?

Needs a finished `make run`. Arms are interleaved prompt by prompt, forwards and backwards, and
compared by the mean log ratio over prompts, one of each category.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx_lm.generate import GenerationResponse
from mlx_lm.models.cache import make_prompt_cache

from bench import Measured
from bench._clock import seconds
from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.cache_state import CacheSnapshot, evaluate
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.decoding.trace import Cycle, Trace
from diffdraft.decoding.transaction import SnapshotTransaction
from diffdraft.drafters.uno import UnoDrafter
from diffdraft.layers.adapter_file import load_adapter
from diffdraft.layers.lora import Adapter
from diffdraft.layers.walk import text_model
from diffdraft.measure.workloads import (
    PROMPTS_PER_CATEGORY,
    EncodedPrompt,
    encode_workload,
    load_workload,
)
from diffdraft.targets.load import Target, load_target
from diffdraft.training.drafter import ADAPTER_FILE

BUILD, WORKLOAD = Path("build/tiny"), Path("config/workloads/tiny.yaml")
TAG, TOKENS, BLOCK, SEED, ROUNDS = "primary", 64, 4, 20260905, 2
CONTEXT = 2048


def measure() -> Iterator[Measured]:
    """Native against mlx_lm, the loop's own share, and K = 4 against what its forwards allow."""
    target = load_target(BUILD / "target")
    suite = encode_workload(load_workload(WORKLOAD), target.tokenizer, TOKENS, CONTEXT)
    prompts = suite[::PROMPTS_PER_CATEGORY]
    yield against_mlx_lm(target, prompts)
    file = BUILD / "adapters" / TAG / ADAPTER_FILE
    adapter = load_adapter(target.model, target.fingerprint, file)
    yield from the_loop(target, adapter, prompts)


def against_mlx_lm(target: Target, prompts: list[EncodedPrompt], tokens: int = TOKENS) -> Measured:
    """Wall time of `mlx_lm.stream_generate` over that of our native arm, for equal tokens."""
    ratios = []
    for prompt in prompts:
        made = [response.token for response in stream(target, prompt, tokens)]
        ours = native(target, prompt, len(made)).tokens
        if ours != made:
            raise RuntimeError(f"{prompt.id}: native text differs from mlx_lm's")
        times = interleaved(
            partial(native, target, prompt, len(made)), partial(consumed, target, prompt, tokens)
        )
        ratios.append(math.log(times[1] / times[0]))
    return Measured(
        "native decoding against mlx_lm.stream_generate, same tokens",
        math.exp(np.mean(ratios)),
        1.0,
        note=f"prompts from {math.exp(min(ratios)):.2f} to {math.exp(max(ratios)):.2f}",
    )


def stream(target: Target, prompt: EncodedPrompt, tokens: int) -> Iterator[GenerationResponse]:
    """mlx_lm's own greedy generation."""
    cache = make_prompt_cache(target.model)
    return mlx_lm.stream_generate(
        target.model, target.tokenizer, prompt.ids, max_tokens=tokens, prompt_cache=cache
    )


def native(target: Target, prompt: EncodedPrompt, tokens: int = TOKENS) -> Trace:
    """Our native arm."""
    return decode(target, None, GreedyAcceptance(), FixedBlock(1), prompt.ids, tokens)


def consumed(target: Target, prompt: EncodedPrompt, tokens: int) -> None:
    """mlx_lm's generation, run to its end."""
    for _ in stream(target, prompt, tokens):
        pass


def drafted(target: Target, adapter: Adapter, prompt: EncodedPrompt, kept: list[Trace]) -> None:
    """Our arm at K = 4; its trace is added to `kept`."""
    drafter, policy = UnoDrafter(target, adapter, SEED), FixedBlock(BLOCK)
    kept.append(decode(target, drafter, GreedyAcceptance(), policy, prompt.ids, TOKENS))


def interleaved(*arms: Callable[[], object]) -> list[float]:
    """Seconds of each arm, geometric mean of runs in the order A B B A, after one that warms up."""
    for arm in arms:
        arm()
    logs: list[list[float]] = [[] for _ in arms]
    for _ in range(ROUNDS):
        for place in [*range(len(arms)), *reversed(range(len(arms)))]:
            logs[place].append(math.log(seconds(arms[place])))
    return [math.exp(np.mean(values)) for values in logs]


def forwards_alone(target: Target, adapter: Adapter, prompt: EncodedPrompt, cycles: int) -> None:
    """What the drafted arm cannot do without: prefill, and a draft and a verify forward a cycle.

    The cache stays as short as the prompt, which makes these forwards cheaper if anything.
    """
    model, cache = target.model, make_prompt_cache(target.model)
    text_model(model).model(mx.array([prompt.ids[:-1]]), cache)
    evaluate(cache)
    before, ids_BK = CacheSnapshot.take(cache), mx.arange(2, 2 + BLOCK)[None]
    gate_BK = mx.array([[0] + [1] * (BLOCK - 1)])
    verified = list(range(2, 3 + BLOCK))  # what a forward costs does not depend on the ids
    for _ in range(cycles):
        with adapter.rows(gate_BK):
            mx.eval(model(ids_BK, cache=cache))
        before.restore()
        SnapshotTransaction(model, cache).run(verified)
        before.restore()


def the_loop(target: Target, adapter: Adapter, prompts: list[EncodedPrompt]) -> Iterator[Measured]:
    """Share outside the two forwards; measured speed-up against what the forwards allow."""
    measured, allowed, outside = [], [], []
    for prompt in prompts:
        traces: list[Trace] = []
        drafted(target, adapter, prompt, traces)
        times = interleaved(
            partial(native, target, prompt),
            partial(drafted, target, adapter, prompt, traces),
            partial(forwards_alone, target, adapter, prompt, len(traces[0].cycles)),
        )
        outside.append(np.median([outside_share(cycle) for run in traces for cycle in run.cycles]))
        measured.append(math.log(times[0] / times[1]))
        allowed.append(math.log(times[0] / times[2]))
    yield Measured(
        "share of a cycle outside its two forwards, median over prompts",
        100 * float(np.median(outside)),
        8,
        "%",
        at_most=True,
    )
    speedup, bound = math.exp(np.mean(measured)), math.exp(np.mean(allowed))
    yield Measured(
        "K=4 speed-up against what its forwards allow at the measured acceptance",
        speedup / bound,
        0.93,
        note=f"measured {speedup:.3f}x of native, allowed {bound:.3f}x; reported as it is",
    )


def outside_share(cycle: Cycle) -> float:
    """Share of a cycle that is neither draft nor verify."""
    return 1 - (cycle.draft_seconds + cycle.verify_seconds) / cycle.cycle_seconds
