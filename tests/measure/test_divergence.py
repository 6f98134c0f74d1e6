"""Divergences end to end, on a target whose logits depend on how many rows a forward has.

No real model on a CPU diverges often enough to test with, so this one is made to: its head puts
two tokens next to each other at some places of a text, and which of them wins, and by how much,
follows from the number of rows.
"""

import diffdraft.decoding  # noqa: F401  (sets BLAS up before MLX is imported)

# isort: split
import mlx.core as mx
import mlx.nn as nn
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft import rows
from diffdraft.measure.divergence import DivergenceAudit
from diffdraft.stats.texts import first_divergence
from diffdraft.stats.ulp import FORMATS
from tests.decoding import parts

TOKENS, BLOCK = 24, 4
TOLERANCE = 1.0001
LEVEL = {"bfloat16": 24.0, "float32": 24.0}  # between 16 and 32, where the ULP is 2^4 - fraction
TIED = 3  # every token whose id is a multiple of this one has a rival


class WidthHead(nn.Module):
    """One token far above all others, and at some places the next id as its rival.

    In ULPs of `dtype`: a forward of one row gives the token `narrow` more than its rival, one of
    a few rows `block` more, and one over a whole text `full` more; `third` is how far a third
    token is above both in the latter.
    """

    def __init__(self, base, dtype, narrow, block, full, third):
        super().__init__()
        self._base, self._dtype, self._by_width = base, dtype, (narrow, block, full)
        self._third, self._unit = third, 2.0 ** (4 - FORMATS[dtype].fraction_bits)

    def __call__(self, h):
        rows = 1 if h.ndim == 2 else h.shape[1]
        width = 0 if rows == 1 else 1 if rows <= BLOCK + 1 else 2
        best = mx.argmax(self._base(h), axis=-1, keepdims=True)
        ids = mx.arange(self._base.weight.shape[0])
        is_best, tied = ids == best, best % TIED == 0
        is_rival, is_third = (ids == best + 1) & tied, (ids == best + 2) & tied
        bonus = self._by_width[width] * is_best.astype(mx.float32)
        if width == 2:
            bonus = bonus + self._third * is_third
        near = is_best | is_rival | (is_third if width == 2 and self._third else mx.array(False))
        logits = mx.where(near, LEVEL[self._dtype] + self._unit * bonus, -24.0)
        return logits.astype(getattr(mx, self._dtype))


def diverging(dtype="bfloat16", narrow=1, block=-1, full=0, third=0):
    target = parts.make_target()
    text = target.model.language_model
    text.lm_head = WidthHead(text.lm_head, dtype, narrow, block, full, third)
    return target


def audited(target, tolerance=TOLERANCE, prompt=parts.PROMPT):
    """The audit row of a draft-verify decode of `target`, with what was decoded."""
    adapter = parts.randomise(parts.Adapter.attach(target.model, parts.SPEC))
    ar = parts.native(target, prompt, TOKENS).tokens
    spec = parts.uno(target, adapter, BLOCK, prompt, TOKENS).tokens
    return DivergenceAudit(target.model, tolerance).row(prompt, ar, spec), ar, spec


def as_rows(row):
    """The row as one of the file `divergences`."""
    generation = {"prompt_id": "p", "category": "c", "prompt_tokens": 10, "max_tokens": TOKENS}
    record = {**generation, "arm": "uno_k4", "repeat": 0, **row}
    return pd.DataFrame([record], columns=rows.columns("divergences"))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(
    ("full", "rules"),
    [
        (0, {"exact_tie": 1, "within_one_ulp": 1, "near_maximum": 1}),
        (1, {"exact_tie": 0, "within_one_ulp": 1, "near_maximum": 1}),
        (-1, {"exact_tie": 0, "within_one_ulp": 1, "near_maximum": 1}),
        (2, {"exact_tie": 0, "within_one_ulp": 0, "near_maximum": 0}),
        (-2, {"exact_tie": 0, "within_one_ulp": 0, "near_maximum": 0}),
    ],
)
def test_both_rules_can_pass_and_fail(dtype, full, rules):
    row, ar, spec = audited(diverging(dtype, full=full))
    position = first_divergence(ar, spec)
    assert position > 0 and ar[:position] == spec[:position]
    assert (row["position"], row["ar_token"], row["spec_token"]) == (
        position,
        ar[position],
        ar[position] + 1,
    )
    assert spec[position] == ar[position] + 1
    unit = 2.0 ** (4 - FORMATS[dtype].fraction_bits)
    assert (row["dtype"], row["ulp"], row["gap_in_ulps"]) == (dtype, unit, abs(full))
    assert (row["ar_logit"], row["spec_logit"]) == (24 + full * unit, 24)
    assert row["max_logit"] == 24 + max(full, 0) * unit
    assert {name: row[name] for name in rules} == rules
    rows.validate(as_rows(row), "divergences", "rows")


