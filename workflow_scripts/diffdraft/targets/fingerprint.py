"""A digest of a target's weights, to show that nothing moved them.

BLAKE2b-256 over name, shape, dtype and bytes of every tensor in the order of their names. An
attached adapter changes nothing: its own tensors are left out and its wrappers' names undone.
"""

import hashlib
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

ADAPTER_TENSORS = ("lora_a", "lora_b")
BYTE_VIEWS = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}


def fingerprint(model: Any) -> str:
    """Hexadecimal digest of the frozen weights; equal for the bare and the adapted model."""
    digest = hashlib.blake2b(digest_size=32)
    named = (
        (name.replace(".base.", "."), tensor)
        for name, tensor in tree_flatten(model.parameters())
        if name.rsplit(".", 1)[-1] not in ADAPTER_TENSORS
    )
    for name, tensor in sorted(named, key=lambda item: item[0]):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        # bfloat16 has no NumPy type; an unsigned view of the same width carries the same bytes.
        digest.update(np.array(tensor.view(BYTE_VIEWS[tensor.dtype.size])).tobytes())
    return digest.hexdigest()
