"""A target with one adapter on it, of which several sets of weights take turns.

An adapter wraps the target's modules in place, so there is one wrapper a model; the trained, the
untrained and the shuffled drafter differ in the tensors that are put into it, outside the clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
from mlx.utils import tree_flatten

from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import load_adapter, read_adapter, read_spec
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.layers.tensors import Tensors
from diffdraft.measure.divergence import dtype_name
from diffdraft.targets.load import DTYPES, Target

Weights = Literal["trained", "untrained", "shuffled"]
SHUFFLED_ARM = "primary_shuffled"
# The placement and scale of the published drafter: alpha = 16 r.
UNTRAINED_PLACEMENT = ("attention", "mlp")
UNTRAINED_ALPHA_OVER_RANK = 16.0
UNTRAINED_STD = 0.01


@dataclass(frozen=True)
class Bench:
    """What the arms of one precision run on."""

    target: Target
    adapter: Adapter
    weights: Mapping[str, Tensors]

    def put(self, name: Weights) -> None:
        """Let the adapter hold this set of weights.

        Raises `UserError` for a set that was not loaded.
        """
        if name not in self.weights:
            raise UserError("decoder", f"{name} adapter", "none", "an adapter file (--shuffled)")
        self.adapter.assign(self.weights[name])


def make_bench(
    target: Target, adapter_file: Path | None, shuffled: Path | None, rank: int
) -> Bench:
    """Put the adapter of a file on a target; without a file an untrained one of rank `rank`.

    Raises:
        UserError: an adapter of another target, or a shuffled one of another shape.
    """
    if adapter_file is None:
        adapter = Adapter.attach(target.model, untrained_spec(rank))
    else:
        adapter = load_adapter(target.model, target.fingerprint, adapter_file)
    weights = {"trained": adapter.tensors, "untrained": without_update(adapter.tensors)}
    if shuffled is not None:
        weights["shuffled"] = shuffled_tensors(shuffled, adapter, target.fingerprint)
    mx.eval(weights)
    return Bench(target, adapter, weights)


def untrained_spec(rank: int) -> AdapterSpec:
    """The published drafter's shape before its first step."""
    alpha = UNTRAINED_ALPHA_OVER_RANK * rank
    return AdapterSpec(rank, alpha, UNTRAINED_STD, UNTRAINED_PLACEMENT, seed=0)


def without_update(tensors: Tensors) -> Tensors:
    """The same adapter with every B at zero: as wide, as slow, and it changes nothing."""
    return {
        name: mx.zeros_like(tensor) if name.endswith("lora_b") else tensor
        for name, tensor in tensors.items()
    }


def shuffled_tensors(file: Path, adapter: Adapter, fingerprint: str) -> Tensors:
    """Tensors of the control that was trained against shuffled teacher rows.

    Raises `UserError` unless it is one, of the same target, and shaped like `adapter`.
    """
    tensors, metadata = read_adapter(file)
    found = metadata["target_fingerprint"]
    if found != fingerprint:
        field = "metadata.target_fingerprint"
        raise UserError(file, field, found, fingerprint, "It belongs to another target")
    if metadata["arm"] != SHUFFLED_ARM:
        raise UserError(file, "metadata.arm", metadata["arm"], SHUFFLED_ARM)
    spec = read_spec(file, metadata)
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    wanted = {name: tensor.shape for name, tensor in adapter.tensors.items()}
    same_scale = spec.alpha / spec.rank == adapter.spec.alpha / adapter.spec.rank
    if shapes != wanted or not same_scale:
        expected = "the rank, alpha and placement of the trained adapter"
        raise UserError(file, "metadata.spec", metadata["spec"], expected)
    return tensors


def precision(model: Any) -> str:
    """Precision of a model's weights, as row files call it.

    Raises `UserError` for one whose units in the last place nothing here knows.
    """
    matrices = (tensor for _, tensor in tree_flatten(model.parameters()) if tensor.ndim > 1)
    found = dtype_name(next(matrices))
    if found not in DTYPES:
        raise UserError("target", "weights", found, f"one of {', '.join(DTYPES)}, not quantized")
    return found
