import json
import struct
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.layers import adapter_layouts as module
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.layers.tensors import load_tensors
from diffdraft.targets.architecture import build
from diffdraft.targets.random import TINY
from diffdraft.training.adapter import adapter_spec

PROFILE = Path(__file__).resolve().parents[2] / "config/profiles/qwen35_4b.yaml"


def adapter_of(sizes, spec):
    """An adapter with both factors drawn; the model's own weights stay unmade."""
    adapter = Adapter.attach(build(sizes), spec)
    keys = mx.random.split(mx.random.key(1), len(adapter.tensors))
    drawn = zip(adapter.tensors.items(), keys, strict=True)
    adapter.assign({name: mx.random.normal(t.shape, key=key) for (name, t), key in drawn})
    return adapter


def small(*placement):
    return adapter_of(TINY, AdapterSpec(3, 6.0, 0.1, placement, 1))


def test_adapter_of_the_4b_has_the_published_size(tmp_path):
    """84,966,094 bytes, 256 tensors, 128 modules, 21,233,664 parameters, as published."""
    profile = load_profile(PROFILE)
    model = build(profile.target.architecture.model_dump())
    adapter = Adapter.attach(model, adapter_spec(profile.adapters["primary"]))
    assert adapter.n_parameters == 21_233_664
    assert (len(adapter.modules), len(adapter.tensors)) == (128, 256)
    path = tmp_path / "adapter.safetensors"
    module.write_published(path, adapter.tensors)
    assert path.stat().st_size == profile.target.drafter.bytes == 84_966_094
    (length,) = struct.unpack("<Q", path.open("rb").read(8))
    assert length == 84_966_094 - 8 - 4 * 21_233_664 == 31_430


def test_names_are_those_of_the_mlx_lm_model(tmp_path):
    """The published names are the model's own: its trainable parameters, flattened."""
    adapter = small("attention", "mlp")
    module.write_published(tmp_path / "a.safetensors", adapter.tensors)
    stored, metadata = load_tensors(tmp_path / "a.safetensors")
    assert set(stored) == {name for name, _ in tree_flatten(adapter.model.trainable_parameters())}
    assert metadata == {}


def test_what_is_written_reads_back(tmp_path):
    adapter, path = small("attention", "mlp"), tmp_path / "a.safetensors"
    module.write_published(path, adapter.tensors)
    tensors = module.own_names(path, load_tensors(path)[0])
    assert set(tensors) == set(adapter.tensors)
    assert all(mx.array_equal(tensors[name], t) for name, t in adapter.tensors.items())
    assert module.placement_of(path, tensors) == ("attention", "mlp")
    assert module.rank_of(path, tensors) == 3


def test_header_is_as_mlx_writes_it(tmp_path):
    """MLX's own file of the same tensors has the same entries, apart from the order of the data."""
    adapter = small("mlp")
    named = {module.PREFIX + name: tensor for name, tensor in adapter.tensors.items()}
    mx.save_safetensors(str(tmp_path / "mlx.safetensors"), named)
    module.write_published(tmp_path / "ours.safetensors", adapter.tensors)
    headers = []
    for name in ("mlx", "ours"):
        data = (tmp_path / f"{name}.safetensors").read_bytes()
        text = data[8 : 8 + struct.unpack("<Q", data[:8])[0]]
        header = json.loads(text)
        assert json.dumps(header, separators=(",", ":")).encode() == text
        headers.append({key: value and value["shape"] for key, value in header.items()})
    assert list(headers[0].items()) == list(headers[1].items())


def test_no_place_for_a_delta_net(tmp_path):
    adapter = small("attention", "delta_net")
    with pytest.raises(UserError, match=r"linear_attn.*expected attention and mlp"):
        module.write_published(tmp_path / "a.safetensors", adapter.tensors)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["layers.0.mlp.up_proj.lora_a", f"{module.PREFIX}norm.weight"])
def test_tensors_of_something_else(name):
    with pytest.raises(UserError, match=f"found {name}; expected language_model.model.layers"):
        module.own_names(Path("a"), {name: mx.zeros((2, 2))})


@pytest.mark.parametrize("name", ["layers.0.experts.up.lora_a", "layers.0.lora_a"])
def test_adapter_in_another_place(name):
    with pytest.raises(UserError, match="expected self_attn or mlp or linear_attn"):
        module.placement_of(Path("a"), {name: mx.zeros((2, 2))})


@pytest.mark.parametrize(
    ("a", "b", "found"), [((4, 2), (3, 4), "2, 3"), ((4, 2), (2,), "2"), ((4,), (4,), "none")]
)
def test_factors_of_no_one_rank(a, b, found):
    tensors = {"x.lora_a": mx.zeros(a), "x.lora_b": mx.zeros(b)}
    with pytest.raises(UserError, match=f"rank: found {found}; expected one rank"):
        module.rank_of(Path("a"), tensors)
