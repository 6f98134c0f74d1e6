"""The gated adapter: where it acts, what it counts, what its files refuse."""

import json

import mlx.core as mx
import numpy as np
import pytest

from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import load_adapter, save_adapter
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.layers.tensors import load_tensors, save_tensors
from diffdraft.targets.architecture import build
from diffdraft.targets.fingerprint import fingerprint
from diffdraft.targets.random import make_tiny_random

PUBLISHED = ("attention", "mlp")
EVERYWHERE = ("attention", "mlp", "delta_net")
QWEN35_4B = {
    "hidden_size": 2560,
    "intermediate_size": 9216,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 248320,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "tie_word_embeddings": True,
}


def spec(placement=EVERYWHERE, rank=4):
    return AdapterSpec(rank, 8.0, 0.2, placement, seed=1)


def randomise(adapter):
    for name, tensor in adapter.tensors.items():
        adapter.assign({name: 0.3 * mx.ones_like(tensor) * (1 + len(name) % 3)})
    return adapter


def ids(rows=9):
    return mx.random.randint(1, 60, (2, rows), key=mx.random.key(0))


def metadata(target):
    return {
        "study": "rprm",
        "arm": "primary",
        "step": 3,
        "seed": 1,
        "block_size": 4,
        "config_hash": "c0",
        "target_fingerprint": target.fingerprint,
    }


def test_published_placement_counts_21233664_on_the_4b_shapes():
    model = build(QWEN35_4B)  # lazy: nothing here is ever evaluated
    adapter = Adapter.attach(model, AdapterSpec(16, 256.0, 0.01, PUBLISHED, seed=0))
    assert len(adapter.modules) == 128
    assert len(adapter.tensors) == 256
    assert adapter.n_parameters == 21_233_664
    attention = [m for name, m in adapter.modules.items() if "self_attn" in name]
    assert sum(m.lora_a.size + m.lora_b.size for m in attention) == 3_145_728


def test_untrained_adapter_is_a_bit_exact_no_op():
    target = make_tiny_random(1)
    before = target.model(ids())
    adapter = Adapter.attach(target.model, spec())
    with adapter.rows(mx.ones((2, 9))):
        assert mx.array_equal(target.model(ids()), before)


def test_rows_before_the_gate_are_untouched_bit_for_bit():
    target = make_tiny_random(1)
    before = target.model(ids())
    adapter = randomise(Adapter.attach(target.model, spec()))
    gate = mx.broadcast_to(mx.arange(9) > 4, (2, 9)).astype(mx.float32)
    with adapter.rows(gate):
        gated = target.model(ids())
    assert mx.array_equal(gated[:, :5], before[:, :5])
    assert not mx.allclose(gated[:, 5:], before[:, 5:])
    assert mx.array_equal(target.model(ids()), before)  # off again


def test_update_follows_the_formula():
    target = make_tiny_random(1)
    adapter = randomise(Adapter.attach(target.model, spec(PUBLISHED)))
    module = adapter.modules["layers.3.self_attn.q_proj"]
    x = mx.random.normal((1, 3, 32), key=mx.random.key(3))
    with adapter.rows(mx.array([[1.0, 0.0, 1.0]])):
        y = module(x)
    low_rank = np.array(x) @ np.array(module.lora_a) @ np.array(module.lora_b)
    expected = np.array(module.base(x)) + np.array([[[1], [0], [1]]]) * (8.0 / 4) * low_rank
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_gate_of_another_shape_is_an_error():
    target = make_tiny_random(1)
    adapter = Adapter.attach(target.model, spec())
    with adapter.rows(mx.ones((1, 9))), pytest.raises(ValueError, match="gate has shape"):
        target.model(ids())


def test_only_the_adapter_is_trainable_and_the_fingerprint_stays():
    target = make_tiny_random(1)
    adapter = randomise(Adapter.attach(target.model, spec()))
    from mlx.utils import tree_flatten

    trainable = [name for name, _ in tree_flatten(target.model.trainable_parameters())]
    assert len(trainable) == len(adapter.tensors)
    assert all(name.endswith(("lora_a", "lora_b")) for name in trainable)
    assert fingerprint(target.model) == target.fingerprint


