"""What a forward costs by its width: the price list behind every speed-up.

A pass of 1 to W rows is timed on a cache that holds the same tokens every time and is put back
afterwards. Kinds of pass: `native`, the frozen model's plain forward; `draft`, the same with the
adapter on all rows but the first; `verify`, the forward of which any prefix can be committed.
Verify passes of the widths that decoding needs are timed in parts as well (`cost_parts`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache

from diffdraft import backend
from diffdraft.decoding.cache_state import CacheSnapshot, check_supported, evaluate
from diffdraft.decoding.loop import context_tokens
from diffdraft.decoding.transaction import SnapshotTransaction
from diffdraft.drafters.noise import noise_ids, random_key
from diffdraft.errors import UserError
from diffdraft.layers.lora import Adapter
from diffdraft.layers.walk import text_model
from diffdraft.measure.cost_parts import verify_parts
from diffdraft.prereg.schema import CostSample
from diffdraft.streams import stream_key
from diffdraft.targets.load import Target

Row = dict[str, Any]
ORDER_STREAM = "data_sampling"
WHOLE = "whole"


@dataclass(frozen=True)
class Subject:
    """A target and the adapter that is attached to it."""

    target: Target
    adapter: Adapter


@dataclass(frozen=True)
class Pass:
    """One kind of pass: what identifies it in a row, the cache it runs on, and how to run it."""

    key: Row
    cache: list[Any]
    run: Callable[[], None]

    def seconds(self) -> float:
        """Run it once, by the clock, and put the cache back."""
        before = CacheSnapshot.take(self.cache)
        backend.barrier()
        started = time.perf_counter()
        self.run()
        seconds = time.perf_counter() - started
        before.restore()
        return seconds


class CostCurve:
    """All passes of the subjects, named by their dtypes, warmed up and ready to be timed.

    `text_ids` give the context and, behind it, the rows of the passes. `block_size` K chooses
    the widths 1, K and K + 1 that are timed in parts.

    Raises:
        UserError: a text or a context of the model that is too short, or a cache that cannot be
            put back.
    """

    def __init__(
        self,
        subjects: Mapping[str, Subject],
        sample: CostSample,
        block_size: int,
        text_ids: Sequence[int],
        seed: int,
    ) -> None:
        self._seed = seed
        self._passes: list[Pass] = []
        for dtype, subject in subjects.items():
            _check_room(subject.target, sample, block_size, len(text_ids))
            self._passes += _passes(dtype, subject, sample, block_size, text_ids, seed)
        for one in self._passes:
            one.seconds()

    def repeat(self, index: int) -> list[Row]:
        """Rows of `passes`: every pass once, in an order drawn from (seed, index)."""
        generator = np.random.default_rng(stream_key(self._seed, ORDER_STREAM, index))
        order = generator.permutation(len(self._passes)).tolist()
        return [self._timed(self._passes[place], index) for place in order]

    def _timed(self, one: Pass, repeat: int) -> Row:
        return {**one.key, "repeat": repeat, "seconds": one.seconds()}


def _passes(
    dtype: str,
    subject: Subject,
    sample: CostSample,
    block_size: int,
    text_ids: Sequence[int],
    seed: int,
) -> list[Pass]:
    """Every pass of one subject, on one cache that holds the context."""
    model = subject.target.model
    cache = make_prompt_cache(model)
    check_supported(model, cache)
    text_model(model).model(mx.array([text_ids[: sample.context]], dtype=mx.int32), cache)
    evaluate(cache)
    following = list(text_ids[sample.context :])
    key = random_key(seed, "bench_noise", 0)
    noise: Any = noise_ids(key, (sample.widths,), subject.target.noise_high).tolist()
    passes = []

    def add(kind: str, part: str, width: int, run: Callable[[], None]) -> None:
        row = {"dtype": dtype, "kind": kind, "part": part, "width": width}
        passes.append(Pass(row, cache, run))

    for width in range(1, sample.widths + 1):
        rows = following[:width]
        drafted = [rows[0], *noise[: width - 1]]
        add("native", WHOLE, width, partial(_native, model, cache, rows))
        add("draft", WHOLE, width, partial(_draft, subject, cache, drafted))
        add("verify", WHOLE, width, partial(_verify, model, cache, rows))
    for width in sorted({1, block_size, block_size + 1}):
        for part, run in verify_parts(model, cache, following[:width]).items():
            add("verify", part, width, run)
    return passes


def _native(model: Any, cache: list[Any], ids: list[int]) -> None:
    """The next forward reads the cache, so what it holds is part of the price."""
    logits = model(mx.array([ids], dtype=mx.int32), cache=cache)
    mx.eval(logits)
    evaluate(cache)


def _draft(subject: Subject, cache: list[Any], ids: list[int]) -> None:
    """What a draft leaves in the cache is thrown away, so only the logits are computed."""
    gate_BK = mx.array([[0] + [1] * (len(ids) - 1)])
    with subject.adapter.rows(gate_BK):
        logits = subject.target.model(mx.array([ids], dtype=mx.int32), cache=cache)
    mx.eval(logits)


def _verify(model: Any, cache: list[Any], ids: list[int]) -> None:
    SnapshotTransaction(model, cache).run(ids)


def _check_room(target: Target, sample: CostSample, block_size: int, tokens: int) -> None:
    needed = sample.context + max(sample.widths, block_size + 1)
    if tokens < needed:
        raise UserError("cost", "text", f"{tokens} tokens", f"at least context and rows, {needed}")
    room = context_tokens(target.model)
    if room < needed:
        raise UserError("cost", "context", needed, f"at most the target's context of {room}")
