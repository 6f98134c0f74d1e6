"""The corpus that a target writes itself."""

import json

import numpy as np
import pytest

import diffdraft.targets  # noqa: F401  (sets BLAS up before MLX is imported)

# isort: split
import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from diffdraft.config import SampledCorpus, SampleSize
from diffdraft.decoding.native import decode_native
from diffdraft.errors import UserError
from diffdraft.layers.cached import next_logits
from diffdraft.targets import sampled
from diffdraft.targets.random import IdTokenizer, make_tiny_random
from diffdraft.targets.sampled import documents, sample_corpus
from diffdraft.targets.writing import sample, write
from tests.decoding.plain_models import make_gemma3

SPLITS = {
    "train": {"documents": 5, "tokens": 20, "sampled": 6},
    "dev": {"documents": 2, "tokens": 20, "sampled": 6},
    "extract": {"documents": 3, "tokens": 24, "sampled": 24},
    "prompts": {"documents": 2, "tokens": 16, "sampled": 16},
}


class StartTokenizer(IdTokenizer):
    """Puts id 2 in front of every text, as Gemma's does its `<bos>`."""

    bos_token_id = 2

    def encode(self, text):
        return [2, *super().encode(text)]


def target():
    """A Gemma whose windows of 8 rows the documents slide through."""
    made = make_gemma3(3)
    made.tokenizer = StartTokenizer()
    return made


def settings(**changes):
    return SampledCorpus.model_validate(
        {"openings": ["3 4 5", "7"], "splits": SPLITS, "seed": 11, **changes}
    )


def test_a_split_that_is_missing():
    with pytest.raises(ValueError, match="found train, dev, extract; expected train, dev"):
        settings(splits={name: size for name, size in SPLITS.items() if name != "prompts"})


@pytest.mark.parametrize("make", [make_gemma3, make_tiny_random])
def test_forward_equals_mlx_lm_step_by_step(make):
    model = make(2).model
    ids = mx.random.randint(1, 60, (3, 20), key=mx.random.key(1))
    ours, theirs = make_prompt_cache(model), make_prompt_cache(model)
    for rows in (ids[:, :5], *(ids[:, [place]] for place in range(5, 20))):
        expected = model(rows, cache=theirs)[:, -1]
        np.testing.assert_allclose(next_logits(model, rows, ours), expected, atol=2e-4)


def test_greedy_text_follows_the_sampled():
    """Each text on its own, decoded natively, from where sampling ends."""
    model = target().model
    texts = documents(model, [[2, 3, 4, 5], [2, 7]], SampleSize(**SPLITS["train"]), key=1)
    assert texts.shape == (2, 20)
    assert texts[0, :4].tolist() == [2, 3, 4, 5] and texts[1, :2].tolist() == [2, 7]
    for text in texts.tolist():
        assert text[6:] == decode_native(model, text[:6], 14, ()).tokens


def test_no_text_depends_on_the_opening_beside_it():
    model, size = target().model, SampleSize(**SPLITS["extract"])
    first = documents(model, [[2, 3], [2, 7]], size, key=1)
    second = documents(model, [[2, 9, 9, 9], [2, 7]], size, key=1)
    assert first[1].tolist() == second[1].tolist()
    assert first[0].tolist() != second[0].tolist()


def test_sampling_has_the_probabilities_of_the_softmax():
    logits = np.log(np.array([0.5, 0.0, 0.3, 0.2]) + 1e-30)
    drawn = sample(np.tile(logits, (20_000, 1)), np.random.default_rng(0))
    shares = np.bincount(drawn, minlength=4) / len(drawn)
    np.testing.assert_allclose(shares, [0.5, 0.0, 0.3, 0.2], atol=0.015)
    assert shares[1] == 0


def test_texts_that_are_long_enough_are_returned_as_they_are():
    ids = np.array([[2, 3, 4]])
    assert write(target().model, ids, 3, lambda *_: pytest.fail("nothing to choose")).tolist() == [
        [2, 3, 4]
    ]


def test_streams_and_record(tmp_path):
    made = target()
    sample_corpus(settings(), made, tmp_path, tmp_path / "work")
    for name, size in SPLITS.items():
        stream = np.load(tmp_path / f"{name}.npy")
        assert stream.dtype == np.int32
        texts = stream.reshape(size["documents"], size["tokens"])
        assert texts[:, :2].tolist() == [[2, 3], [2, 7]] * (len(texts) // 2) + [[2, 3]] * (
            len(texts) % 2
        )
    record = json.loads((tmp_path / "corpus.json").read_text())
    assert record["target_fingerprint"] == made.fingerprint and record["start_token"] == 2
    assert record["splits"]["extract"] == {"documents": 3, "tokens": 72}
    train, dev = (np.load(tmp_path / f"{name}.npy").reshape(-1, 20) for name in ("train", "dev"))
    assert train[0].tolist() != dev[0].tolist()


def test_a_killed_run_goes_on_and_ends_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(sampled, "BATCH", 2)
    sample_corpus(settings(), target(), tmp_path / "whole", tmp_path / "whole_work")
    written = []

    def dying(*arguments, **named):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(1)
        return documents(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(sampled, "documents", dying)
        with pytest.raises(KeyboardInterrupt):
            sample_corpus(settings(), target(), tmp_path / "killed", tmp_path / "work")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.npy")}
    assert len(kept) == 2 and not list((tmp_path / "killed").glob("*"))
    sample_corpus(settings(), target(), tmp_path / "killed", tmp_path / "work")
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    for name in SPLITS:
        whole, resumed = (tmp_path / folder / f"{name}.npy" for folder in ("whole", "killed"))
        assert whole.read_bytes() == resumed.read_bytes()


def test_openings_that_do_not_fit(tmp_path):
    with pytest.raises(UserError, match=r"corpus\.openings"):
        long = " ".join(["3"] * 16)
        sample_corpus(settings(openings=[long]), target(), tmp_path, tmp_path)


def test_a_tokenizer_without_a_beginning(tmp_path):
    made = target()
    made.tokenizer = IdTokenizer()
    with pytest.raises(UserError, match="bos_token"):
        sample_corpus(settings(), made, tmp_path, tmp_path)


def test_batches_of_another_target_are_not_taken(tmp_path):
    sample_corpus(settings(), target(), tmp_path / "one", tmp_path / "work")
    other = make_gemma3(4)
    other.tokenizer = StartTokenizer()
    sample_corpus(settings(), other, tmp_path / "two", tmp_path / "work")
    one, two = (np.load(tmp_path / folder / "train.npy") for folder in ("one", "two"))
    assert one.tolist() != two.tolist()


def test_the_order_of_the_splits_does_not_count(tmp_path):
    backwards = dict(reversed(SPLITS.items()))
    sample_corpus(settings(), target(), tmp_path / "one", tmp_path / "work1")
    sample_corpus(settings(splits=backwards), target(), tmp_path / "two", tmp_path / "work2")
    for name in SPLITS:
        one, two = ((tmp_path / folder / f"{name}.npy").read_bytes() for folder in ("one", "two"))
        assert one == two
