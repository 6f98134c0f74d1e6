"""Headers of weight files: read as they were written, or refused in one line."""

import json
import struct

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft import weight_files as module
from diffdraft.errors import UserError

JSON = st.recursive(
    st.none() | st.integers(-9, 99) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
ENTRY_OF_FIVE = {"dtype": "I8", "shape": [5], "data_offsets": [0, 5]}
ENTRY = st.fixed_dictionaries({"dtype": JSON, "shape": JSON, "data_offsets": JSON})


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("weights") / "model.safetensors"


def write(path, header, data=b""):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_header_is_that_of_the_tensors(path):
    tensors = {"a": mx.zeros((2, 3), mx.bfloat16), "b": mx.zeros(5)}
    mx.save_safetensors(str(path), tensors, {"of": "a test"})
    assert module.read_header(path) == {
        "a": module.Stored("BF16", (2, 3), 12),
        "b": module.Stored("F32", (5,), 20),
    }
    assert module.read_metadata(path) == {"of": "a test"}
    assert module.parameters(module.read_header(path)) == 11
    assert module.main_dtype(module.read_header(path)) == "F32"


@given(kept=st.integers(0, 400), more=st.binary(max_size=3))
def test_a_file_of_another_length_is_refused(path, kept, more):
    mx.save_safetensors(str(path), {"a": mx.zeros(40)})
    whole = path.read_bytes()
    path.write_bytes(whole[:kept] + more)
    if path.stat().st_size == len(whole):
        return
    with pytest.raises(UserError):
        module.read_header(path)


@given(header=JSON | st.dictionaries(st.text(max_size=3), ENTRY))
def test_whatever_a_header_holds_it_is_read_or_refused(path, header):
    write(path, header)
    module.read_metadata(path)
    try:
        stored = module.read_header(path)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        module.parameters(stored), module.main_dtype(stored)


def test_nesting_without_end(path):
    text = b"[" * 100_000
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    assert module.read_metadata(path) == {}
    with pytest.raises(UserError, match="no readable header"):
        module.read_header(path)


@pytest.mark.parametrize(
    "entry", [{"data_offsets": [0, 1e999]}, {"shape": [1e999]}, {"data_offsets": [0]}]
)
def test_numbers_that_are_none(path, entry):
    write(path, {"a": ENTRY_OF_FIVE | entry}, bytes(5))
    with pytest.raises(UserError, match="no readable header"):
        module.read_header(path)


def test_digits_in_quotes_are_held_to_the_length(path):
    write(path, {"a": ENTRY_OF_FIVE | {"data_offsets": ["0", "5"]}}, bytes(4))
    with pytest.raises(UserError, match=r"bytes: found \d+; expected \d+, as its header says"):
        module.read_header(path)


def test_a_missing_file(tmp_path):
    assert module.read_metadata(tmp_path / "none") == {}
    with pytest.raises(UserError, match="none: file: found nothing there"):
        module.read_header(tmp_path / "none")
