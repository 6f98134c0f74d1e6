import pytest

from tests.measure import small_decoding as small


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A small study of Act IV-S: plan, target, adapters, suite and corpus in one folder."""
    return small.Small(tmp_path_factory.mktemp("study"))


@pytest.fixture
def quick(monkeypatch):
    """Decode a few prompts only, and do not look at the machine's load."""
    small.no_waiting(monkeypatch)
    small.few_prompts(monkeypatch)
