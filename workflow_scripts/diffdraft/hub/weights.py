"""The weight files of a model folder, read by their headers only: is it all there, and what is it?

A safetensors file begins with the length of its header and the header, JSON that gives the dtype,
shape and place of every tensor. A file that was not downloaded whole ends before its last tensor.
"""

import json
import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

from diffdraft import files
from diffdraft.errors import UserError

INDEX = "model.safetensors.index.json"
DTYPES = {"bfloat16": "BF16", "float32": "F32"}
MAX_HEADER_BYTES = 100_000_000  # the format's own limit


class Stored(NamedTuple):
    """One tensor of a file."""

    dtype: str
    shape: tuple[int, ...]
    n_bytes: int


def weight_files(folder: Path) -> list[Path]:
    """The weight files of a folder, by its index. Raises `UserError` for one that is missing."""
    index = folder / INDEX
    if not index.is_file():
        single = folder / "model.safetensors"
        if not single.is_file():
            raise UserError(folder, "weights", f"neither {single.name} nor {INDEX}", "one of them")
        return [single]
    named = sorted(set(_weight_map(index).values()))
    for name in named:
        if Path(name).name != name:
            raise UserError(index, "weight_map", name, "names of files in this folder")
        if not (folder / name).is_file():
            raise UserError(folder / name, "file", "nothing there", f"a shard that {INDEX} names")
    return [folder / name for name in named]


def read_stored(folder: Path) -> dict[str, Stored]:
    """Every tensor of a folder's weight files.

    Raises `UserError` for a file that is missing or not whole, or a tensor that the index puts
    into a file without it.
    """
    stored: dict[str, Stored] = {}
    paths = weight_files(folder)
    for path in paths:
        stored |= read_header(path)
    index = folder / INDEX
    for name, file in _weight_map(index).items() if index.is_file() else ():
        if name not in stored:
            raise UserError(folder / file, "tensors", f"no {name}", f"each that {INDEX} names")
    return stored


def read_header(path: Path) -> dict[str, Stored]:
    """The tensors of one safetensors file. Raises `UserError` for a file that is not whole."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else MAX_HEADER_BYTES
        text = stream.read(length) if length < min(size, MAX_HEADER_BYTES) else b""
    try:
        header: dict[str, Any] = json.loads(text)
        header.pop("__metadata__", None)
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        stored = {name: _stored(entry) for name, entry in header.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UserError(path, "file", "no readable header", "a whole safetensors file") from None
    if size != 8 + length + end:
        raise UserError(path, "bytes", size, f"{8 + length + end}, as its header says")
    return stored


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file; none where it cannot be read."""
    try:
        with path.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(min(length, MAX_HEADER_BYTES)))
        return dict(header.get("__metadata__") or {})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, struct.error):
        return {}


def main_dtype(stored: dict[str, Stored]) -> str:
    """The dtype of most bytes: small tensors may be kept in another."""
    totals: dict[str, int] = {}
    for tensor in stored.values():
        totals[tensor.dtype] = totals.get(tensor.dtype, 0) + tensor.n_bytes
    return max(totals, key=lambda dtype: totals[dtype], default="none")


def parameters(stored: dict[str, Stored]) -> int:
    """Numbers in all tensors together."""
    return sum(math.prod(tensor.shape) for tensor in stored.values())


def _weight_map(index: Path) -> dict[str, str]:
    found = files.read_json(index)
    names = found.get("weight_map") if isinstance(found, dict) else None
    if not isinstance(names, dict) or not names:
        raise UserError(index, "weight_map", "nothing", "the file of every tensor")
    return names


def _stored(entry: dict[str, Any]) -> Stored:
    begin, end = entry["data_offsets"]
    return Stored(str(entry["dtype"]), tuple(map(int, entry["shape"])), int(end) - int(begin))
