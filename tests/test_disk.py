"""A full disk is one line, whichever library met it; the system itself refuses the bytes here."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from diffdraft import disk
from diffdraft.errors import UserError

LIMIT = 5000  # bytes; of the array, whose file has 128 + 8 * 613, only the last few find no room
WRITERS = """
import resource, sys
from pathlib import Path
import mlx.core as mx, numpy as np
from diffdraft import files
from diffdraft.arrays import save_array
from diffdraft.errors import UserError
from diffdraft.layers.tensors import save_tensors
folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
for name, write in {
    "text": lambda path: files.write_text(path, "x" * 6000),
    "array": lambda path: save_array(path, np.zeros(613)),
    "a.safetensors": lambda path: save_tensors(path, {"a": mx.zeros(2000)}, {}),
}.items():
    try:
        write(folder / name)
    except UserError as error:
        print(error)
"""


def test_every_writer_tells_it_and_leaves_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WRITERS, str(tmp_path), str(LIMIT)],
        cwd=Path(disk.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    for name, line in zip(("text", "array", "a.safetensors"), lines, strict=True):
        assert line.startswith(f"{tmp_path / name}: disk: found ")
        assert line.endswith("; expected room for it")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_the_line_says_what_the_system_said(number):
    with (
        pytest.raises(UserError, match=f"out: disk: found {os.strerror(number)}; expected room"),
        disk.full_disk_told("out"),
    ):
        raise OSError(number, os.strerror(number))


@pytest.mark.parametrize("error", [PermissionError(errno.EACCES, "no"), RuntimeError("[load] no")])
def test_another_error_stays_itself(error):
    with pytest.raises(type(error)) as caught, disk.full_disk_told("out"):
        raise error
    assert caught.value is error


def test_room_is_looked_for_where_the_folder_will_be(tmp_path, monkeypatch):
    asked = []

    def usage(path):
        asked.append(path)
        return SimpleNamespace(free=10)

    monkeypatch.setattr(disk.shutil, "disk_usage", usage)
    disk.check_room(tmp_path / "a/b", 10)
    with pytest.raises(UserError, match=r"b: disk: found 0\.0 GB free"):
        disk.check_room(tmp_path / "a/b", 11)
    assert asked == [tmp_path, tmp_path]
