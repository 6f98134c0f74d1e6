"""A model folder that is not whole is refused in one line, for each architecture of targets."""

import json
import shutil

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models import gemma3_text, qwen3

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.layers.tensors import save_tensors
from diffdraft.targets.architecture import build, initialise, model_config
from diffdraft.targets.corpus import train_tokenizer
from diffdraft.targets.load import load_target
from diffdraft.targets.random import TINY
from diffdraft.weight_folder import INDEX
from tests.decoding import plain_models

VOCABULARY = 270
SHARDS = 2
SHAPE = {**plain_models.SHAPE, "vocab_size": VOCABULARY}


def qwen3_5_model():
    text = {**TINY, "vocab_size": VOCABULARY}
    return build(text), model_config(text)


def gemma3_model():
    config = {"model_type": "gemma3_text", **SHAPE, "query_pre_attn_scalar": 16}
    config |= {"sliding_window": 8, "sliding_window_pattern": 2}
    return gemma3_text.Model(gemma3_text.ModelArgs.from_dict(config)), config


def qwen3_model():
    config = {"model_type": "qwen3", **SHAPE, "rope_theta": 1e4, "tie_word_embeddings": False}
    return qwen3.Model(qwen3.ModelArgs.from_dict(config)), config


MODELS = {"qwen3_5": qwen3_5_model, "gemma3_text": gemma3_model, "qwen3": qwen3_model}


def shard(n):
    return f"model-{n:05d}-of-{SHARDS:05d}.safetensors"


class Folder:
    """A model folder in two shards with an index, and its tensors."""

    def __init__(self, path, make):
        self.path = path
        model, config = make()
        initialise(model, 1, 0.2)
        self.tensors = dict(tree_flatten(model.parameters()))
        tokenizer = train_tokenizer(["in the beginning was the word " * 50], VOCABULARY)
        files.write_text(path / "tokenizer.json", tokenizer.to_str())
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
        files.write_json(path / "tokenizer_config.json", settings)
        files.write_json(path / "config.json", config)
        self.names = sorted(self.tensors)
        self.write()

    def write(self):
        """Write the shards and an index of all tensors."""
        where = {name: shard(1 + i % SHARDS) for i, name in enumerate(self.names)}
        for n in range(1, SHARDS + 1):
            held = {name: self.tensors[name] for name in self.names if where[name] == shard(n)}
            save_tensors(self.path / shard(n), held, {"format": "mlx"})
        files.write_json(self.path / INDEX, {"metadata": {}, "weight_map": where})

    def change(self, name, tensor):
        """Replace a tensor, add it, or drop it (None), and write all again."""
        self.tensors = {**self.tensors, name: tensor}
        if tensor is None:
            del self.tensors[name]
        self.names = sorted(self.tensors)
        self.write()

    def file_of(self, name):
        return self.path / json.loads((self.path / INDEX).read_text())["weight_map"][name]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return {kind: Folder(tmp_path_factory.mktemp(kind), make) for kind, make in MODELS.items()}


@pytest.fixture(params=sorted(MODELS))
def folder(request, made, tmp_path):
    original = made[request.param]
    copy = object.__new__(Folder)
    copy.path = shutil.copytree(original.path, tmp_path / "model")
    copy.tensors, copy.names = dict(original.tensors), list(original.names)
    return copy


def refused(folder, *told):
    with pytest.raises(UserError) as caught:
        load_target(folder.path)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 600
    for text in told:
        assert text in line
    return line


def test_a_whole_folder_in_shards_is_loaded(folder):
    loaded = dict(tree_flatten(load_target(folder.path).model.parameters()))
    assert set(loaded) == set(folder.tensors)
    assert all(mx.array_equal(loaded[name], folder.tensors[name]) for name in loaded)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_missing_file_is_named(folder, name):
    (folder.path / name).unlink()
    refused(folder, f"{name}: file: found nothing there")


def test_no_weights(folder):
    for path in folder.path.glob("*.safetensors*"):
        path.unlink()
    save_tensors(folder.path / "weights.safetensors", folder.tensors, {})
    refused(folder, "found no model*.safetensors")


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("index", [True, False])
def test_a_missing_shard(folder, n, index):
    (folder.path / shard(n)).unlink()
    if index:
        refused(folder, f"{shard(n)}: file: found nothing there", INDEX)
    else:
        (folder.path / INDEX).unlink()
        refused(folder, "found 1 shards; expected 2 shards")


