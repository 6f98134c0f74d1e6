"""A file by path or https address: never larger than allowed, and one that is pinned as pinned."""

from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from diffdraft import files
from diffdraft.disk import check_room
from diffdraft.errors import UserError

TIMEOUT_SECONDS = 60
SCHEME = "https"


class StaysOnHttps(HTTPRedirectHandler):
    """Follows an answer that leads elsewhere, but not to where nothing is encrypted."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        """The next request. Raises `UserError` for another scheme."""
        check_scheme(newurl, f"{req.full_url} leads there")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def opener() -> OpenerDirector:
    """What opens addresses."""
    return build_opener(StaysOnHttps)


def is_address(source: str) -> bool:
    """Is it an address, not a path?"""
    return "://" in source


def check_scheme(address: str, action: str = "") -> None:
    """Raise `UserError` for another scheme than https, and for what is no address."""
    try:
        scheme = urlsplit(address).scheme
    except ValueError as error:
        raise UserError(address, "address", error, SCHEME, action) from None
    if scheme != SCHEME:
        raise UserError(address, "address", scheme, SCHEME, action)


def download_file(address: str, max_bytes: int, path: Path) -> None:
    """Download a file; one that is cut short or larger than `max_bytes` never gets the name `path`.

    Raises `UserError` for another scheme than https, also where a redirect leads to one, an address
    that is none, an answer that is too large or cut short, no answer, or a full disk.
    """
    check_scheme(address)
    try:
        with (
            opener().open(Request(address), timeout=TIMEOUT_SECONDS) as answer,
            files.atomic(path) as temporary,
            temporary.open("wb") as stream,
        ):
            length = answer.headers.get("Content-Length")
            stated = None if length is None else int(length)
            check_bytes(address, stated, None, max_bytes)
            check_room(path.parent, stated or 0)
            copy(answer, stream, max_bytes + 1)
            check_bytes(address, stream.tell(), stated, max_bytes)
    # `HTTPException` and `ValueError` are what parts of an address are refused with.
    except (OSError, ValueError, HTTPException) as error:
        said = " ".join(f"{type(error).__name__} {error}".split())
        action = "Download it where there is a network and give its path"
        raise UserError(address, "address", said, "the file", action) from None


def check_bytes(address: str, found: int | None, stated: int | None, most: int) -> None:
    """Raise `UserError` for more bytes than allowed, or fewer than the answer stated."""
    if found is not None and found > most:
        raise UserError(address, "bytes", f"{found} or more", f"at most {most}")
    if stated is not None and found != stated:
        raise UserError(address, "bytes", found, f"{stated}, as the answer said")


def copy(answer: BinaryIO, stream: BinaryIO, n_bytes: int) -> None:
    """Copy what comes, at most `n_bytes`."""
    while (left := n_bytes - stream.tell()) and (part := answer.read(min(files.CHUNK_BYTES, left))):
        stream.write(part)


def verify_file(path: Path, n_bytes: int, sha256: str) -> None:
    """Raise `UserError` unless the file is there, of this size and of this digest."""
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "a file")
    if (size := path.stat().st_size) != n_bytes:
        raise UserError(path, "bytes", size, n_bytes)
    if (digest := files.sha256_file(path)) != sha256:
        raise UserError(path, "sha256", digest, sha256)
