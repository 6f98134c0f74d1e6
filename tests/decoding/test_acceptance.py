from diffdraft.decoding import acceptance as module

# isort: split
import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffdraft.drafters.base import Proposal
from tests.decoding import parts

GREEDY = module.GreedyAcceptance()
V = 11


def one_hot(choices):
    return mx.array([[1.0 if v == choice else 0.0 for v in range(V)] for choice in choices])


def token_lists(length):
    return st.lists(st.integers(0, V - 1), min_size=length, max_size=length)


def definition(tokens, given_tokens, choices):
    """The largest prefix that agrees, by trying all of them."""
    offered = len(tokens) - given_tokens
    fits = [
        n
        for n in range(offered + 1)
        if all(tokens[given_tokens + i] == choices[given_tokens + i] for i in range(n))
    ]
    return max(fits)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_longest_agreeing_prefix(data):
    length = data.draw(st.integers(0, 6))
    given_tokens = data.draw(st.integers(0, min(1, length)))
    choices = data.draw(token_lists(length + 1))
    tokens = [
        choice if data.draw(st.booleans()) else other
        for choice, other in zip(choices[:-1], data.draw(token_lists(length)), strict=True)
    ]
    decision = GREEDY.accept(Proposal(tokens, given_tokens, 1), one_hot(choices))
    assert decision.accepted == definition(tokens, given_tokens, choices)
    assert decision.next_token == choices[given_tokens + decision.accepted]


def test_given_token_is_never_checked():
    decision = GREEDY.accept(Proposal([9, 2, 3], 1, 1), one_hot([0, 2, 3, 4]))
    assert decision == (2, 4)


def test_nothing_proposed_still_gives_the_next_token():
    assert GREEDY.accept(Proposal([], 0, 0), one_hot([6])) == (0, 6)


def test_a_tie_goes_to_the_lower_id():
    logits = mx.zeros((2, V))
    assert GREEDY.accept(Proposal([0], 0, 1), logits) == (1, 0)


@pytest.mark.parametrize("size", [2, 4, 8])
@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_against_separate_full_context_calls(target, text, size, data):
    """K - 1 calls of the model on the whole context must accept the same prefix."""
    start = data.draw(st.integers(len(parts.PROMPT), len(text) - size - 1))
    wrong = data.draw(st.sets(st.integers(1, size - 1), max_size=2))
    block = [
        (token + (slot in wrong)) % target.vocab_size
        for slot, token in enumerate(text[start : start + size])
    ]
    expected = 0
    while expected < size - 1:
        seen = text[:start] + block[: expected + 1]
        if parts.next_token(target, seen) != block[expected + 1]:
            break
        expected += 1
    logits = target.model(mx.array([text[:start] + block]))[0, start - 1 :]
    decision = GREEDY.accept(Proposal(block, 1, 1), logits)
    assert decision.accepted == expected
    assert decision.next_token == parts.next_token(target, text[:start] + block[: expected + 1])
