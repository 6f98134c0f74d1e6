from diffdraft.drafters import controls as module

# isort: split
import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.drafters.base import DraftRequest
from diffdraft.drafters.noise import noise_ids, random_key
from diffdraft.errors import UserError
from tests.decoding import parts
from tests.drafters.test_sizes import NOT_SIZES


def draw(size, cycle=1, noise_high=1000, seed=5):
    request = DraftRequest([1], [], size, cycle)
    return module.RandomDrafter(noise_high, seed).propose(request).tokens


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(1, 10_000), st.integers(2, 300), st.integers(0, 2**64 - 1))
def test_a_block_less_one_of_ids_in_the_range(size, cycle, noise_high, seed):
    proposal = module.RandomDrafter(noise_high, seed).propose(DraftRequest([7], [], size, cycle))
    assert len(proposal.tokens) == proposal.offered == size - 1
    assert all(type(token) is int and 1 <= token < noise_high for token in proposal.tokens)
    assert (proposal.given, proposal.forwards, proposal.confidence) == (0, 0, ())


def test_uniform_over_the_whole_range():
    tokens = [token for cycle in range(1, 7) for token in draw(1001, cycle, noise_high=7)]
    counts = [tokens.count(i) for i in range(1, 7)]
    assert sum(counts) == 6000
    assert sum((count - 1000) ** 2 / 1000 for count in counts) < 20.5  # chi-squared, 5 df, 0.1 %


def test_keyed_by_seed_and_cycle_and_apart_from_the_draft_noise():
    assert draw(9) == draw(9)
    noise = noise_ids(random_key(5, "bench_noise", 1), (8,), 1000).tolist()
    draws = {tuple(draw(9, cycle, seed=seed)) for cycle in (1, 2) for seed in (5, 6)}
    assert len(draws | {tuple(noise)}) == 5


def test_the_global_generator_is_left_alone():
    mx.random.seed(4)
    before = mx.random.uniform().item()
    mx.random.seed(4)
    draw(50)
    assert mx.random.uniform().item() == before


@pytest.mark.parametrize("noise_high", [*NOT_SIZES, 1])
def test_a_bound_that_leaves_no_id_is_refused(noise_high):
    with pytest.raises(UserError, match="noise_high"):
        module.RandomDrafter(noise_high, seed=1)


@pytest.mark.parametrize("size", [1, 4])
def test_a_generation_is_the_native_one_and_drafting_takes_no_forward(size):
    target = parts.make_target()
    expected = parts.native(target, parts.PROMPT, 12).tokens
    drafter = module.RandomDrafter(target.noise_high, seed=1)
    trace = decode(target, drafter, GreedyAcceptance(), FixedBlock(size), parts.PROMPT, 12)
    assert trace.tokens == expected
    assert trace.forwards == 1 + len(trace.cycles)
    assert {cycle.offered for cycle in trace.cycles} == {size - 1}
