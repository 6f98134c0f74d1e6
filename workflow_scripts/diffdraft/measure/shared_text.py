"""Was any text that is measured also trained on?"""

from pathlib import Path

import numpy as np

from diffdraft import files


def shared_text(corpus: Path, drawn_NW: np.ndarray) -> tuple[str, int]:
    """What must not be, and how often it is: text that was trained on and is measured.

    By documents where the corpus deals them out; else by the measured windows, but for their first
    token, which may have been put there. Not by windows in the first case, since the Bible tells
    some things twice in the same words.
    """
    splits = files.read_json(corpus / "corpus.json")["splits"].values()
    if all(isinstance(split.get("documents"), list) for split in splits):
        documents = [index for split in splits for index in split["documents"]]
        return "no document is in two splits", len(documents) - len(set(documents))
    train = np.load(corpus / "train.npy", allow_pickle=False)
    return "no measured window stands in the training text", _held(train, drawn_NW[:, 1:])


def _held(stream: np.ndarray, windows_NW: np.ndarray) -> int:
    """How many windows the stream holds, wherever they begin."""
    starts = np.lib.stride_tricks.sliding_window_view(stream, windows_NW.shape[1])
    by_first = {int(token): starts[starts[:, 0] == token] for token in set(windows_NW[:, 0])}
    return sum(bool((by_first[int(row[0])] == row).all(axis=1).any()) for row in windows_NW)
