import errno
import hashlib
import io
import os
from email.message import Message
from pathlib import Path
from urllib.error import URLError

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.hub import web_file as module

DATA = bytes(range(256)) * 5
ADDRESS = "https://example.org/drafter.safetensors"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "drafter.safetensors"


def answers(monkeypatch, data, stated=None):
    """Let the address answer with some bytes, or with an error."""

    def urlopen(request, timeout):
        if isinstance(data, Exception):
            raise data
        answer = io.BytesIO(data)
        answer.headers = Message()
        if stated is not None:
            answer.headers["Content-Length"] = str(stated)
        return answer

    monkeypatch.setattr(module, "urlopen", urlopen)
    monkeypatch.setattr(files, "CHUNK_BYTES", 100)


def refused(path, address=ADDRESS):
    with pytest.raises(UserError) as caught:
        module.download_file(address, len(DATA), path)
    assert "\n" not in str(caught.value)
    assert not list(path.parent.iterdir())
    return str(caught.value)


@pytest.mark.parametrize("stated", [None, len(DATA)])
def test_whole_file(path, monkeypatch, stated):
    answers(monkeypatch, DATA, stated)
    module.download_file(ADDRESS, len(DATA), path)
    assert path.read_bytes() == DATA
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("scheme", ["http", "file", "ftp"])
def test_other_schemes(path, monkeypatch, scheme):
    answers(monkeypatch, DATA)
    assert f"address: found {scheme}; expected https" in refused(path, f"{scheme}://example.org/a")


@pytest.mark.parametrize(
    ("data", "stated", "found"),
    [
        (DATA[:-1], None, "1279"),
        (DATA + b"x", None, "1281 or more"),
        (DATA * 9, None, "1281 or more"),
        (DATA, 7, "7"),
        (b"", None, "0"),
    ],
)
def test_other_sizes_never_get_the_name(path, monkeypatch, data, stated, found):
    answers(monkeypatch, data, stated)
    assert f"bytes: found {found}; expected 1280" in refused(path)


@pytest.mark.parametrize(
    "error",
    [URLError("no such host"), TimeoutError("slow"), ConnectionResetError(errno.ECONNRESET, "cut")],
)
def test_no_answer(path, monkeypatch, error):
    answers(monkeypatch, error)
    said = refused(path)
    assert said.startswith(f"{ADDRESS}: address: found {type(error).__name__} ")
    assert said.endswith("Download it where there is a network and give its path")


def test_full_disk(path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    answers(monkeypatch, DATA)
    monkeypatch.setattr(Path, "open", full)
    assert f"{path}: disk: found No space left" in refused(path)


def test_size_is_looked_at_before_the_digest(path):
    digest = hashlib.sha256(DATA).hexdigest()
    for data, said in (
        (None, "file: found nothing there"),
        (DATA[1:], "bytes: found 1279; expected 1280"),
        (b"x" * len(DATA), f"expected {digest}"),
    ):
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(UserError, match=said):
            module.verify_file(path, len(DATA), digest)
    path.write_bytes(DATA)
    module.verify_file(path, len(DATA), digest)
