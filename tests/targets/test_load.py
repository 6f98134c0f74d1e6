"""A target is an ordinary model folder, loaded by `mlx_lm.load`."""

import json

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from diffdraft import files
from diffdraft.config import Architecture, load_profile
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import REQUIRED, load_adapter, save_adapter
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.measure.divergence import DivergenceAudit
from diffdraft.target_record import described_settings
from diffdraft.targets.architecture import build, initialise
from diffdraft.targets.corpus import train_tokenizer
from diffdraft.targets.fingerprint import fingerprint
from diffdraft.targets.load import DTYPES, cast_weights, load_target, noise_high, target_of
from diffdraft.targets.random import TINY, IdTokenizer
from diffdraft.training.target import save_folder
from tests.decoding import parts

SETTINGS = load_profile("config/profiles/tiny.yaml").target


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    corpus, out = tmp_path_factory.mktemp("corpus"), tmp_path_factory.mktemp("target")
    tokenizer = train_tokenizer(["in the beginning was the word " * 50], 270)
    files.write_text(corpus / "tokenizer.json", tokenizer.to_str())
    files.write_json(
        corpus / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"},
    )
    architecture = Architecture(**{**TINY, "vocab_size": 270})
    settings = SETTINGS.model_copy(update={"architecture": architecture})
    model = build(architecture.model_dump())
    initialise(model, 1, 0.2)
    save_folder(model, settings, corpus, out)
    return out, model


def test_saved_folder_loads_as_the_same_model(folder):
    out, model = folder
    target = load_target(out)
    ids = mx.array([[5, 6, 7, 8]])
    assert type(target.model).__module__ == "mlx_lm.models.qwen3_5"
    assert mx.array_equal(target.model(ids), model(ids))
    assert target.fingerprint == fingerprint(model)
    assert target.tokenizer.decode(target.tokenizer.encode("the word")) == "the word"
    assert target.noise_high == 270  # the end token has id 0, so the vocabulary is the bound


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_incomplete_folder_is_refused(folder, tmp_path, missing):
    for path in folder[0].iterdir():
        if path.name != missing:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(UserError, match="safetensors" if "model" in missing else missing):
        load_target(tmp_path)


def test_other_settings_than_the_folder_was_made_with_are_refused(folder, tmp_path):
    for path in folder[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    files.write_json(tmp_path / "training.json", {"files": described_settings(tmp_path)})
    load_target(tmp_path)
    config = json.loads(files.read_text(tmp_path / "config.json"))
    files.write_json(tmp_path / "config.json", {**config, "rms_norm_eps": 0.001})
    with pytest.raises(UserError, match=r"config.json: sha256: found .* as training.json has it"):
        load_target(tmp_path)


def test_every_fourth_layer_is_full_attention():
    model = build(SETTINGS.architecture.model_dump())
    assert [layer.is_linear for layer in model.layers] == [True, True, True, False]


def test_initial_decay_lets_the_model_remember():
    model = build(TINY)
    initialise(model, 1, 0.02)
    layer = model.layers[0].linear_attn
    step = np.log1p(np.exp(np.array(layer.dt_bias)))  # softplus
    assert np.all((step > 0.99e-3) & (step < 0.101))
    rate = np.exp(np.array(layer.A_log))
    assert np.all((rate > 0.99) & (rate < 16.1))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ({"mask_token_id": 50, "eos_token_id": 9}, 50),
        ({"mask_token_id": None, "pad_token_id": 40}, 40),
        ({"eos_token_id": 0}, 61),
        ({"eos_token_id": 1}, 61),
        ({"eos_token_id": 100}, 61),
    ],
)
def test_noise_bound_follows_the_special_tokens(ids, expected):
    tokenizer = IdTokenizer()
    for name in ("mask_token_id", "pad_token_id", "eos_token_id"):
        setattr(tokenizer, name, ids.get(name))
    assert noise_high(tokenizer, 61) == expected


def weights(model):
    return dict(tree_flatten(model.parameters()))


