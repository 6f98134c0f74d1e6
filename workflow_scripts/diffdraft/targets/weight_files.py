"""The weight files of a model folder: each whole, none missing, none left over.

`mlx_lm.load` merges whatever `model*.safetensors` it finds. It takes a stale file beside the shards
for a part of the model, and a Gemma 3 whose readout was in a missing shard for one that has none.
So the files are held to their headers and to the index before it reads them; no tensor is loaded.
"""

import json
import re
from pathlib import Path
from typing import Any

from diffdraft import files
from diffdraft.errors import UserError

WEIGHTS = "model*.safetensors"  # what `mlx_lm.load` reads
INDEX = "model.safetensors.index.json"
NUMBERED = re.compile(r"-(\d+)-of-(\d+)\.safetensors$")
LENGTH_BYTES = 8  # of the header's length, little-endian, at the beginning of a file


def check_weights(folder: Path) -> None:
    """Raise `UserError` for a file that is missing, cut, or not a part of the model."""
    paths = sorted(folder.glob(WEIGHTS))
    index = folder / INDEX
    if not paths and not index.is_file():
        raise UserError(folder, "weights", f"no {WEIGHTS}", "weights in safetensors form")
    if index.is_file():
        _check_index(index, _weight_map(index), {path.name for path in paths})
    else:
        _check_numbers(paths)
    names = {path.name: tensor_names(path) for path in paths}
    _check_once(folder, names)
    for tensor, file in _weight_map(index).items() if index.is_file() else ():
        if tensor not in names[file]:
            raise UserError(folder / file, tensor, "no such tensor", f"it there, as {INDEX} says")


def tensor_names(path: Path) -> set[str]:
    """Names of the tensors of a safetensors file. Raises `UserError` if it is not whole."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        header = stream.read(length) if length < size else b""
    try:
        tensors = json.loads(header)
        tensors.pop("__metadata__", None)
        end = max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
        expected = LENGTH_BYTES + length + int(end)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UserError(path, "header", "none that can be read", "a safetensors file") from None
    if size != expected:
        told = f"{expected} bytes, as its header says"
        raise UserError(path, "file", f"{size} bytes", told, "Its copying was not finished")
    return set(tensors)


def _weight_map(index: Path) -> dict[str, str]:
    """The index: the file of each tensor."""
    content: Any = files.read_json(index)
    found = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(found, dict) or not all(isinstance(file, str) for file in found.values()):
        raise UserError(index, "weight_map", "none", "the file of each tensor")
    return found


def _check_index(index: Path, weight_map: dict[str, str], found: set[str]) -> None:
    expected = set(weight_map.values())
    if missing := sorted(expected - found):
        raise UserError(
            index.parent / missing[0], "file", "nothing there", f"a shard that {INDEX} names"
        )
    if others := sorted(found - expected):
        told = f"only the {len(expected)} files that {INDEX} names"
        raise UserError(index.parent / others[0], "file", "another file of weights", told)


def _check_numbers(paths: list[Path]) -> None:
    """Without an index the names of shards say how many there are."""
    for path in paths:
        if match := NUMBERED.search(path.name):
            count = sum(NUMBERED.search(other.name) is not None for other in paths)
            if count != int(match[2]):
                raise UserError(
                    path.parent, "weights", f"{count} shards", f"{int(match[2])} shards"
                )


def _check_once(folder: Path, names: dict[str, set[str]]) -> None:
    """Of a tensor in two files, the one that was read last would win."""
    seen: dict[str, str] = {}
    for file, tensors in names.items():
        for tensor in sorted(tensors):
            if tensor in seen:
                raise UserError(
                    folder / file, tensor, f"also in {seen[tensor]}", "each tensor once"
                )
            seen[tensor] = file
