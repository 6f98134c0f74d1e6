"""Stage 0: no measured text was trained on, by documents or by the windows themselves."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from diffdraft.measure.stage0_checks import _no_text_twice

STREAM = np.random.default_rng(0).integers(0, 50, 400).astype(np.int32)


def subject(folder, **splits):
    (folder / "corpus.json").write_text(json.dumps({"splits": splits}))
    np.save(folder / "train.npy", STREAM)
    return SimpleNamespace(corpus=folder)


def windows(*starts):
    return np.array([STREAM[start : start + 16] for start in starts])


@pytest.mark.parametrize(("shared", "found"), [([], 0), ([3], 1)])
def test_documents_that_are_dealt_out(tmp_path, shared, found):
    """By the documents, though the window is one of the training text."""
    splits = {"train": {"documents": [1, 2, 3]}, "extract": {"documents": [4, *shared]}}
    check = _no_text_twice(subject(tmp_path, **splits), windows(5))
    assert (check.found, check.expected) == (found, 0)


@pytest.mark.parametrize("splits", [{"train": {"documents": 7}}, {"train": {"tokens": 400}}])
def test_windows_of_a_corpus_without_documents(tmp_path, splits):
    """Wherever a window stands in the training text, its ends included."""
    other = windows(9)
    other[0, -1] += 1
    given = subject(tmp_path, **splits)
    assert _no_text_twice(given, other).found == 0
    assert _no_text_twice(given, np.concatenate([other, windows(0, 131, 384)])).found == 3