def test_no_shard_at_all(folder):
    for path in folder.path.glob("*.safetensors"):
        path.unlink()
    refused(folder, f"{shard(1)}: file: found nothing there")


def test_a_readout_that_is_missing_from_its_shard_is_not_taken_for_a_tied_one(folder):
    name = next(name for name in folder.names if name.endswith("lm_head.weight") or "norm" in name)
    file = folder.file_of(name)
    held = {k: v for k, v in mx.load(str(file)).items() if k != name}
    save_tensors(file, held, {})
    refused(folder, f"{file.name}: {name}: found no such tensor", INDEX)


def test_a_stale_file_beside_the_shards(folder):
    save_tensors(folder.path / "model-old.safetensors", folder.tensors, {})
    refused(folder, "model-old.safetensors: file: found another file of weights", "only the 2")


def test_a_tensor_in_two_files(folder):
    (folder.path / INDEX).unlink()
    for n in (1, 2):
        (folder.path / shard(n)).rename(folder.path / f"model_{n}.safetensors")
    name = folder.names[0]
    save_tensors(folder.path / "model_3.safetensors", {name: folder.tensors[name]}, {})
    refused(folder, f"model_3.safetensors: {name}: found also in model_1.safetensors")


@pytest.mark.parametrize("keep", [0, 5, 8, 100, 2000, -100, -1])
def test_a_shard_that_was_cut(folder, keep):
    path = folder.path / shard(2)
    path.write_bytes(path.read_bytes()[:keep])
    refused(folder, shard(2), "; expected ")


def test_a_shard_that_is_too_long(folder):
    path = folder.path / shard(1)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"more")
    refused(folder, f"{shard(1)}: bytes: found {size + 4}; expected {size}, as its header says")


@pytest.mark.parametrize(
    "header", [b"{", b"[]", b"7", b'{"a": 1}', b'{"a": {"data_offsets": ["x", "y"]}}', b"\xff"]
)
def test_a_header_that_says_nothing(folder, header):
    path = folder.path / shard(1)
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
    refused(folder, f"{shard(1)}: file: found no readable header")


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": {"a": 1}}'])
def test_an_index_that_says_nothing(folder, content):
    files.write_text(folder.path / INDEX, content)
    refused(folder, INDEX)


def test_a_missing_tensor(folder):
    name = next(name for name in folder.names if name.endswith("model.norm.weight"))
    folder.change(name, None)
    refused(folder, "Missing 1 parameters", name)


def test_a_left_over_tensor(folder):
    prefix = "language_model." if "language_model" in folder.names[0] else ""
    folder.change(f"{prefix}model.more.weight", mx.zeros((3,)))
    refused(folder, "parameters not in model", "model.more.weight")


def test_another_shape(folder):
    name = next(name for name in folder.names if name.endswith("down_proj.weight"))
    folder.change(name, mx.zeros((5, 7)))
    refused(folder, "received shape (5, 7)", name)


def test_fewer_layers_than_the_weights_have(folder):
    config = json.loads((folder.path / "config.json").read_text())
    config.get("text_config", config)["num_hidden_layers"] = 2
    files.write_json(folder.path / "config.json", config)
    refused(folder, "parameters not in model")


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "no_such_model"},
        {"hidden_size": "wide"},
        {"hidden_size": None},
        {"num_key_value_heads": 0},
        {"eos_token_id": "end"},
    ],
)
def test_a_config_that_fits_no_model(folder, change):
    config = json.loads((folder.path / "config.json").read_text())
    inside = "text_config" in config and "model_type" not in change
    (config["text_config"] if inside else config).update(change)
    files.write_json(folder.path / "config.json", config)
    refused(folder, "model folder")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["{", "[]", "\x00"])
def test_files_that_hold_something_else(folder, name, content):
    files.write_text(folder.path / name, content)
    refused(folder, "model folder" if name == "tokenizer.json" else name)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("field", ["model_file", "auto_map"])
def test_code_beside_the_weights_is_never_asked_for(folder, name, field):
    path = folder.path / name
    settings = json.loads(path.read_text()) if path.is_file() else {}
    files.write_json(path, {**settings, field: {"AutoTokenizer": ["code.T", None]}})
    refused(folder, f"{name}: {field}: found ", "expected no code beside the weights")
