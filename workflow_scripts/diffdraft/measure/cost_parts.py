"""The parts of a verify pass, each timed alone on what it met in a real one.

One verify pass is watched: the modules of a part remember what they were called with. A part is
then all its modules run again on those inputs, nothing else, behind one barrier. The parts do
not add up to the whole: residual additions are in none, and a whole pass has one barrier only.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn

from diffdraft.decoding.cache_state import CacheSnapshot
from diffdraft.decoding.transaction import SnapshotTransaction
from diffdraft.errors import UserError
from diffdraft.layers.gated_delta import DeltaInputs, delta_inputs, delta_output, recurrent_states
from diffdraft.layers.walk import head, text_model

EMBEDDING_AND_NORMS, MLP, ATTENTION = "embedding_and_norms", "mlp", "attention"
DELTA_PROJECTIONS, DELTA_RECURRENCE, HEAD = "delta_projections", "delta_recurrence", "head"
Run = Callable[[], None]


@dataclass(frozen=True)
class Call:
    """A module and what it was called with."""

    module: Any
    args: tuple[Any, ...]
    options: dict[str, Any]

    def again(self) -> mx.array:
        """The same call, not evaluated."""
        return self.module(*self.args, **self.options)


class Tap(nn.Module):
    """Stands in for a module and remembers its calls."""

    def __init__(self, base: Any, calls: list[Call]) -> None:
        super().__init__()
        self.base = base
        self._calls = calls

    def __call__(self, *args: Any, **options: Any) -> mx.array:
        self._calls.append(Call(self.base, args, options))
        return self.base(*args, **options)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the module has (a tied head reads the embedding's weights)."""
        if name in self or "base" not in self:
            return super().__getattr__(name)
        return getattr(self["base"], name)


@dataclass
class Watched:
    """The calls of one pass: those of each part, and the first one of each linear layer."""

    calls: dict[str, list[Call]] = field(
        default_factory=lambda: {part: [] for part in (EMBEDDING_AND_NORMS, MLP, ATTENTION)}
    )
    delta: dict[int, list[Call]] = field(default_factory=dict)


@contextmanager
def watch(model: Any) -> Iterator[Watched]:
    """Within this block the modules of `model` remember their calls.

    Raises `UserError` for a model whose modules have other names than `mlx_lm` gives to those of
    Qwen, Gemma or Llama.
    """
    seen = Watched()
    modules = [(owner, name, owner[name], calls) for owner, name, calls in _places(model, seen)]
    try:
        for owner, name, module, calls in modules:
            setattr(owner, name, Tap(module, calls))
        yield seen
    finally:
        for owner, name, module, _ in modules:
            setattr(owner, name, module)


def _places(model: Any, seen: Watched) -> Iterator[tuple[Any, str, list[Call]]]:
    """(owner, attribute, where its calls go) of every module that is watched."""
    backbone = text_model(model).model
    for name in ("embed_tokens", "norm"):
        if name not in backbone:
            raise UserError("target", type(backbone).__name__, f"no {name}", "a part of that name")
        yield backbone, name, seen.calls[EMBEDDING_AND_NORMS]
    for index, layer in enumerate(backbone.layers):
        for name in layer:
            if part := _part_of(name):
                yield layer, name, seen.calls[part]
        if getattr(layer, "is_linear", False):
            yield layer.linear_attn, "in_proj_qkv", seen.delta.setdefault(index, [])


def _part_of(name: str) -> str | None:
    """The part that a layer's module of this name belongs to, None if to none."""
    if "norm" in name:
        return EMBEDDING_AND_NORMS
    return {"mlp": MLP, "self_attn": ATTENTION}.get(name)


def verify_parts(model: Any, cache: list[Any], ids: Sequence[int]) -> dict[str, Run]:
    """How to run each part of one verify pass of `ids` behind what `cache` holds.

    A run leaves the attention caches changed, as a pass does; the cache must be put back. Models
    without linear layers have no `delta_*` parts.
    """
    before = CacheSnapshot.take(cache)
    with watch(model) as seen:
        SnapshotTransaction(model, cache).run(ids)
    before.restore()
    for calls in seen.calls.values():
        mx.eval([call.args for call in calls])
    final_BTD = seen.calls[EMBEDDING_AND_NORMS][-1].again()  # the last norm comes last
    mx.eval(final_BTD)
    runs = {part: partial(_call_again, calls) for part, calls in seen.calls.items()}
    layers = text_model(model).model.layers
    deltas = [
        Delta.of(layers[index].linear_attn, calls[0].args[0], *cache[index].cache)
        for index, calls in seen.delta.items()
    ]
    if deltas:
        runs[DELTA_PROJECTIONS] = partial(_project, deltas)
        runs[DELTA_RECURRENCE] = partial(_recur, deltas)
    return {**runs, HEAD: partial(_head, model, final_BTD)}


class Delta(NamedTuple):
    """One linear layer on the inputs of the pass: x [1, T, D], its cache, and what comes of it."""

    layer: Any
    x_BTD: mx.array
    window_BWU: mx.array
    state_BHVK: mx.array
    inputs: DeltaInputs
    y_BTHV: mx.array

    @classmethod
    def of(cls, layer: Any, x_BTD: mx.array, window_BWU: mx.array, state_BHVK: mx.array) -> "Delta":
        """Run the layer up to the output of its recurrence."""
        inputs = delta_inputs(layer, x_BTD, window_BWU)
        y_BTHV, _ = recurrent_states(inputs, state_BHVK)
        mx.eval(inputs, y_BTHV)
        return cls(layer, x_BTD, window_BWU, state_BHVK, inputs, y_BTHV)


def _call_again(calls: list[Call]) -> None:
    mx.eval([call.again() for call in calls])


def _project(deltas: list[Delta]) -> None:
    """What surrounds the recurrence; of its inputs only what a verify pass computes."""
    computed: list[mx.array] = []
    for delta in deltas:
        inputs = delta_inputs(delta.layer, delta.x_BTD, delta.window_BWU)
        computed += [inputs.q_BTNK, inputs.k_BTNK, inputs.v_BTHV, inputs.g_BTH, inputs.beta_BTH]
        computed += [inputs.conv_input_BRU, delta_output(delta.layer, delta.y_BTHV, inputs.z_BTHV)]
    mx.eval(computed)


def _recur(deltas: list[Delta]) -> None:
    mx.eval([recurrent_states(delta.inputs, delta.state_BHVK)[0] for delta in deltas])


def _head(model: Any, final_BTD: mx.array) -> None:
    mx.eval(head(model, final_BTD))
