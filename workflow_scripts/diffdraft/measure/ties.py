"""How often the target itself is undecided: the gap of its two best logits along its own text.

A tie breaks one way in a forward of one row and another way in a wider one, because they add up in
different orders. The share of exact ties says how many divergences arithmetic alone can make.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from diffdraft.measure.divergence import dtype_name

Row = dict[str, Any]


def tie_rows(
    model: Any, prompt_id: str, prompt_ids: Sequence[int], ar_tokens: Sequence[int]
) -> list[Row]:
    """Rows of `ties`, one for each of `ar_tokens`, from one causal forward without a cache.

    `position` counts from the first token after the prompt; `top2_gap` is in logits, taken in
    the target's dtype and subtracted in float32.
    """
    ids_BT = mx.array([[*prompt_ids, *ar_tokens[:-1]]], dtype=mx.int32)
    logits_TV = model(ids_BT)[0, len(prompt_ids) - 1 :]
    dtype = dtype_name(logits_TV)
    best_T2 = np.array(mx.topk(logits_TV.astype(mx.float32), 2, axis=-1))
    gaps = best_T2.max(axis=-1) - best_T2.min(axis=-1)
    return [
        {
            "prompt_id": prompt_id,
            "dtype": dtype,
            "position": position,
            "top2_gap": gap,
            "exact_tie": int(gap == 0),
        }
        for position, gap in enumerate(gaps.tolist())
    ]