def test_cast_target_is_the_same_target_in_other_arithmetic(folder):
    out, model = folder
    source, cast = load_target(out), load_target(out, "bfloat16")
    for name, tensor in weights(cast.model).items():
        original = weights(model)[name]
        kept = name.endswith("A_log")
        assert tensor.dtype == (mx.float32 if kept else mx.bfloat16), name
        assert mx.array_equal(tensor, original.astype(tensor.dtype)), name
    assert any(name.endswith("A_log") for name in weights(cast.model))
    assert cast.model(mx.array([[5, 6, 7]])).dtype == mx.bfloat16
    # What an adapter is bound to is the target of the folder, in whatever dtype it runs.
    assert cast.fingerprint == source.fingerprint == source.loaded_fingerprint
    assert cast.loaded_fingerprint == fingerprint(cast.model) != cast.fingerprint


def test_cast_to_the_dtype_it_has_changes_no_bit(folder):
    out, model = folder
    target = load_target(out, "float32")
    assert target.loaded_fingerprint == target.fingerprint == fingerprint(model)


@pytest.mark.parametrize("dtype", [None, *DTYPES])
def test_moved_weights_are_noticed_in_every_dtype(folder, dtype):
    target = load_target(folder[0], dtype)
    target.check_unchanged()
    norm = target.model.language_model.model.norm
    norm.weight = norm.weight + mx.ones_like(norm.weight)
    with pytest.raises(RuntimeError, match="target weights changed"):
        target.check_unchanged()


def test_adapter_fits_a_cast_target_and_stays_float32(folder, tmp_path):
    out, _ = folder
    source = load_target(out)
    spec = AdapterSpec(2, 4.0, 0.1, ("attention", "mlp"), seed=1)
    adapter = Adapter.attach(source.model, spec)
    metadata = dict.fromkeys(REQUIRED, "1") | {"target_fingerprint": source.fingerprint}
    save_adapter(tmp_path / "adapter.safetensors", adapter, metadata)
    cast = load_target(out, "bfloat16")
    loaded = load_adapter(cast.model, cast.fingerprint, tmp_path / "adapter.safetensors")
    assert {tensor.dtype for tensor in loaded.tensors.values()} == {mx.float32}
    cast.check_unchanged()
    cast_weights(cast.model, "bfloat16")  # also after it was attached
    assert {tensor.dtype for tensor in loaded.tensors.values()} == {mx.float32}
    with loaded.rows(mx.ones((1, 3))):
        assert cast.model(mx.array([[5, 6, 7]])).dtype == mx.bfloat16


def test_adapter_of_another_target_is_refused_by_a_cast_one(folder, tmp_path):
    cast = load_target(folder[0], "bfloat16")
    adapter = Adapter.attach(cast.model, AdapterSpec(2, 4.0, 0.1, ("mlp",), seed=1))
    # The cast weights' own digest names no target.
    metadata = dict.fromkeys(REQUIRED, "1") | {"target_fingerprint": cast.loaded_fingerprint}
    save_adapter(tmp_path / "adapter.safetensors", adapter, metadata)
    again = load_target(folder[0], "bfloat16")
    with pytest.raises(UserError, match="It belongs to another target"):
        load_adapter(again.model, again.fingerprint, tmp_path / "adapter.safetensors")


def test_drafted_text_in_bfloat16_is_the_native_one(folder):
    target = load_target(folder[0], "bfloat16")
    adapter = parts.randomise(parts.Adapter.attach(target.model, parts.SPEC))
    native = parts.native(target, parts.PROMPT, 12).tokens
    drafted = parts.uno(target, adapter, 4, parts.PROMPT, 12).tokens
    audit = DivergenceAudit(target.model, 1.0001).row(parts.PROMPT, native, drafted)
    assert audit is None or (audit["within_one_ulp"] and audit["near_maximum"])
    assert len(set(native)) > 3


@pytest.mark.parametrize("load", [load_target, lambda folder, dtype: target_of(None, None, dtype)])
def test_unknown_dtype_is_refused(folder, load):
    with pytest.raises(UserError, match="found float16; expected float32 or bfloat16"):
        load(folder[0], "float16")
