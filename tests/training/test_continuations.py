"""Windows that the target writes itself."""

import numpy as np
import pytest

from diffdraft.config_adapters import ContinuationSettings
from diffdraft.decoding.native import decode_native
from diffdraft.errors import UserError
from diffdraft.targets.random import make_tiny_random
from diffdraft.training import continuations
from diffdraft.training.continuations import greedy_continuations, training_windows


def corpus(n=9):
    return np.random.default_rng(0).integers(1, 60, (n, 16)).astype(np.int32)


def test_batched_continuations_equal_decoding_one_by_one(monkeypatch):
    monkeypatch.setattr(continuations, "BATCH", 2)
    model, prompts = make_tiny_random(1).model, corpus(5)[:, :6]
    written = greedy_continuations(model, prompts, 16)
    for prompt, window in zip(prompts.tolist(), written.tolist(), strict=True):
        assert window == prompt + decode_native(model, prompt, 10, ()).tokens


def test_halves_share_no_text():
    model = make_tiny_random(1).model
    windows = training_windows(model, corpus(), ContinuationSettings(windows=4, prompt_tokens=6))
    assert windows.shape == (8, 16)
    assert np.array_equal(windows[:4], corpus()[4:8])
    assert np.array_equal(windows[4:, :6], corpus()[:4, :6])


def test_without_settings_the_corpus_is_used_as_it_is():
    assert np.array_equal(training_windows(make_tiny_random(1).model, corpus(), None), corpus())


def test_corpus_too_small_for_both_halves():
    with pytest.raises(UserError, match=r"twice continuations\.windows 5"):
        training_windows(
            make_tiny_random(1).model, corpus(), ContinuationSettings(windows=5, prompt_tokens=6)
        )
