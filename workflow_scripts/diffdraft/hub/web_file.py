"""A pinned file by path or https address: its size is looked at first, then its SHA-256."""

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from diffdraft import files
from diffdraft.disk import check_room
from diffdraft.errors import UserError

TIMEOUT_SECONDS = 60


def is_address(source: str) -> bool:
    """Is it an address, not a path?"""
    return "://" in source


def download_file(address: str, n_bytes: int, path: Path) -> None:
    """Download a file of known size; what is shorter or longer never gets the name `path`.

    Raises `UserError` for another scheme than https, an answer of another size, no answer, or a
    full disk.
    """
    if urlsplit(address).scheme != "https":
        raise UserError(address, "address", urlsplit(address).scheme, "https")
    check_room(path.parent, n_bytes)
    try:
        with (
            urlopen(Request(address), timeout=TIMEOUT_SECONDS) as answer,
            files.atomic(path) as temporary,
            temporary.open("wb") as stream,
        ):
            stated = answer.headers.get("Content-Length")
            if stated is not None and int(stated) != n_bytes:
                raise UserError(address, "bytes", stated, n_bytes)
            while (left := n_bytes + 1 - stream.tell()) and (
                part := answer.read(min(files.CHUNK_BYTES, left))
            ):
                stream.write(part)
            if stream.tell() != n_bytes:
                more = " or more" * (stream.tell() > n_bytes)
                raise UserError(address, "bytes", f"{stream.tell()}{more}", n_bytes)
    except (OSError, ValueError) as error:
        said = f"{type(error).__name__} {error}".splitlines()[0]
        action = "Download it where there is a network and give its path"
        raise UserError(address, "address", said, "the file", action) from None


def verify_file(path: Path, n_bytes: int, sha256: str) -> None:
    """Raise `UserError` unless the file is there, of this size and of this digest."""
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "a file")
    if (size := path.stat().st_size) != n_bytes:
        raise UserError(path, "bytes", size, n_bytes)
    if (digest := files.sha256_file(path)) != sha256:
        raise UserError(path, "sha256", digest, sha256)
