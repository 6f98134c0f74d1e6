"""A target is an ordinary model folder, loaded by `mlx_lm.load`."""

import mlx.core as mx
import numpy as np
import pytest

from diffdraft import files
from diffdraft.config import Architecture, load_profile
from diffdraft.errors import UserError
from diffdraft.targets.architecture import build, initialise
from diffdraft.targets.corpus import train_tokenizer
from diffdraft.targets.fingerprint import fingerprint
from diffdraft.targets.load import load_target, noise_high
from diffdraft.targets.random import TINY, IdTokenizer
from diffdraft.training.target import save_folder

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


@pytest.mark.parametrize(("name", "content"), [("model.safetensors", None), ("config.json", b"{}")])
def test_damaged_folder_is_refused(folder, tmp_path, name, content):
    for path in folder[0].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    damaged = tmp_path / name
    damaged.write_bytes(damaged.read_bytes()[:-100] if content is None else content)
    with pytest.raises(UserError) as caught:
        load_target(tmp_path)
    assert caught.value.field == "model folder"
    assert "\n" not in str(caught.value)