def test_fingerprint_sees_one_changed_weight():
    target = make_tiny_random(1)
    norm = target.model.model.norm
    norm.weight = norm.weight + mx.array([1e-6] + [0.0] * 31)
    assert fingerprint(target.model) != target.fingerprint
    with pytest.raises(RuntimeError, match="target weights changed"):
        target.check_unchanged()


def test_file_round_trip(tmp_path):
    target = make_tiny_random(1)
    adapter = randomise(Adapter.attach(target.model, spec()))
    save_adapter(tmp_path / "a.safetensors", adapter, metadata(target))
    again = make_tiny_random(1)
    loaded = load_adapter(again.model, again.fingerprint, tmp_path / "a.safetensors")
    assert loaded.spec == adapter.spec
    for name, tensor in adapter.tensors.items():
        assert mx.array_equal(loaded.tensors[name], tensor)


@pytest.fixture
def saved(tmp_path):
    target = make_tiny_random(1)
    path = tmp_path / "a.safetensors"
    save_adapter(path, Adapter.attach(target.model, spec()), metadata(target))
    return path


def refuse(path, expected_field, **kwargs):
    target = kwargs.pop("target", None) or make_tiny_random(1)
    with pytest.raises(UserError) as caught:
        load_adapter(target.model, target.fingerprint, path, **kwargs)
    assert caught.value.field == expected_field
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_target_is_refused(saved):
    refuse(saved, "metadata.target_fingerprint", target=make_tiny_random(2))


def test_truncated_file_is_refused(saved):
    saved.write_bytes(saved.read_bytes()[:-100])
    refuse(saved, "file")


def test_not_safetensors_is_refused(saved):
    saved.write_bytes(b"not a tensor file at all")
    refuse(saved, "file")


def test_wrong_hash_is_refused(saved):
    refuse(saved, "sha256", sha256="0" * 64)


def test_other_rank_is_refused(saved):
    tensors, meta = load_tensors(saved)
    meta["spec"] = json.dumps({**json.loads(meta["spec"]), "rank": 8})
    save_tensors(saved, tensors, meta)
    refuse(saved, "layers.0.linear_attn.in_proj_qkv.lora_a")


@pytest.mark.parametrize("spoil", [lambda x: x.astype(mx.int32), lambda x: x * float("nan")])
def test_what_is_no_finite_number_is_refused(saved, spoil):
    tensors, meta = load_tensors(saved)
    name = sorted(tensors)[0]
    save_tensors(saved, {**tensors, name: spoil(tensors[name])}, meta)
    refuse(saved, name)


def test_missing_metadata_is_refused(saved):
    tensors, meta = load_tensors(saved)
    del meta["step"]
    save_tensors(saved, tensors, meta)
    refuse(saved, "metadata.step")


@pytest.mark.parametrize(
    "text",
    ["no JSON", "[]", "{}", '{"rank": 4, "placement": 3}', '{"size": 4, "placement": []}'],
)
def test_a_malformed_spec_is_refused(saved, text):
    tensors, meta = load_tensors(saved)
    save_tensors(saved, tensors, {**meta, "spec": text})
    refuse(saved, "metadata.spec")


@pytest.mark.parametrize(
    "change",
    [
        {"rank": 0},
        {"rank": 2.5},
        {"rank": "4"},
        {"alpha": "x"},
        {"alpha": float("nan")},
        {"init_std": None},
        {"placement": "mlp"},
        {"placement": []},
        {"placement": ["head"]},
        {"seed": 1.5},
        {"more": 1},
    ],
)
def test_a_spec_with_another_value_is_refused(saved, change):
    tensors, meta = load_tensors(saved)
    spec = json.loads(meta["spec"])
    save_tensors(saved, tensors, {**meta, "spec": json.dumps({**spec, **change})})
    refuse(saved, "metadata.spec")
