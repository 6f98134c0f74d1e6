"""Room on the disk: looked at beforehand, and told in one line where it runs out."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diffdraft.errors import UserError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MLX_WRITE = "[write]"  # how a failed write of MLX begins; it does not tell why


def existing(folder: Path) -> Path:
    """The folder, or where it is not made yet the nearest above it that is there."""
    place = folder.absolute()
    return next(path for path in (place, *place.parents) if path.exists())


def check_room(folder: Path, n_bytes: int) -> None:
    """Raise `UserError` when fewer than `n_bytes` are free where `folder` is or will be."""
    free = shutil.disk_usage(existing(folder)).free
    if free < n_bytes:
        raise UserError(folder, "disk", f"{free / 1e9:.1f} GB free", f"{n_bytes / 1e9:.1f} GB")


@contextmanager
def full_disk_told(path: str | Path) -> Iterator[None]:
    """Raise `UserError` for a full disk met on the way to `path`; another error stays itself."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise UserError(path, "disk", error.strerror, "room for it") from None
    except RuntimeError as error:
        if not str(error).startswith(MLX_WRITE):
            raise
        raise UserError(path, "disk", str(error).rstrip("."), "room for it") from None
