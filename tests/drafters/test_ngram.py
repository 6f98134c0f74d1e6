from diffdraft.drafters import ngram as module

# isort: split
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.drafters.base import DraftRequest
from diffdraft.errors import UserError
from tests.decoding import parts
from tests.drafters.test_sizes import NOT_SIZES


def propose(history, order, size):
    proposal = module.NgramDrafter(order).propose(DraftRequest(history, [], size, 1))
    assert (proposal.given, proposal.forwards, proposal.confidence) == (0, 0, ())
    return proposal.tokens


def slow_oracle(history, order, size):
    """All earlier places where the last tokens stand, those that can fill the block, the last."""
    ends = [
        end for end in range(order, len(history)) if history[end - order : end] == history[-order:]
    ]
    filled = [history[end : end + size - 1] for end in ends if end + size - 1 <= len(history)]
    return filled[-1] if filled else []


@settings(deadline=None, max_examples=300)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=24), st.integers(1, 4), st.integers(1, 6))
def test_equals_the_slow_oracle(history, order, size):
    tokens = propose(history, order, size)
    assert tokens == slow_oracle(history, order, size)
    assert len(tokens) in (0, size - 1)


@pytest.mark.parametrize(
    ("history", "order", "size", "expected"),
    [
        ([1, 2, 7, 7, 1, 2, 8, 8, 1, 2], 2, 3, [8, 8]),  # the latest of two
        ([1, 2, 7, 8, 9, 1, 2, 1, 2], 2, 4, [7, 8, 9]),  # the latest is too near the end
        ([1, 2, 7, 8, 9, 1, 2, 1, 2], 2, 3, [1, 2]),  # and is not, for a smaller block
        ([5, 5, 5, 5], 2, 2, [5]),  # an occurrence may overlap the pattern
        ([3, 1, 2, 9, 1, 2], 3, 2, []),  # two of three tokens are no occurrence
        ([1, 2, 1, 2], 2, 4, []),  # never a short proposal
        ([4, 4], 2, 2, []),  # the pattern itself is no earlier occurrence
        ([4], 2, 2, []),  # less text than the order
        ([5, 5, 5, 5], 2, 1, []),  # a block of the seed alone
    ],
)
def test_worked_cases(history, order, size, expected):
    assert propose(history, order, size) == expected
    assert propose(tuple(history), order, size) == expected


@pytest.mark.parametrize("order", NOT_SIZES)
def test_an_order_must_be_a_positive_whole_number(order):
    with pytest.raises(UserError, match="order"):
        module.NgramDrafter(order)


def test_a_generation_is_the_native_one_and_drafting_takes_no_forward():
    target = parts.make_target()
    expected = parts.native(target, parts.PROMPT, 40).tokens
    prompt = parts.PROMPT + expected + parts.PROMPT  # what follows has been said before
    native = parts.native(target, prompt, 12).tokens
    drafter = module.NgramDrafter(2)
    trace = decode(target, drafter, GreedyAcceptance(), FixedBlock(4), prompt, 12)
    assert trace.tokens == native
    assert trace.forwards == 1 + len(trace.cycles)
    assert {cycle.offered for cycle in trace.cycles} <= {0, 3}
    assert any(cycle.offered for cycle in trace.cycles)
    assert all(c.committed == c.accepted + 1 for c in trace.cycles[:-1])
