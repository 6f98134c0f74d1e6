"""One weight file by its header: is it whole, and what does it hold?

A safetensors file begins with the length of its header and the header, JSON that gives the dtype,
shape and place of every tensor. A file that was not copied whole ends before its last tensor. No
tensor is loaded and no MLX imported: whoever asks may have none.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from diffdraft.errors import UserError

DTYPES = {"bfloat16": "BF16", "float32": "F32"}
LENGTH_BYTES = 8  # of the header's length, little-endian, at the beginning of a file
MAX_HEADER_BYTES = 100_000_000  # the format's own limit


class Stored(NamedTuple):
    """One tensor of a file."""

    dtype: str
    shape: tuple[int, ...]
    n_bytes: int


def read_header(path: Path) -> dict[str, Stored]:
    """The tensors of a safetensors file. Raises `UserError` if it is missing or not whole."""
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "a safetensors file")
    try:
        length, header = _raw_header(path)
        header.pop("__metadata__", None)
        ends = [int(entry["data_offsets"][1]) for entry in header.values()]
        stored = {name: _stored(entry) for name, entry in header.items()}
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        raise UserError(path, "file", "no readable header", "a whole safetensors file") from None
    expected = LENGTH_BYTES + length + max(ends, default=0)
    if (size := path.stat().st_size) != expected:
        raise UserError(path, "bytes", size, f"{expected}, as its header says")
    return stored


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file; none where it cannot be read."""
    try:
        return dict(_raw_header(path)[1].get("__metadata__") or {})
    except (OSError, ValueError, TypeError, RecursionError):
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


def _raw_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Length and content of a header. Raises `ValueError` or `RecursionError` if there is none."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        # The bytes of another file say anything: no memory is asked for on their word.
        text = stream.read(length) if length < min(path.stat().st_size, MAX_HEADER_BYTES) else b""
    header = json.loads(text)
    if not isinstance(header, dict):
        raise ValueError("no names")
    return length, header


def _stored(entry: dict[str, Any]) -> Stored:
    begin, end = entry["data_offsets"]
    return Stored(str(entry["dtype"]), tuple(map(int, entry["shape"])), int(end) - int(begin))
