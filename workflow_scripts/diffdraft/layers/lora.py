"""Token-conditional LoRA: a low-rank update that acts on chosen token rows only.

    y = W x + m * (alpha / r) * (x A) B,      m in {0, 1} per token row

(Uno, 2609.04010; qwen-block-diffusion-lab, gated LoRA). Rows with m = 0 run the frozen weights,
and outside a `rows` block the low-rank branch is not computed at all, so the frozen model's own
passes are bit for bit those of the model without an adapter.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from diffdraft.layers.walk import text_model

PLACEMENTS = {
    "attention": ("self_attn", ("q_proj", "k_proj", "v_proj", "o_proj")),
    "mlp": ("mlp", ("gate_proj", "up_proj", "down_proj")),
    "delta_net": ("linear_attn", ("in_proj_qkv", "in_proj_z", "out_proj")),
}


@dataclass(frozen=True)
class AdapterSpec:
    """Shape of an adapter: rank r, alpha, standard deviation of A at the start, and where."""

    rank: int
    alpha: float
    init_std: float
    placement: tuple[str, ...]
    seed: int


class Gate:
    """The row mask that all wrapped modules of one adapter read; None means switched off."""

    def __init__(self) -> None:
        self.mask_BT: mx.array | None = None


class GatedLinear(nn.Module):
    """A frozen linear module with a gated low-rank branch. A is [in, r], B is [r, out]."""

    def __init__(self, base: nn.Module, spec: AdapterSpec, gate: Gate, key: mx.array) -> None:
        super().__init__()
        n_out, n_in = base.weight.shape
        self.base = base
        self.lora_a = mx.random.normal((n_in, spec.rank), scale=spec.init_std, key=key)
        self.lora_b = mx.zeros((spec.rank, n_out))
        self._gate = gate
        self._scale = spec.alpha / spec.rank

    def __call__(self, x_BTD: mx.array) -> mx.array:
        y = self.base(x_BTD)
        mask_BT = self._gate.mask_BT
        if mask_BT is None:
            return y
        if mask_BT.shape != x_BTD.shape[:2]:
            raise ValueError(f"gate has shape {mask_BT.shape}, rows have {x_BTD.shape[:2]}")
        # In float32, cast once before the addition, so that a bf16 target loses nothing twice.
        update = (x_BTD.astype(mx.float32) @ self.lora_a) @ self.lora_b * self._scale
        return y + (mask_BT[..., None] * update).astype(y.dtype)


class Adapter:
    """All gated modules of one model, and the gate that they share."""

    def __init__(
        self, model: Any, spec: AdapterSpec, modules: dict[str, GatedLinear], gate: Gate
    ) -> None:
        self.model, self.spec, self.modules, self._gate = model, spec, modules, gate

    @classmethod
    def attach(cls, model: Any, spec: AdapterSpec) -> "Adapter":
        """Wrap the placed modules of `model` in place and freeze everything else.

        B starts at zero: until it is trained or loaded the adapter changes no bit of any row.
        """
        gate, modules = Gate(), {}
        keys = iter(mx.random.split(mx.random.key(spec.seed), 7 * len(text_model(model).layers)))
        model.freeze()
        for index, layer in enumerate(text_model(model).layers):
            for part, names in (PLACEMENTS[place] for place in spec.placement):
                owner = getattr(layer, part, None)
                for name in names if owner is not None else ():
                    wrapped = GatedLinear(getattr(owner, name), spec, gate, next(keys))
                    wrapped.unfreeze(keys=["lora_a", "lora_b"], recurse=False)
                    setattr(owner, name, wrapped)
                    modules[f"layers.{index}.{part}.{name}"] = wrapped
        return cls(model, spec, modules, gate)

    @contextmanager
    def rows(self, gate_BT: mx.array) -> Iterator[None]:
        """Within this block, rows where `gate_BT` is 1 get the low-rank update."""
        self._gate.mask_BT = gate_BT
        try:
            yield
        finally:
            self._gate.mask_BT = None

    @property
    def tensors(self) -> dict[str, mx.array]:
        """The trainable tensors by name, two a module."""
        return {
            f"{name}.{part}": module[part]
            for name, module in self.modules.items()
            for part in ("lora_a", "lora_b")
        }

    @property
    def n_parameters(self) -> int:
        """Trainable parameters: r times the sum of (in + out) over the placed modules."""
        return sum(tensor.size for tensor in self.tensors.values())

    def assign(self, tensors: dict[str, mx.array]) -> None:
        """Replace the trainable tensors; names and shapes must be this adapter's."""
        for name, tensor in tensors.items():
            module, part = name.rsplit(".", 1)
            self.modules[module][part] = tensor

    def zero(self) -> None:
        """Set every B to zero: the adapter is there but changes nothing."""
        self.assign(
            {name: mx.zeros_like(t) for name, t in self.tensors.items() if name.endswith("lora_b")}
        )
