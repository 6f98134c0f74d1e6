"""A conversion is all or nothing: full disks, kills and other people's folders."""

import errno
import json
import os
import signal
import time

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.targets.load import load_target
from diffdraft.targets.packaged import convert
from diffdraft.targets.packaged.convert import FILES, convert_target
from diffdraft.whole_folder import whole_folder
from tests.targets.conversions import (
    NO_ROOM,
    convert_and_die,
    convert_with_room_for,
    hold,
    in_child,
    spawned,
)

STEPS = ["write_tokenizer", "write_weights", "conversion_record"]


def here(folder):
    """Everything in a folder, hidden names too."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", STEPS)
def test_a_full_disk_is_one_line_and_leaves_nothing(converted, tmp_path, monkeypatch, step):
    monkeypatch.setattr(convert, step, full)
    with pytest.raises(UserError, match="No space left on device; expected room for it") as caught:
        convert_target(converted.settings, tmp_path / "target")
    assert "\n" not in str(caught.value)
    assert here(tmp_path) == []


@pytest.mark.parametrize("old", [False, True])
def test_another_error_is_no_full_disk_and_keeps_the_old_folder(
    converted, tmp_path, monkeypatch, old
):
    def forbidden(*_):
        raise PermissionError(errno.EACCES, "not allowed")

    if old:
        convert_target(converted.settings, tmp_path / "target")
    monkeypatch.setattr(convert, "write_weights", forbidden)
    with pytest.raises(PermissionError):
        convert_target(converted.settings, tmp_path / "target")
    assert here(tmp_path) == (["target"] if old else [])
    if old:
        load_target(tmp_path / "target")


@pytest.mark.parametrize("name", ["whole.gguf", "model.safetensors"])
def test_a_file_that_may_not_grow_is_told_as_a_full_disk(converted, tmp_path, name):
    """The system itself refuses the GGUF file put together, or only the weights, by MLX."""
    made_of = {"whole.gguf": converted.gguf, "model.safetensors": converted.folder / name}
    limit = made_of[name].stat().st_size - 1
    arguments = (limit, converted.settings, tmp_path / "target")
    assert in_child(convert_with_room_for, *arguments) == NO_ROOM
    assert here(tmp_path) == []


@pytest.mark.parametrize(("step", "old"), [(STEPS[0], False), (STEPS[1], True), (STEPS[2], False)])
def test_a_killed_conversion_is_never_taken_for_a_model(converted, tmp_path, step, old):
    out = tmp_path / "target"
    if old:
        convert_target(converted.settings, out)
    assert in_child(convert_and_die, step, converted.settings, out) == -signal.SIGKILL
    left = [name for name in here(tmp_path) if name != "target"]
    assert [name.partition(".target.")[0] for name in left] == [""]
    if old:
        load_target(out)
    else:
        with pytest.raises(UserError):
            load_target(out)
    convert_target(converted.settings, out)
    assert here(tmp_path) == ["target"]
    load_target(out)


def test_a_conversion_again_takes_the_place_of_the_old_one(converted, tmp_path):
    for _ in range(2):
        convert_target(converted.settings, tmp_path / "target")
        files.write_json(tmp_path / "target" / "config.json", {})
    convert_target(converted.settings, tmp_path / "target")
    assert json.loads((tmp_path / "target" / "config.json").read_text())["vocab_size"] > 300
    assert here(tmp_path) == ["target"]


def test_an_empty_folder_is_filled(converted, tmp_path):
    """Snakemake makes the folders of its outputs."""
    (tmp_path / "target").mkdir()
    convert_target(converted.settings, tmp_path / "target")
    assert here(tmp_path / "target") == sorted(FILES)


def test_a_folder_of_something_else_is_left_alone(converted, tmp_path):
    files.write_text(tmp_path / "target" / "thesis.txt", "years of work")
    with pytest.raises(UserError, match=r"found thesis\.txt; expected an empty folder"):
        convert_target(converted.settings, tmp_path / "target")
    assert here(tmp_path / "target") == ["thesis.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="found a file"):
        convert_target(converted.settings, tmp_path / "file")


def test_what_another_process_is_making_is_not_removed(tmp_path):
    out = tmp_path / "target"
    process = spawned.Process(target=hold, args=(out, FILES, 60))
    process.start()
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob(".target.*/config.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    with whole_folder(out, FILES) as folder:
        (folder / "config.json").write_text('{"by": "us"}')
    assert len(here(tmp_path)) == 2
    process.kill()
    process.join()
    with whole_folder(out, FILES) as folder:
        (folder / "config.json").write_text('{"by": "us again"}')
    assert here(tmp_path) == ["target"]


def test_names_that_look_like_patterns_remove_nothing_else(tmp_path):
    (tmp_path / ".tar1.9.tmp").mkdir()
    with whole_folder(tmp_path / "tar[0-9]", FILES) as folder:
        (folder / "config.json").write_text("{}")
    assert here(tmp_path) == [".tar1.9.tmp", "tar[0-9]"]


def test_a_link_stays_one_and_its_folder_is_made(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    out = tmp_path / "target"
    out.symlink_to(disk / "target")
    for content in ("first", "second"):
        with whole_folder(out, ("a",)) as temporary:
            files.write_text(temporary / "a", content)
        assert (disk / "target/a").read_text() == content
    assert out.is_symlink()
    assert here(tmp_path) == ["disk", "target"] and here(disk) == ["target"]
