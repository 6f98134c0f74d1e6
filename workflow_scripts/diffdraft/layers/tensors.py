"""Safetensors files: written whole or not at all, read with their metadata."""

from pathlib import Path
from typing import cast

import mlx.core as mx

from diffdraft import files
from diffdraft.errors import UserError

Tensors = dict[str, mx.array]


def save_tensors(path: Path, tensors: Tensors, metadata: dict[str, str]) -> None:
    """Write tensors and metadata, atomically."""
    with files.atomic(path) as temporary:
        mx.save_safetensors(str(temporary), tensors, metadata)


def load_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """Read tensors and metadata; a missing or truncated file is a `UserError`."""
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "a safetensors file")
    try:
        loaded = mx.load(str(path), format="safetensors", return_metadata=True)
        tensors, metadata = cast(tuple[Tensors, dict[str, str]], loaded)
        mx.eval(tensors)
    except (RuntimeError, ValueError) as error:
        first_line = str(error).splitlines()[0]
        raise UserError(path, "file", first_line, "a whole safetensors file") from None
    return tensors, metadata
