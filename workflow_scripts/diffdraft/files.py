"""Files that are either whole or absent: write to a temporary name, then rename."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diffdraft.disk import full_disk_told
from diffdraft.errors import UserError

CHUNK_BYTES = 1 << 20


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes the place of `path`.

    The temporary name keeps the suffix, since some writers choose a format by it.
    Raises `UserError` for a full disk.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    with full_disk_told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_bytes(path: str | Path, data: bytes | memoryview) -> None:
    """Write bytes, atomically."""
    with atomic(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text with LF line ends, atomically."""
    write_bytes(path, text.encode())


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON with sorted keys and full-precision floats; NaN is an error."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_text(path: str | Path) -> str:
    """Read UTF-8 text; a missing file or other encoding is a `UserError`."""
    path = Path(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(path, "file", "nothing there", "a file") from None
    except OSError as error:
        raise UserError(path, "file", error.strerror, "a file that can be read") from None
    except UnicodeDecodeError as error:
        raise UserError(path, f"byte {error.start}", "not UTF-8", "UTF-8 text") from None


def read_json(path: str | Path) -> Any:
    """Read JSON; bad JSON is a `UserError` with the line."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(path, f"line {error.lineno}", error.msg, "JSON") from None
    except RecursionError:
        raise UserError(path, "file", "nesting without end", "JSON of some levels") from None


def sha256_bytes(data: bytes) -> str:
    """SHA-256 as lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str | Path) -> str:
    """SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def described(path: Path) -> dict[str, int | str]:
    """Size and SHA-256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": sha256_file(path)}


def stamp(path: str | Path) -> str:
    """A digest of the names, sizes and times of a file, or of all files in a folder.

    It tells whether somebody has put something else there, without reading gigabytes. Hidden files
    and folders, which systems and tools leave anywhere, do not count.
    """
    path = Path(path)
    found = path.rglob("*") if path.is_dir() else [path]
    stats = {one.relative_to(path): one.stat() for one in found if one.is_file()}
    seen = sorted(name for name in stats if not any(part[0] == "." for part in name.parts))
    told = [f"{name} {stats[name].st_size} {stats[name].st_mtime_ns}" for name in seen]
    return sha256_bytes("\n".join(told).encode())[:16]
