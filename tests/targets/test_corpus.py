"""The corpus: pinned, split by document, with a tokenizer of the training split alone."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.config import CorpusSettings, load_profile
from diffdraft.errors import UserError
from diffdraft.targets.corpus import (
    build_corpus,
    corpus_file,
    read_documents,
    read_windows,
    split_documents,
)

SETTINGS = load_profile("config/profiles/tiny.yaml").corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("corpus")
    build_corpus(SETTINGS, out)
    return out


def test_documents_are_chapters():
    documents = read_documents(corpus_file(SETTINGS))
    assert len(documents) == 1189
    assert documents[0].startswith("In the beginning God created the heaven and the earth. And")


def test_splits_are_disjoint_and_whole(folder):
    splits = json.loads((folder / "corpus.json").read_text())["splits"]
    dealt = [index for split in splits.values() for index in split["documents"]]
    assert sorted(dealt) == list(range(1189))


@given(n=st.integers(20, 500), seed=st.integers(0, 2**32 - 1))
def test_every_deal_is_a_partition(n, seed):
    splits = split_documents(n, SETTINGS.model_copy(update={"seed": seed}))
    assert sorted(i for indices in splits.values() for i in indices) == list(range(n))


def test_streams_decode_to_their_documents(folder):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    first = json.loads((folder / "corpus.json").read_text())["splits"]["dev"]["documents"][0]
    stream = np.load(folder / "dev.npy")
    end = int(np.flatnonzero(stream == tokenizer.token_to_id("<|endoftext|>"))[0])
    assert tokenizer.decode(stream[:end]) == read_documents(corpus_file(SETTINGS))[first]


def test_enough_windows_for_the_plan(folder):
    windows = read_windows(folder, "extract", 128)
    assert len(windows) >= 1280
    assert windows.shape[1] == 128


def test_corpus_too_small_for_a_window(folder):
    with pytest.raises(UserError, match=r"dev.npy: tokens: found \d+; expected at least"):
        read_windows(folder, "dev", 1_000_000)


def test_stream_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match="nothing there"):
        read_windows(tmp_path, "train", 128)


def changed(**values):
    return CorpusSettings.model_validate({**SETTINGS.model_dump(), **values})


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"package": "no-such-package"}, "corpus.package"),
        ({"file": "bible/data/other.jsonl"}, "corpus.file"),
        ({"sha256": "0" * 64}, "corpus.sha256"),
    ],
)
def test_other_corpus_is_refused(values, field):
    with pytest.raises(UserError) as caught:
        corpus_file(changed(**values))
    assert caught.value.field == field


def test_vocabulary_that_the_text_cannot_fill(tmp_path):
    with pytest.raises(UserError) as caught:
        build_corpus(changed(vocab_size=400_000), tmp_path)
    assert caught.value.field == "corpus.vocab_size"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00v\x00{"])
def test_damaged_stream_is_refused(tmp_path, content):
    (tmp_path / "train.npy").write_bytes(content)
    with pytest.raises(UserError, match=r"train\.npy: file: found"):
        read_windows(tmp_path, "train", 128)
