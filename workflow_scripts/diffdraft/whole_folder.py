"""A folder that is either whole or absent: made beside its place, then renamed."""

import fcntl
import glob
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from diffdraft.disk import full_disk_told
from diffdraft.errors import UserError


@contextmanager
def whole_folder(out: Path, names: Collection[str]) -> Iterator[Path]:
    """Yield an empty folder beside `out`; on success it takes the place of `out`.

    What killed processes left there is removed. Where `out` is a link, the folder that it leads to
    is made, on the disk that it is on. Only a folder that `check_replaceable` passes is replaced.
    Raises `UserError` for another one, and when the disk is full.
    """
    out = out.resolve() if out.is_symlink() else out
    check_replaceable(out, names)
    out.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_behind(out)
    temporary = _beside(out, str(os.getpid()))
    temporary.mkdir()
    try:
        with _locked(temporary), full_disk_told(out):
            yield temporary
            _replace(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _beside(out: Path, mark: str) -> Path:
    return out.with_name(f".{out.name}.{mark}.tmp")


def check_replaceable(out: Path, names: Collection[str]) -> None:
    """Raise `UserError` for a folder with anything but files of `names`, which are patterns."""
    if out.exists() and not out.is_dir():
        raise UserError(out, "folder", "a file", "a folder, or nothing")
    found = [path.name for path in out.glob("*")]
    others = sorted(one for one in found if not any(fnmatchcase(one, name) for name in names))
    if others:
        raise UserError(out, "folder", others[0], f"an empty folder, or one with {sorted(names)}")


def _remove_left_behind(out: Path) -> None:
    """Remove what a killed process left; one that still works holds the lock of its folder."""
    for path in out.parent.glob(_beside(Path(glob.escape(out.name)), "*").name):
        try:
            with _locked(path):
                shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            continue


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system drops when the process ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _replace(temporary: Path, out: Path) -> None:
    """Rename, an older folder moved aside first: at no time are two halves in one place."""
    aside = _beside(out, f"{os.getpid()}.old")
    if out.exists():
        out.replace(aside)
    temporary.replace(out)
    shutil.rmtree(aside, ignore_errors=True)
