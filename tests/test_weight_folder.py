"""Weight files of a folder: what is missing, left over or twice is named. No model is loaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from diffdraft import files
from diffdraft import weight_folder as module
from diffdraft.errors import UserError

SHARDS = {"model-00001-of-00002.safetensors": "ab", "model-00002-of-00002.safetensors": "c"}
FIRST, SECOND = SHARDS


def write(path, names):
    """A file that holds a byte a name."""
    entries = {
        name: {"dtype": "I8", "shape": [1], "data_offsets": [place, place + 1]}
        for place, name in enumerate(names)
    }
    text = json.dumps(entries).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(len(names)))


def index(folder, where):
    files.write_json(folder / module.INDEX, {"weight_map": where})


@pytest.fixture
def folder(tmp_path):
    for file, names in SHARDS.items():
        write(tmp_path / file, names)
    index(tmp_path, {name: file for file, names in SHARDS.items() for name in names})
    return tmp_path


def stored(folder):
    return module.read_stored(folder, module.named_weights(folder))


def refused(check, folder, told):
    with pytest.raises(UserError) as caught:
        check(folder)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


both = pytest.mark.parametrize("check", [module.check_weights, stored])


def test_shards_with_an_index(folder):
    module.check_weights(folder)
    assert sorted(stored(folder)) == ["a", "b", "c"]


def test_shards_without_an_index_are_counted(folder):
    (folder / module.INDEX).unlink()
    module.check_weights(folder)
    (folder / SECOND).unlink()
    refused(module.check_weights, folder, "weights: found 1 shards; expected 2 shards")


def test_a_single_file_needs_no_index(tmp_path):
    write(tmp_path / module.SINGLE, "a")
    module.check_weights(tmp_path)
    assert list(stored(tmp_path)) == ["a"]


def test_a_file_beside_those_of_the_index(folder):
    write(folder / "model-old.safetensors", "ab")
    assert sorted(stored(folder)) == ["a", "b", "c"]
    refused(module.check_weights, folder, "model-old.safetensors: file: found another file")


def test_no_weights(tmp_path):
    refused(module.check_weights, tmp_path, "weights: found no model*.safetensors")
    refused(stored, tmp_path, f"weights: found neither {module.SINGLE} nor {module.INDEX}")


@both
def test_a_missing_shard(folder, check):
    (folder / SECOND).unlink()
    refused(check, folder, f"{SECOND}: file: found nothing there; expected a shard that")


def test_a_link_to_a_file_that_is_gone(tmp_path):
    (tmp_path / module.SINGLE).symlink_to(tmp_path / "gone")
    refused(module.check_weights, tmp_path, f"{module.SINGLE}: file: found nothing there")


@both
def test_a_tensor_in_two_files(folder, check):
    write(folder / SECOND, "bc")
    refused(check, folder, f"{SECOND}: b: found also in {FIRST}; expected each tensor once")


@both
@pytest.mark.parametrize(("name", "file"), [("d", FIRST), ("a", SECOND)])
def test_a_tensor_that_is_not_where_the_index_says(folder, check, name, file):
    index(folder, {"a": FIRST, "b": FIRST, "c": SECOND, name: file})
    refused(check, folder, f"{file}: {name}: found no such tensor; expected it there")


@both
@pytest.mark.parametrize("name", ["../a.safetensors", "/a.safetensors", "sub/a.safetensors"])
def test_an_index_that_leads_out_of_the_folder(folder, check, name):
    index(folder, {"a": name})
    refused(check, folder, f"weight_map: found {name}; expected names of files in this folder")


@both
@pytest.mark.parametrize("content", [[], {}, {"weight_map": {}}, {"weight_map": {"a": 1}}])
def test_an_index_that_says_nothing(folder, check, content):
    files.write_json(folder / module.INDEX, content)
    refused(check, folder, f"{module.INDEX}: weight_map: found nothing")


@both
def test_an_index_of_names_that_no_file_can_have(folder, check):
    index(folder, {"a": "\0"})
    refused(check, folder, "file: found nothing there")


def test_needs_neither_mlx_nor_numpy():
    told = "import sys, diffdraft.weight_folder; print({'mlx', 'numpy'} & set(sys.modules))"
    scripts = Path(module.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=scripts, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
