"""Windows of the target's own text: what a drafter meets when it is used.

A drafter drafts continuations that the target itself writes. On a small target these are far from
the corpus (greedy text repeats itself), and an adapter that has only seen the corpus drafts them
badly. So part of the training windows are greedy continuations of training prompts.
"""

from typing import Any

import numpy as np

from diffdraft.config_adapters import ContinuationSettings
from diffdraft.errors import UserError
from diffdraft.targets.writing import greedy, write

BATCH = 64  # prompts decoded side by side


def greedy_continuations(model: Any, prompts_NP: np.ndarray, window: int) -> np.ndarray:
    """Extend every prompt [N, P] greedily to a whole window [N, W], int32."""
    batches = np.split(prompts_NP, range(BATCH, len(prompts_NP), BATCH))
    return np.concatenate([write(model, batch, window, greedy) for batch in batches])


def training_windows(
    model: Any, corpus_NW: np.ndarray, settings: ContinuationSettings | None
) -> np.ndarray:
    """The windows that an adapter trains on: the corpus, or half of it and half continuations.

    The first n corpus windows give the prompts, the next n are used as they are, so no text is in
    both halves. Raises `UserError` when the corpus has fewer than 2 n windows.
    """
    if settings is None:
        return corpus_NW
    n, window = settings.windows, corpus_NW.shape[1]
    if len(corpus_NW) < 2 * n:
        raise UserError("train.npy", "windows", len(corpus_NW), f"twice continuations.windows {n}")
    written = greedy_continuations(model, corpus_NW[:n, : settings.prompt_tokens], window)
    return np.concatenate([corpus_NW[n : 2 * n], written])
