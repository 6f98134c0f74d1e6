import errno
import hashlib
import io
import os
from email.message import Message
from http.client import BadStatusLine, IncompleteRead
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError
from urllib.request import HTTPSHandler
from urllib.response import addinfourl

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

    def open_address(request, timeout):
        if isinstance(data, Exception):
            raise data
        answer = io.BytesIO(data)
        answer.headers = Message()
        if stated is not None:
            answer.headers["Content-Length"] = str(stated)
        return answer

    monkeypatch.setattr(module, "opener", lambda: SimpleNamespace(open=open_address))
    monkeypatch.setattr(files, "CHUNK_BYTES", 100)


class LeadsTo(HTTPSHandler):
    """Answers every address with a redirect, and that with the file."""

    handler_order = HTTPSHandler.handler_order - 1

    def __init__(self, address):
        super().__init__()
        self.address = address

    def https_open(self, request):
        headers = Message()
        headers["Location"] = self.address
        there = request.full_url == self.address
        answer = addinfourl(io.BytesIO(DATA), headers, request.full_url, 200 if there else 302)
        answer.msg = "said"
        return answer


def leads_to(monkeypatch, address):
    real = module.opener

    def opener():
        made = real()
        made.add_handler(LeadsTo(address))
        return made

    monkeypatch.setattr(module, "opener", opener)


def refused(path, address=ADDRESS):
    with pytest.raises(UserError) as caught:
        module.download_file(address, len(DATA), path)
    assert "\n" not in str(caught.value)
    assert not list(path.parent.iterdir())
    return str(caught.value)


@pytest.mark.parametrize("stated", [None, len(DATA)])
@pytest.mark.parametrize("most", [len(DATA), 3 * len(DATA)])
def test_whole_file(path, monkeypatch, stated, most):
    answers(monkeypatch, DATA, stated)
    module.download_file(ADDRESS, most, path)
    assert path.read_bytes() == DATA
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "address",
    ["https://host:abc/x", "https://h/a b", "https://[::1/x", "https://", "https://h/\x7f"],
)
def test_an_address_that_is_none_is_one_line(path, address):
    assert f"{address}: address: found " in refused(path, address)


def test_an_answer_that_leads_on_is_followed(path, monkeypatch):
    leads_to(monkeypatch, "https://example.com/moved")
    module.download_file(ADDRESS, len(DATA), path)
    assert path.read_bytes() == DATA


@pytest.mark.parametrize("address", ["http://example.org/a", "ftp://example.org/a"])
def test_an_answer_that_leads_off_https_is_refused(path, monkeypatch, address):
    leads_to(monkeypatch, address)
    said = refused(path)
    assert f"{address}: address: found {address.partition(':')[0]}; expected https" in said
    assert f"{ADDRESS} leads there" in said


@pytest.mark.parametrize("scheme", ["http", "file", "ftp"])
def test_other_schemes(path, monkeypatch, scheme):
    answers(monkeypatch, DATA)
    assert f"address: found {scheme}; expected https" in refused(path, f"{scheme}://example.org/a")


@pytest.mark.parametrize(
    ("data", "stated", "said"),
    [
        (DATA + b"x", None, "found 1281 or more; expected at most 1280"),
        (DATA * 9, None, "found 1281 or more; expected at most 1280"),
        (DATA, 1281, "found 1281 or more; expected at most 1280"),
        (DATA, 7, "found 1280; expected 7, as the answer said"),
        (DATA[:-1], 1280, "found 1279; expected 1280, as the answer said"),
        (b"", 1280, "found 0; expected 1280, as the answer said"),
    ],
)
def test_what_is_too_large_or_cut_short_never_gets_the_name(path, monkeypatch, data, stated, said):
    answers(monkeypatch, data, stated)
    assert f"bytes: {said}" in refused(path)


def test_a_length_that_is_none(path, monkeypatch):
    answers(monkeypatch, DATA, "long")
    assert "address: found ValueError " in refused(path)


@pytest.mark.parametrize(
    "error",
    [
        URLError("no such host"),
        TimeoutError("slow"),
        ConnectionResetError(errno.ECONNRESET, "cut"),
        IncompleteRead(b"", 9),
        BadStatusLine("odd"),
    ],
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
