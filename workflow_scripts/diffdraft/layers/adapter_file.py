"""Adapter files: safetensors with metadata that says what they belong to.

The metadata holds the adapter's shape, what it was trained for, and the fingerprint of its target;
an adapter is never put on another target.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mlx.core as mx
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, ValidationError

from diffdraft import files
from diffdraft.config_adapters import Part
from diffdraft.errors import UserError
from diffdraft.layers.lora import PLACEMENTS, Adapter, AdapterSpec
from diffdraft.layers.tensors import Tensors, load_tensors, save_tensors

REQUIRED = ("study", "arm", "step", "seed", "block_size", "config_hash", "target_fingerprint")


class SpecFields(BaseModel):
    """`AdapterSpec` as a file states it."""

    model_config = ConfigDict(strict=True, extra="forbid")

    rank: PositiveInt
    alpha: FiniteFloat
    init_std: FiniteFloat
    placement: tuple[Part, ...] = Field(min_length=1)
    seed: int


def save_adapter(path: Path, adapter: Adapter, metadata: dict[str, Any]) -> None:
    """Write the adapter's tensors; `metadata` has the keys of `REQUIRED`."""
    missing = set(REQUIRED) - set(metadata)
    if missing:
        raise ValueError(f"adapter metadata lacks {sorted(missing)}")
    text = {name: str(value) for name, value in metadata.items()}
    text["spec"] = json.dumps(asdict(adapter.spec))
    save_tensors(path, adapter.tensors, text)


def read_adapter(path: Path, sha256: str | None = None) -> tuple[Tensors, dict[str, str]]:
    """Tensors and metadata of an adapter file.

    Raises `UserError` for a missing or truncated file, a wrong hash or missing metadata.
    """
    tensors, metadata = load_tensors(path)
    if sha256 is not None and (found := files.sha256_file(path)) != sha256:
        raise UserError(path, "sha256", found, sha256)
    for name in (*REQUIRED, "spec"):
        if name not in metadata:
            raise UserError(
                path, f"metadata.{name}", "nothing", "a value", "Not an adapter of ours"
            )
    read_spec(path, metadata)
    return tensors, metadata


def read_spec(path: Path, metadata: Mapping[str, str]) -> AdapterSpec:
    """The shape that an adapter file states. Raises `UserError` if it states none."""
    try:
        return AdapterSpec(**SpecFields.model_validate_json(metadata["spec"]).model_dump())
    except ValidationError:
        expected = f"rank, alpha, init_std, placement ({', '.join(PLACEMENTS)}) and seed as JSON"
        raise UserError(path, "metadata.spec", metadata["spec"], expected) from None


def load_adapter(model: Any, fingerprint: str, path: Path, sha256: str | None = None) -> Adapter:
    """Attach the adapter of a file to the target that it was trained on.

    Raises `UserError` for another target, another rank, and whatever `read_adapter` refuses.
    """
    tensors, metadata = read_adapter(path, sha256)
    found = metadata["target_fingerprint"]
    if found != fingerprint:
        raise UserError(
            path, "metadata.target_fingerprint", found, fingerprint, "It belongs to another target"
        )
    adapter = Adapter.attach(model, read_spec(path, metadata))
    expected = {name: tensor.shape for name, tensor in adapter.tensors.items()}
    if missing := sorted(set(expected) ^ set(tensors)):
        raise UserError(path, missing[0], "missing or unknown", "the tensors of its placement")
    for name, tensor in sorted(tensors.items()):
        if tensor.shape != expected[name]:
            raise UserError(path, name, f"shape {tensor.shape}", f"shape {expected[name]}")
        _check_numbers(path, name, tensor)
    adapter.assign(tensors)
    return adapter


def _check_numbers(path: Path, name: str, tensor: mx.array) -> None:
    if not mx.issubdtype(tensor.dtype, mx.floating):
        raise UserError(path, name, str(tensor.dtype), "floating-point numbers")
    if not mx.isfinite(tensor).all():
        raise UserError(path, name, "a value that is not finite", "finite numbers")
