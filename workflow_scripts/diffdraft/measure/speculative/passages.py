"""Contexts of the run `context`: passages of held-out text, each at several lengths.

All lengths of a passage end at the same token, so that the text before the continuation is all
they differ in, and length and draftability are not confounded. Where a corpus says that its texts
begin with a token of their own, every length does.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.measure.workloads import EncodedPrompt
from diffdraft.streams import stream_key
from diffdraft.targets.corpus import read_windows, with_start_token

SPLIT = "prompts"
CATEGORY = "context"


def passages(corpus: Path, lengths: Sequence[int], n: int, seed: int) -> list[list[EncodedPrompt]]:
    """For each length, the `n` passages; passage i is the same text in all of them.

    Windows are drawn from the split without replacement, by a stream of `seed`.

    Raises:
        UserError: a corpus that has no `n` windows as long as the longest length.
    """
    windows_NW = read_windows(corpus, SPLIT, max(lengths))
    if len(windows_NW) < n:
        found = f"{len(windows_NW)} windows of {max(lengths)} tokens"
        raise UserError(corpus / f"{SPLIT}.npy", "passages", found, f"at least {n}")
    generator = np.random.default_rng(stream_key(seed, "data_sampling", 0))
    chosen_NW = windows_NW[generator.choice(len(windows_NW), n, replace=False)]
    return [_passages(with_start_token(corpus, chosen_NW[:, -length:])) for length in lengths]


def _passages(texts_NW: np.ndarray) -> list[EncodedPrompt]:
    return [
        EncodedPrompt(f"passage_{place:02d}", CATEGORY, ids)
        for place, ids in enumerate(texts_NW.tolist())
    ]


def passages_sha256(corpus: Path) -> str:
    """Digest of the token stream that passages are taken from."""
    return files.sha256_file(corpus / f"{SPLIT}.npy")
