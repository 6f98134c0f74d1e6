"""Training a target from scratch: it learns, its folder loads, and a kill changes nothing."""

import math

import numpy as np
import pandas as pd
import pytest

from diffdraft import files
from diffdraft.config import load_profile
from diffdraft.targets.load import load_target
from diffdraft.training.target import LanguageModelTask, train_target
from tests.measure import small_study as small

STEPS = 24
PERIOD = 7


class Killed(Exception):
    """Stands for a kill: nothing after it runs."""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A profile with few steps, and a corpus that repeats one short sequence."""
    folder = tmp_path_factory.mktemp("study")
    profile = load_profile(small.write_profile(folder))
    changes = {
        "steps": STEPS,
        "batch_size": 4,
        "window": small.WINDOW,
        "learning_rate": 1e-2,
        "warmup_steps": 2,
        "checkpoint_every": 5,
    }
    optimiser = profile.target.optimiser.model_copy(update=changes)
    target = profile.target.model_copy(update={"optimiser": optimiser})
    corpus = small.write_corpus(folder)
    for split in ("train", "dev"):
        stream = 1 + np.arange(12 * small.WINDOW) % PERIOD
        np.save(corpus / f"{split}.npy", stream.astype(np.int32))
    return profile.model_copy(update={"target": target}), corpus


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    """The folder that an uninterrupted run leaves."""
    folder = tmp_path_factory.mktemp("whole")
    train_target(*study, folder / "target", folder / "work")
    return folder / "target"


def test_it_predicts_better_than_a_uniform_guess_and_then_than_the_words_alone(whole):
    log = pd.read_csv(whole / "training.csv")
    assert list(log["step"]) == list(range(1, STEPS + 1))
    assert log["loss"][0] > 0.9 * math.log(small.VOCABULARY)
    assert log["loss"].iloc[-1] < math.log(PERIOD)
    measured = log["dev_loss"].dropna()
    assert list(log["step"][measured.index]) == [5, 10, 15, 20]
    assert measured.is_monotonic_decreasing


def test_the_folder_loads_as_what_was_trained(whole):
    record = files.read_json(whole / "training.json")
    target = load_target(whole)
    assert target.fingerprint == record["fingerprint"]
    assert target.vocab_size == small.VOCABULARY
    assert record["steps"] == STEPS


@pytest.mark.parametrize("step", [3, 5, 12])
def test_killed_at_a_step_and_started_again_it_leaves_the_same_folder(
    study, whole, tmp_path, monkeypatch, step
):
    def check(self, history):
        if len(history) == step:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(LanguageModelTask, "check", check)
        with pytest.raises(Killed):
            train_target(*study, tmp_path / "target", tmp_path / "work")
    assert not (tmp_path / "target").exists()
    train_target(*study, tmp_path / "target", tmp_path / "work")
    names = sorted(path.name for path in whole.iterdir())
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == names
    for name in names:
        assert (tmp_path / "target" / name).read_bytes() == (whole / name).read_bytes(), name
