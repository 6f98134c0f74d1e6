"""One stand-in model and its settings for all tests of the hub."""

import shutil

import huggingface_hub
import pytest

from diffdraft.config import load_profile
from tests.hub import standin


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """Profile, model, text and drafter of the stand-in; not to be changed."""
    folder = tmp_path_factory.mktemp("standin")
    standin.write_profile(folder / "standin.yaml", folder / "drafter.safetensors")
    standin.write_model(folder / "model")
    standin.write_text(folder / "text")
    return folder


@pytest.fixture(scope="session")
def profile(source):
    return load_profile(source / "standin.yaml")


@pytest.fixture
def model(source, tmp_path):
    """A copy of the model folder, to be spoilt."""
    return shutil.copytree(source / "model", tmp_path / "model")


@pytest.fixture(autouse=True)
def no_hub(monkeypatch, tmp_path):
    """An empty cache, and a hub that does not answer."""

    def snapshot_download(*arguments, **options):
        raise ConnectionError("no network in tests")

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