def test_equal_contestants_far_below_a_third_token_are_not_near_the_maximum():
    row, _, _ = audited(diverging(third=2))
    assert (row["exact_tie"], row["within_one_ulp"], row["near_maximum"]) == (1, 1, 0)
    row, _, _ = audited(diverging(third=1))
    assert (row["exact_tie"], row["within_one_ulp"], row["near_maximum"]) == (1, 1, 1)


def test_tolerance_is_the_callers():
    wide, _, _ = audited(diverging(full=2), tolerance=2.0)
    narrow, _, _ = audited(diverging(full=1), tolerance=0.9)
    assert (wide["within_one_ulp"], wide["near_maximum"]) == (1, 1)
    assert (narrow["within_one_ulp"], narrow["near_maximum"]) == (0, 0)


def test_logits_are_those_of_the_whole_text_before_the_divergence():
    target = diverging(full=1)
    row, ar, _ = audited(target)
    before = [*parts.PROMPT, *ar[: row["position"]]]
    logits = target.model(mx.array([before]))[0, -1].astype(mx.float32)
    assert row["ar_logit"] == logits[row["ar_token"]].item()
    assert row["spec_logit"] == logits[row["spec_token"]].item()
    assert row["max_logit"] == logits.max().item()


def test_equal_texts_have_no_row():
    row, ar, spec = audited(diverging(narrow=1, block=1))
    assert ar == spec
    assert row is None


def test_repeated_cases_cost_one_forward(monkeypatch):
    target = diverging()
    _, ar, spec = audited(target)
    position = first_divergence(ar, spec)
    audit = DivergenceAudit(target.model, TOLERANCE)
    widths = parts.watch_embedding(monkeypatch)
    first = audit.row(parts.PROMPT, ar, spec)
    assert audit.row(parts.PROMPT, ar, spec) == first
    assert audit.row(parts.PROMPT, ar, [*spec[: position + 1], 0, 0]) == first
    assert widths == [len(parts.PROMPT) + position]
    other = audit.row(parts.PROMPT[1:], ar, spec)
    assert len(widths) == 2 and other["position"] == position
    audit.row(parts.PROMPT, ar, [*spec[:position], spec[position] + 1])
    assert len(widths) == 3


def test_a_row_is_the_callers_to_change():
    target = diverging()
    _, ar, spec = audited(target)
    audit = DivergenceAudit(target.model, TOLERANCE)
    audit.row(parts.PROMPT, ar, spec)["gap"] = 9.0
    assert audit.row(parts.PROMPT, ar, spec)["gap"] == 0.0


@pytest.mark.parametrize(("ar", "spec"), [([1, 2, 3], [1, 2]), ([1, 2], [1, 2, 3])])
def test_a_text_that_only_ends_earlier_is_a_defect(target, ar, spec):
    with pytest.raises(RuntimeError, match="else equal"):
        DivergenceAudit(target.model, TOLERANCE).row(parts.PROMPT, ar, spec)


@pytest.fixture(scope="module")
def target():
    return parts.make_target()


@given(st.lists(st.integers(0, 2), max_size=6), st.lists(st.integers(0, 2), max_size=6))
def test_first_divergence_is_the_end_of_the_common_beginning(a, b):
    place = first_divergence(a, b)
    if place == -1:
        assert a == b
    else:
        assert a[:place] == b[:place]
        assert a[place : place + 1] != b[place : place + 1]
    assert first_divergence(b, a) == place


@pytest.mark.parametrize(
    ("a", "b", "place"),
    [([1, 2], [1, 2], -1), ([], [], -1), ([1, 2], [1, 3], 1), ([1], [1, 2], 1), ([], [1], 0)],
)
def test_first_divergence_counts_from_zero_and_knows_lengths(a, b, place):
    assert first_divergence(a, b) == place
