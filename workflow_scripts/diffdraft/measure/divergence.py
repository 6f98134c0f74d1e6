"""Where a drafted text leaves the target's own: was it arithmetic, or a defect?

Greedy speculative decoding says what greedy decoding says, but for rounding: forwards of other
widths add up in other orders, and where two logits are as good as equal another one may come out
on top. The audit looks at the first difference of a text with one forward over the whole text
before it, without a cache, and tells how far apart the two contested logits are there, in units
in the last place of the target's dtype (qwen-block-diffusion-lab, divergence audit).
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from diffdraft.stats.texts import first_divergence
from diffdraft.stats.ulp import ulp

Row = dict[str, Any]


def dtype_name(array: mx.array) -> str:
    """The dtype of an array as row files call it, such as "bfloat16"."""
    return str(array.dtype).removeprefix("mlx.core.")


class DivergenceAudit:
    """Audits the divergences of one target. Repeated cases cost one forward.

    `tolerance`, in ULPs, is how many a gap "within one ULP" may have: slightly above 1, so that
    the rule does not hang on the last digit of a quotient.
    """

    def __init__(self, model: Any, tolerance: float) -> None:
        self._model, self._tolerance = model, tolerance
        self._known: dict[tuple[tuple[int, ...], int, int], Row] = {}

    def row(
        self, prompt_ids: Sequence[int], ar_tokens: Sequence[int], tokens: Sequence[int]
    ) -> Row | None:
        """The measured columns of `divergences` (`dtype`, `position` ... `near_maximum`).

        None if the texts are the same. The caller adds which generation it was.

        Raises:
            RuntimeError: one text ends where the other goes on, which no rounding explains.
        """
        position = first_divergence(ar_tokens, tokens)
        if position == -1:
            return None
        if position >= min(len(ar_tokens), len(tokens)):
            raise RuntimeError(f"texts of {len(ar_tokens)} and {len(tokens)} tokens, else equal")
        before = (*prompt_ids, *ar_tokens[:position])
        case = before, ar_tokens[position], tokens[position]
        if case not in self._known:
            self._known[case] = self._contest(*case)
        return {**self._known[case], "position": position}

    def _contest(self, before: tuple[int, ...], ar_token: int, spec_token: int) -> Row:
        """Logits of both tokens after `before`: how far they are from each other and the best."""
        logits_BTV = self._model(mx.array([before], dtype=mx.int32))
        dtype = dtype_name(logits_BTV)
        logits_V = np.array(logits_BTV[0, -1].astype(mx.float32)).astype(np.float64)
        ar, spec, best = (float(logits_V[i]) for i in (ar_token, spec_token, logits_V.argmax()))
        gap, unit = abs(ar - spec), float(ulp(max(abs(ar), abs(spec)), dtype))
        from_best = best - min(ar, spec)
        return {
            "dtype": dtype,
            "ar_token": ar_token,
            "spec_token": spec_token,
            "ar_logit": ar,
            "spec_logit": spec,
            "max_logit": best,
            "gap": gap,
            "ulp": unit,
            "gap_in_ulps": gap / unit,
            "exact_tie": int(gap == 0),
            "within_one_ulp": int(gap <= self._tolerance * unit),
            "near_maximum": int(from_best <= self._tolerance * float(ulp(best, dtype))),
        }
