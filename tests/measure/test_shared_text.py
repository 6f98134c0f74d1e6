"""Stage 0: no measured text was trained on, by documents or by the windows themselves."""

import json

import numpy as np
import pytest

from diffdraft.measure.shared_text import shared_text

STREAM = np.random.default_rng(0).integers(0, 50, 400).astype(np.int32)


def written(folder, **splits):
    (folder / "corpus.json").write_text(json.dumps({"splits": splits}))
    np.save(folder / "train.npy", STREAM)
    return folder


def windows(*starts):
    return np.array([STREAM[start : start + 16] for start in starts])


@pytest.mark.parametrize(("shared", "found"), [([], 0), ([3], 1)])
def test_documents_that_are_dealt_out(tmp_path, shared, found):
    """By the documents, though the window is one of the training text."""
    splits = {"train": {"documents": [1, 2, 3]}, "extract": {"documents": [4, *shared]}}
    assert shared_text(written(tmp_path, **splits), windows(5))[1] == found


@pytest.mark.parametrize("splits", [{"train": {"documents": 7}}, {"train": {"tokens": 400}}])
def test_windows_of_a_corpus_without_documents(tmp_path, splits):
    """Wherever a window stands in the training text, its ends included."""
    other = windows(9)
    other[0, -1] += 1
    corpus = written(tmp_path, **splits)
    assert shared_text(corpus, other)[1] == 0
    measured = np.concatenate([other, windows(0, 131, 384)])
    measured[:, 0] = 49  # what every text begins with
    assert shared_text(corpus, measured)[1] == 3
