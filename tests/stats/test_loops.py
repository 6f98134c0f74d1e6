"""Loop measures against definitions that are spelled out place by place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.stats.loops import distinct_ratio, loop_onset, looped_fraction

TEXTS = st.lists(st.integers(0, 2), min_size=1, max_size=60)
ORDERS = st.integers(1, 9)


def occurred_before(ids, n, place):
    """Whether the n-gram at `place` is also at an earlier place."""
    return any(ids[early : early + n] == ids[place : place + n] for early in range(place))


def slow_fraction(ids, n):
    if len(ids) < 2 * n:
        return 0.0
    places = range(len(ids) - n + 1)
    return round(sum(occurred_before(ids, n, place) for place in places) / len(places), 4)


def slow_onset(ids, n):
    """The shortest beginning of the text in which an n-gram occurs twice."""
    for length in range(n + 1, len(ids) + 1):
        if occurred_before(ids[:length], n, length - n):
            return length
    return None


@given(TEXTS, ORDERS)
def test_fraction_equals_its_definition(ids, n):
    assert looped_fraction(ids, n) == slow_fraction(ids, n)


@given(TEXTS, ORDERS)
def test_onset_equals_its_definition(ids, n):
    assert loop_onset(ids, n) == slow_onset(ids, n)


@given(TEXTS, ORDERS, st.lists(st.integers(0, 2), max_size=20))
def test_onset_does_not_depend_on_what_follows(ids, n, more):
    onset = loop_onset(ids, n)
    if onset is not None:
        assert loop_onset(ids + more, n) == onset


@given(TEXTS)
def test_distinct_ratio_counts_tokens(ids):
    assert distinct_ratio(ids) * len(ids) == pytest.approx(len(set(ids)))
    assert 0 < distinct_ratio(ids) <= 1


def test_published_rule_of_eight_grams():
    assert looped_fraction([7] * 15, 8) == 0.0  # too short to say
    assert looped_fraction([7] * 16, 8) == round(8 / 9, 4)  # all of 9 but the first
    assert looped_fraction([1, 2, 3, 4] * 5, 8) == round(9 / 13, 4)
    assert looped_fraction(list(range(40)), 8) == 0.0


def test_onset_is_told_below_sixteen_tokens_too():
    assert loop_onset([7] * 8, 8) is None
    assert loop_onset([7] * 9, 8) == 9
    assert loop_onset([*range(8), *range(8)], 8) == 16
    assert loop_onset([], 8) is None


def test_overlapping_repeats_count():
    assert loop_onset([1, 1, 1], 2) == 3


def test_an_order_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        loop_onset([1, 2], 0)
