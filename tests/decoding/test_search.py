from diffdraft.decoding import search as module

# isort: split
import math

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.drafters.base import Proposal, SlotConfidence
from diffdraft.drafters.uno import UnoDrafter
from diffdraft.errors import UserError
from tests.decoding import parts

PROBABILITIES = st.lists(st.floats(0, 1), max_size=8)


def proposal_of(top1, given=1, **options):
    tokens = list(range(50, 50 + given + len(top1)))
    slots = tuple(SlotConfidence(p, p / 2) for p in top1)
    return Proposal(tokens, given, forwards=2, confidence=slots, **options)


def slow_oracle(top1, floor):
    """Of all prefixes whose product reaches the floor, the longest."""
    return max(n for n in range(len(top1) + 1) if n == 0 or math.prod(top1[:n]) >= floor)


@settings(deadline=None, max_examples=200)
@given(PROBABILITIES, st.floats(0, 1), st.integers(0, 2))
def test_the_longest_likely_prefix(top1, floor, count):
    proposal = proposal_of(top1, count)
    kept = slow_oracle(top1, floor)
    path = module.ConfidentPrefix(floor).choose(proposal)
    assert path.tokens == proposal.tokens[: count + kept]
    assert path.confidence == proposal.confidence[:kept]
    assert (path.given, path.offered, path.forwards) == (count, kept, 2)


@pytest.mark.parametrize(
    ("floor", "kept"), [(0.0, 3), (0.35, 3), (0.36, 2), (0.72, 2), (0.73, 1), (0.9, 1), (0.91, 0)]
)
def test_the_product_decides_and_a_product_at_the_floor_stays(floor, kept):
    path = module.ConfidentPrefix(floor).choose(proposal_of([0.9, 0.8, 0.49]))
    assert path.offered == kept


def test_a_sure_token_behind_an_unsure_one_does_not_come_back():
    assert module.ConfidentPrefix(0.5).choose(proposal_of([0.4, 1.0, 1.0])).tokens == [50]


def test_a_product_that_rounding_lifts_does_not_come_back_either():
    """A float32 softmax can exceed 1 by its last digit; the path must still be a prefix."""
    top1 = [0.7, 0.7142856, 1.0000002]
    assert top1[0] * top1[1] < 0.5 <= math.prod(top1)
    assert module.ConfidentPrefix(0.5).choose(proposal_of(top1)).offered == 1


def test_what_belongs_to_dropped_tokens_is_dropped_with_them():
    log_probs = mx.arange(6).reshape(3, 2)
    path = module.ConfidentPrefix(0.5).choose(proposal_of([0.9, 0.9, 0.1], log_probs_NV=log_probs))
    assert path.log_probs_NV.tolist() == [[0, 1], [2, 3]]


def test_nothing_offered_is_nothing_to_drop():
    for given_tokens in (0, 1):
        proposal = proposal_of([], given_tokens)
        assert module.ConfidentPrefix(0.9).choose(proposal) == proposal


def test_a_drafter_that_does_not_tell_is_refused():
    with pytest.raises(ValueError, match="confidence in every token"):
        module.ConfidentPrefix(0.5).choose(Proposal([1, 2, 3], given=1, forwards=1))


@pytest.mark.parametrize("floor", [-0.01, 1.01, float("nan"), float("inf"), True, "0.5", None])
def test_a_floor_is_a_probability(floor):
    with pytest.raises(UserError, match="floor"):
        module.ConfidentPrefix(floor)


def test_a_whole_block_is_the_proposal_itself():
    proposal = proposal_of([0.1, 0.9])
    assert module.WholeBlock().choose(proposal) is proposal


@pytest.mark.parametrize("floor", [0.0, 0.02, 0.2, 1.0])
def test_a_generation_of_confident_prefixes_is_the_native_one(adapted, text, floor):
    target, adapter = adapted
    drafter = UnoDrafter(target, adapter, seed=5, confidence=True)
    search = module.ConfidentPrefix(floor)
    trace = decode(
        target, drafter, GreedyAcceptance(), FixedBlock(8), parts.PROMPT, 24, search=search
    )
    assert trace.tokens == text[len(parts.PROMPT) :][:24]
    for cycle in trace.cycles:
        assert cycle.block_size == 8
        assert cycle.offered == len(cycle.confidence) == 7 if floor == 0 else cycle.offered < 8
        assert math.prod(slot.top1 for slot in cycle.confidence) >= floor or not cycle.offered


def test_the_width_of_a_confident_prefix_follows_the_draft(adapted):
    target, adapter = adapted
    drafter = UnoDrafter(target, adapter, seed=5, confidence=True)
    trace = decode(
        target,
        drafter,
        GreedyAcceptance(),
        FixedBlock(8),
        parts.PROMPT,
        24,
        search=module.ConfidentPrefix(0.02),
    )
    assert len({cycle.offered for cycle in trace.cycles}) > 1
