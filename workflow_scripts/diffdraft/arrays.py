"""NumPy arrays in files, whole or not at all."""

import io
from pathlib import Path

import numpy as np

from diffdraft import files


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array as .npy, atomically. Raises `UserError` for a full disk.

    NumPy writes to a file behind Python's back and is silent when the last few kilobytes find no
    room, so it writes to memory.
    """
    content = io.BytesIO()
    np.save(content, array)
    files.write_bytes(path, content.getbuffer())
