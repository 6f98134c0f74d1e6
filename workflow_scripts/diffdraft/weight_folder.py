"""The weight files of a model folder: each whole, none missing, none left over. Imports no MLX.

`mlx_lm.load` merges whatever `model*.safetensors` it finds. It takes a stale file beside the shards
for a part of the model, and a Gemma 3 whose readout was in a missing shard for one that has none.
So the files are held to their headers and to the index before it reads them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.weight_files import Stored, read_header

WEIGHTS = "model*.safetensors"  # what `mlx_lm.load` reads
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
NUMBERED = re.compile(r"-(\d+)-of-(\d+)\.safetensors$")


def check_weights(folder: Path) -> None:
    """Raise `UserError` for a weight file that is missing, cut, or not a part of the model."""
    index, paths = read_index(folder), sorted(folder.glob(WEIGHTS))
    if not paths:
        raise UserError(folder, "weights", f"no {WEIGHTS}", "weights in safetensors form")
    if index:
        _check_no_others(paths, set(index.values()))
    else:
        _check_numbers(paths)
    read_stored(folder, paths)


def named_weights(folder: Path) -> list[Path]:
    """The weight files of a folder: those that its index names, or the single one.

    Raises `UserError` for one that is missing, and for an index that is none.
    """
    index = read_index(folder)
    if not index and not (folder / SINGLE).is_file():
        raise UserError(folder, "weights", f"neither {SINGLE} nor {INDEX}", "one of them")
    return [folder / name for name in sorted(set(index.values())) or [SINGLE]]


def read_stored(folder: Path, paths: Sequence[Path]) -> dict[str, Stored]:
    """Every tensor of some weight files of a folder.

    Raises `UserError` for a file that is not whole, a tensor in two of them, or one that the index
    puts into a file without it.
    """
    headers = {path.name: read_header(path) for path in paths}
    place: dict[str, str] = {}
    for file, header in headers.items():
        for tensor in sorted(header):
            # The file that is read last would win.
            if tensor in place:
                found = f"also in {place[tensor]}"
                raise UserError(folder / file, tensor, found, "each tensor once")
            place[tensor] = file
    for tensor, file in read_index(folder).items():
        if place.get(tensor) != file:
            raise UserError(folder / file, tensor, "no such tensor", f"it there, as {INDEX} says")
    return {tensor: headers[file][tensor] for tensor, file in place.items()}


def read_index(folder: Path) -> dict[str, str]:
    """The file of each tensor; empty where a folder has no index.

    Raises `UserError` for an index that says something else, leads out of the folder, or names a
    file that is missing.
    """
    index = folder / INDEX
    if not index.is_file():
        return {}
    content: Any = files.read_json(index)
    found = content.get("weight_map") if isinstance(content, dict) else None
    named = list(found.values()) if isinstance(found, dict) else []
    if not isinstance(found, dict) or not named or not all(isinstance(n, str) for n in named):
        raise UserError(index, "weight_map", "nothing", "the file of each tensor")
    for name in sorted(set(named)):
        if Path(name).name != name:
            raise UserError(index, "weight_map", name, "names of files in this folder")
        if not (folder / name).is_file():
            raise UserError(folder / name, "file", "nothing there", f"a shard that {INDEX} names")
    return found


def _check_no_others(paths: Sequence[Path], named: set[str]) -> None:
    for path in paths:
        if path.name not in named:
            told = f"only the {len(named)} files that {INDEX} names"
            raise UserError(path, "file", "another file of weights", told)


def _check_numbers(paths: Sequence[Path]) -> None:
    """Without an index the names of shards say how many there are."""
    for path in paths:
        if match := NUMBERED.search(path.name):
            count, expected = sum(bool(NUMBERED.search(p.name)) for p in paths), int(match[2])
            if count != expected:
                raise UserError(path.parent, "weights", f"{count} shards", f"{expected} shards")
