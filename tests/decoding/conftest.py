import pytest

from tests.decoding import parts


@pytest.fixture(scope="session")
def target():
    return parts.make_target()


@pytest.fixture(scope="session")
def text(target):
    """The prompt and 60 native tokens; varied enough that an error by one place would show."""
    tokens = parts.native(target, parts.PROMPT, 60).tokens
    assert len(set(tokens[:24])) >= 5
    return parts.PROMPT + tokens


@pytest.fixture(scope="session")
def adapted():
    """A second target of the same weights, and its adapter with random B."""
    target = parts.make_target()
    return target, parts.randomise(parts.Adapter.attach(target.model, parts.SPEC))
