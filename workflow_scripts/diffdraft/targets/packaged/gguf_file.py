"""A GGUF file: typed metadata, and tensors by name, dequantised one at a time."""

import importlib
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from diffdraft.errors import UserError
from diffdraft.targets.packaged.chunks import INSTALL

Value = TypeVar("Value", int, float, str, bool, list)
REQUIRED: Any = object()


def gguf_package() -> Any:
    """The optional package `gguf`. Raises `UserError` where it is not installed."""
    try:
        package = importlib.import_module("gguf")
        importlib.import_module("gguf.quants")
    except ImportError:
        raise UserError(
            "profile", "target", "gguf not installed", "the package that reads it", INSTALL
        ) from None
    return package


class GGUFFile:
    """One file, opened; its data stay on disk until they are asked for.

    Raises `UserError` for a file that is not GGUF.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._gguf = gguf_package()
        try:
            reader = self._gguf.GGUFReader(path)
            self._values = {name: field.contents() for name, field in reader.fields.items()}
        except (ValueError, LookupError, ArithmeticError, OSError) as error:
            raise UserError(self.name, "file", error, "a whole GGUF file") from None
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}

    def keys(self, prefix: str) -> list[str]:
        """Names of the metadata that begin with `prefix`."""
        return sorted(key for key in self._values if key.startswith(prefix))

    def get(self, key: str, kind: type[Value], default: Value = REQUIRED) -> Value:
        """The value of a key. Raises `UserError` for another type, or none without a default."""
        value = self._values.get(key, default)
        if value is REQUIRED:
            raise UserError(self.name, key, "nothing there", f"a value of type {kind.__name__}")
        if type(value) is not kind:
            raise UserError(self.name, key, f"{value!r:.60}", f"a value of type {kind.__name__}")
        return value

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the tensors, the longest stride first (GGUF itself writes it last)."""
        return {
            name: tuple(int(size) for size in reversed(tensor.shape))
            for name, tensor in self._tensors.items()
        }

    @property
    def types(self) -> dict[str, int]:
        """How many tensors there are of each type, by its name (F32, Q4_K, ...)."""
        names = [tensor.tensor_type.name for tensor in self._tensors.values()]
        return {name: names.count(name) for name in sorted(set(names))}

    def tensor(self, name: str) -> np.ndarray:
        """A tensor in float32. Raises `UserError` for a type that gguf cannot dequantise."""
        tensor = self._tensors[name]
        try:
            values = self._gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            found = tensor.tensor_type.name
            raise UserError(self.name, name, found, "a type that gguf can dequantise") from None
        return np.ascontiguousarray(values, dtype=np.float32)
