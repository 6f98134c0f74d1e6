"""Numbers as text: nothing lost that matters, nothing invented."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.report import cells
from diffdraft.report.cells import Cell, Table


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0217104, "0.02171"),
        (-0.25, "−0.25000"),
        (0.000001234, "1.2e−06"),
        (1280, "1,280"),
        (1.0, "1"),
        (0.0, "0"),
        (None, "–"),
        (float("nan"), "–"),
        (True, "yes"),
    ],
)
def test_number(value, shown):
    assert cells.number(value) == shown


@given(st.floats(-1e6, 1e6))
def test_a_shown_number_is_within_half_a_unit_of_its_last_digit(value):
    shown = float(cells.number(value).replace("−", "-").replace(",", ""))
    assert shown == pytest.approx(value, abs=0.5000001e-5, rel=0.05)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_a_difference_has_the_sign_of_ours_minus_theirs(ours, theirs):
    first = cells.difference(ours, theirs).text[0]
    expected = "+" if ours > theirs else "−" if ours < theirs else "0"
    assert first == expected


def test_a_difference_or_an_interval_needs_both_ends():
    assert cells.difference(None, 0.5).text == cells.NOTHING
    assert cells.interval(None, 0.5).text == cells.NOTHING
    assert cells.interval(0.1, 0.5).text == "0.10000 to 0.50000"


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="2 cells under 1 heads"):
        Table("t", ["a"], [[Cell("1"), Cell("2")]])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(min_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
)


@given(JSON)
def test_flatten_shows_every_leaf(value):
    shown = "\n".join(f"{key} {text}" for key, text in cells.flatten(value))
    for leaf in _leaves(json.loads(json.dumps(value))):
        assert str(leaf) in shown or leaf is None


def _leaves(value):
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value
