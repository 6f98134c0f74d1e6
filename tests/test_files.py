"""Files are whole or absent, and what cannot be read is told in one line."""

import os

import pytest

from diffdraft import files
from diffdraft.errors import UserError


def test_atomic_leaves_nothing_when_it_fails(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "before")
    with pytest.raises(KeyboardInterrupt), files.atomic(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "before"
    assert [child.name for child in tmp_path.iterdir()] == ["a.txt"]


def test_nan_is_no_json(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        files.write_json(tmp_path / "a.json", float("nan"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "a file"),
        ("folder", "a file that can be read"),
        (b"\xff", "UTF-8 text"),
        (b"{", "JSON"),
        (b"[" * 100_000, "JSON of some levels"),
    ],
)
def test_unreadable_json_is_one_line(tmp_path, content, expected):
    path = tmp_path / "a.json"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        files.read_json(path)
    assert caught.value.expected == expected
    assert str(caught.value).startswith(str(path))


def test_a_stamp_tells_what_lies_at_a_path(tmp_path):
    folder = tmp_path / "folder"
    stamps = [files.stamp(folder), files.stamp("https://example.org/x")]
    assert stamps[0] == stamps[1]  # nothing is there
    files.write_text(folder / "a", "1")
    stamps = [files.stamp(folder)]
    assert files.stamp(folder) == stamps[0]
    files.write_text(folder / ".DS_Store", "1")
    files.write_text(folder / ".cache/b", "1")
    assert files.stamp(folder) == stamps[0]
    files.write_text(folder / "a", "12")
    stamps.append(files.stamp(folder))
    os.utime(folder / "a", (1, 1))
    stamps.append(files.stamp(folder))
    (folder / "a").rename(folder / "b")
    stamps += [files.stamp(folder), files.stamp(folder / "b")]
    assert len(set(stamps)) == len(stamps)
