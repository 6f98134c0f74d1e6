import diffdraft.decoding  # noqa: F401  (sets BLAS up before MLX is imported)

# isort: split
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pandas as pd
import pytest

from diffdraft import rows
from diffdraft.measure.ties import tie_rows
from diffdraft.targets.load import cast_weights
from tests.decoding import parts

TOKENS = 12


def frame(records):
    return pd.DataFrame(records, columns=rows.columns("ties"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gaps_are_those_of_one_forward_a_position(dtype):
    target = parts.make_target()
    cast_weights(target.model, dtype)
    text = parts.native(target, parts.PROMPT, TOKENS).tokens
    records = tie_rows(target.model, "prose_1", parts.PROMPT, text)
    assert [record["position"] for record in records] == list(range(TOKENS))
    for record in records:
        before = [*parts.PROMPT, *text[: record["position"]]]
        logits = target.model(mx.array([before]))[0, -1].astype(mx.float32)
        second, best = np.sort(np.array(logits))[-2:]
        # Other widths round otherwise: a few units in the last place of logits of some ten.
        tolerance = {"float32": 1e-4, "bfloat16": 0.3}[dtype]
        assert record["top2_gap"] == pytest.approx(float(best - second), abs=tolerance)
        assert record["dtype"] == dtype
    rows.validate(frame(records), "ties", "rows")


def test_one_forward_a_prompt_over_what_comes_before_the_last_token(monkeypatch):
    target = parts.make_target()
    widths = parts.watch_embedding(monkeypatch)
    tie_rows(target.model, "prose_1", parts.PROMPT, list(range(1, 8)))
    assert widths == [len(parts.PROMPT) + 6]


class Rounded(nn.Module):
    """A head whose best two logits are equal after a token with an even best id."""

    def __init__(self, base):
        super().__init__()
        self._base = base

    def __call__(self, h):
        best = mx.argmax(self._base(h), axis=-1, keepdims=True)
        ids = mx.arange(self._base.weight.shape[0])
        rival = 2.0 - 0.25 * (best % 2)
        return mx.where(ids == best, 2.0, mx.where(ids == best + 1, rival, -1.0))


def test_exact_ties_are_counted_and_only_they():
    target = parts.make_target()
    text_model = target.model.language_model
    text_model.lm_head = Rounded(text_model.lm_head)
    text = parts.native(target, parts.PROMPT, TOKENS).tokens
    records = tie_rows(target.model, "prose_1", parts.PROMPT, text)
    even = [token % 2 == 0 for token in text]
    assert 0 < sum(even) < TOKENS
    assert [record["exact_tie"] for record in records] == [int(is_even) for is_even in even]
    assert [record["top2_gap"] for record in records] == [0.0 if e else 0.25 for e in even]
    rows.validate(frame(records), "ties", "rows")


def test_a_text_of_one_token_has_one_row():
    records = tie_rows(parts.make_target().model, "p", [3], [5])
    assert [record["position"] for record in records] == [0]
