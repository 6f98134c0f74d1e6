"""Going back in a recurrent state by undoing its rank-1 updates, where that is safe.

Undoing a step divides by the decay g and, along the key, by the gap 1 - beta |k|^2 that the step
left of what was there. A rounding error grows by as much. A guard multiplies these factors up, a
head at a time, and where the product would pass a limit it takes the recorded state instead.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from diffdraft.layers.gated_delta import DeltaSteps, undo_step

# Clamps of qwen-block-diffusion-lab: they only keep discarded branches finite, as what they touch
# is far beyond any limit in use.
SMALLEST_SHARE = 1e-30
SMALLEST_GAP = 1e-6


class Rewound(NamedTuple):
    """State [B, H, V, K]; how many head-steps were asked for, and how many were not undone."""

    state_BHVK: mx.array
    steps: int
    fallbacks: mx.array  # a count, not evaluated: the decoder must not wait for it


def rewind(states_BHVK: Sequence[mx.array], steps: DeltaSteps, rows: int, limit: float) -> Rewound:
    """The state after the first `rows` tokens of a block, undone from the state after all of them.

    `states_BHVK` are the recorded states, one more than there are rows. A step is undone if the
    product of 1 / (gap g) since the last exact state, this step included, is at most `limit`;
    else the head takes its recorded state, which is exact, and its product starts at 1 again.
    The squared norm of the key is measured, not taken as 1: the epsilon of its normalisation and
    bfloat16 leave it beside 1, and the gap may be smaller than that.
    """
    state_BHVK = states_BHVK[-1]
    gain_BH = mx.ones(state_BHVK.shape[:2])
    fallbacks = mx.array(0)
    for t in reversed(range(rows, len(states_BHVK) - 1)):
        k_BHK, v_BHV, g_BH, beta_BH = steps.row(t)
        gap_BH = 1 - beta_BH * (k_BHK * k_BHK).sum(axis=-1)
        gain_BH = gain_BH / mx.maximum(gap_BH * g_BH, SMALLEST_SHARE)
        safe_BH = gain_BH <= limit
        gap_BH = mx.maximum(gap_BH, SMALLEST_GAP)
        undone_BHVK = undo_step(state_BHVK, k_BHK, v_BHV, g_BH, gap_BH, beta_BH)
        state_BHVK = mx.where(safe_BH[..., None, None], undone_BHVK, states_BHVK[t])
        gain_BH = mx.where(safe_BH, gain_BH, 1.0)
        fallbacks = fallbacks + (~safe_BH).sum()
    asked = gain_BH.size * (len(states_BHVK) - 1 - rows)
    return Rewound(state_BHVK, asked, fallbacks)
