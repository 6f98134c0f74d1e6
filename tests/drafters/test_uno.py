from diffdraft.drafters import uno as module

# isort: split
import mlx.core as mx
import pytest
from mlx_lm.models.cache import make_prompt_cache

from diffdraft.drafters.base import DraftRequest
from diffdraft.drafters.noise import noise_ids, random_key
from tests.decoding import parts


@pytest.fixture(scope="module")
def adapted():
    target = parts.make_target()
    return target, parts.randomise(parts.Adapter.attach(target.model, parts.SPEC))


def request_for(target, history, size, cycle=1):
    cache = make_prompt_cache(target.model)
    if len(history) > 1:
        target.model(mx.array([history[:-1]]), cache=cache)
    return DraftRequest(history, cache, size, cycle)


def propose(adapted, history, size, cycle=1, seed=5):
    target, adapter = adapted
    return module.UnoDrafter(target, adapter, seed).propose(
        request_for(target, history, size, cycle)
    )


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("history", [parts.PROMPT, [9], [50, 2, 2, 31]])
def test_the_first_token_is_the_frozen_models_own(adapted, history, size):
    proposal = propose(adapted, history, size)
    assert proposal.tokens[0] == parts.next_token(adapted[0], history)
    assert (len(proposal.tokens), proposal.given, proposal.forwards) == (size, 1, 1)
    assert proposal.offered == size - 1


@pytest.mark.parametrize("size", [2, 4, 8])
def test_equals_a_draft_without_a_cache(adapted, size):
    """Oracle: one forward over context and block, adapter on the block's noise rows only."""
    target, adapter = adapted
    noise = noise_ids(random_key(5, "bench_noise", 3), (size - 1,), target.noise_high).tolist()
    ids = [*parts.PROMPT, *noise]
    gate = mx.array([[0] * len(parts.PROMPT) + [1] * (size - 1)])
    with adapter.rows(gate):
        logits = target.model(mx.array([ids]))[0, -size:]
    expected = mx.argmax(logits, axis=-1).tolist()
    assert propose(adapted, parts.PROMPT, size, cycle=3).tokens == expected
    bare = mx.argmax(target.model(mx.array([ids]))[0, -size:], axis=-1).tolist()
    assert bare[0] == expected[0]
    assert bare != expected  # the adapter does something here, so the gate was tested


def test_noise_belongs_to_seed_and_cycle(adapted):
    def draw(**which):
        return propose(adapted, parts.PROMPT, 8, **which).tokens

    assert draw(cycle=1) == draw(cycle=1)
    assert draw(cycle=1) != draw(cycle=2)
    assert draw(seed=1) != draw(seed=2)
