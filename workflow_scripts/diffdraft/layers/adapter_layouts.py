"""The layout of the published adapter files: other names, no metadata.

What is known of such a file for Qwen3.5-4B is its size, 84,966,094 bytes, and that it holds 256
float32 tensors of 21,233,664 parameters, which leaves 31,430 bytes of header. Names and order are
inferred: a dictionary from `mlx.utils.tree_flatten` over the `mlx_lm` model, written by
`mx.save_safetensors` without metadata, has a header of that very length on macOS. (MLX writes the
order of a C++ hash table, and the digits of the offsets depend on it: 31,416 with GNU's library.)
The same assumption gives the published 169,933,834 bytes of the optimiser's file.

A reader takes any order. The writer puts MLP before attention, the one simple order in which the
header has the published length too.
"""

import json
import struct
from pathlib import Path

import numpy as np

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.layers.lora import PLACEMENTS
from diffdraft.layers.tensors import Tensors

PREFIX = "language_model.model."
FACTORS = ("lora_a", "lora_b")


def write_published(path: Path, tensors: Tensors) -> None:
    """Write tensors, named as `Adapter.tensors` names them, in the published layout."""
    ordered = [name for part in ("mlp", "self_attn") for name in tensors if f".{part}." in name]
    if left := sorted(set(tensors) - set(ordered)):
        raise UserError(path, left[0], "a tensor the layout has no place for", "attention and mlp")
    header, offset = {"__metadata__": None}, 0
    for name in ordered:
        end = offset + tensors[name].size * 4
        shape = list(tensors[name].shape)
        entry = {"data_offsets": [offset, end], "dtype": "F32", "shape": shape}
        header[PREFIX + name], offset = entry, end  # type: ignore[assignment]
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    with files.atomic(path) as temporary, temporary.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in ordered:
            stream.write(np.array(tensors[name], dtype="<f4").tobytes())


def own_names(path: Path, tensors: Tensors) -> Tensors:
    """The tensors of a published file by the names of `Adapter.tensors`.

    Raises `UserError` for a tensor that is no factor of a low-rank update.
    """
    for name in sorted(tensors):
        if not name.startswith(PREFIX) or name.rsplit(".", 1)[-1] not in FACTORS:
            expected = f"{PREFIX}layers.N.PART.MODULE.lora_a or lora_b"
            raise UserError(path, "tensors", name, expected, "Not a published adapter")
    return {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}


def placement_of(path: Path, tensors: Tensors) -> tuple[str, ...]:
    """Where adapters of these tensors (by our names) sit. Raises `UserError` for another place."""
    parts = {part: place for place, (part, _) in PLACEMENTS.items()}
    found = {name.split(".")[-3] if name.count(".") == 4 else name for name in tensors}
    for part in sorted(found - set(parts)):
        raise UserError(path, "tensors", part, " or ".join(parts))
    return tuple(place for part, place in parts.items() if part in found)


def rank_of(path: Path, tensors: Tensors) -> int:
    """The rank r of all factors, A of [in, r] and B of [r, out]. Raises `UserError` for several."""
    ranks = {
        tensor.shape[1 if name.endswith("lora_a") else 0]
        for name, tensor in tensors.items()
        if tensor.ndim == 2
    }
    if len(ranks) != 1 or any(tensor.ndim != 2 for tensor in tensors.values()):
        found = ", ".join(map(str, sorted(ranks))) or "none"
        raise UserError(path, "rank", found, "one rank, and matrices only")
    return next(iter(ranks))
