"""The corpus of a pretrained target: what it writes itself, drawn anew for every split.

Text that the target writes is text that a drafter meets, and it comes with the model. The draws are
keyed by seed, split and batch; rounding decides near ties, so another device or BLAS may write
another text after one. Documents are written in batches, one file each in the work folder, so that
a run that was killed goes on. A text that ends does not end its document: the target goes on.
"""

import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
from tqdm import tqdm

from diffdraft import files
from diffdraft.arrays import save_array
from diffdraft.config import SampledCorpus, SampleSize, Split
from diffdraft.errors import UserError
from diffdraft.streams import stream_key
from diffdraft.targets.load import Target
from diffdraft.targets.writing import greedy, sample, write

BATCH = 128  # texts side by side: most of a forward of one row is reading the weights
SPLIT_STRIDE = 1 << 32  # so that no batch of one split draws what another split draws


def sample_corpus(settings: SampledCorpus, target: Target, folder: Path, work: Path) -> None:
    """Write one int32 token stream a split, and `corpus.json`.

    Raises `UserError` for a tokenizer without a beginning-of-text token, or an opening that leaves
    no room in a document.
    """
    openings = [_encode(target, text, settings) for text in settings.openings]
    own = work / _identity(target.fingerprint, openings)
    splits = {}
    for number, name in enumerate(get_args(Split)):
        size, key = settings.splits[name], (settings.seed, number * SPLIT_STRIDE)
        stream = _stream(target.model, openings, size, key, own / name)
        save_array(folder / f"{name}.npy", stream)
        splits[name] = {"documents": size.documents, "tokens": len(stream)}
    record = {
        "settings": settings.model_dump(),
        "splits": splits,
        "target_fingerprint": target.fingerprint,
        "start_token": openings[0][0],
    }
    files.write_json(folder / "corpus.json", record)


def _identity(fingerprint: str, openings: list[list[int]]) -> str:
    """What batches depend on besides the settings: another model or tokenizer shares none."""
    return files.sha256_bytes(f"{fingerprint} {openings}".encode())[:16]


def _stream(
    model: Any, openings: list[list[int]], size: SampleSize, key: tuple[int, int], work: Path
) -> np.ndarray:
    """All tokens of a split, document after document; finished batches are read from `work`."""
    parts = []
    seed, first_step = key
    for first in tqdm(range(0, size.documents, BATCH), desc=work.name, disable=None, unit="batch"):
        part, rows = work / f"{first:06d}.npy", range(first, min(first + BATCH, size.documents))
        if not part.is_file():
            texts = [openings[row % len(openings)] for row in rows]
            draw = stream_key(seed, "data_sampling", first_step + first)
            save_array(part, documents(model, texts, size, draw))
            if not sys.stderr.isatty():
                print(f"{work.name}: {rows.stop} of {size.documents}", file=sys.stderr)
        parts.append(np.load(part, allow_pickle=False))
    return np.concatenate(parts).reshape(-1)


def documents(model: Any, openings: list[list[int]], size: SampleSize, key: int) -> np.ndarray:
    """Documents [B, tokens], one an opening: the opening, sampled text, greedy text."""
    generator = np.random.default_rng(key)

    def choose(logits_BV: np.ndarray, place: int) -> np.ndarray:
        # Every place draws, whether it is used or not, so that no text depends on the openings
        # beside it; how many there are does count.
        ids_B = sample(logits_BV, generator) if place < size.sampled else greedy(logits_BV, place)
        given = [opening[place] if place < len(opening) else -1 for opening in openings]
        return np.where(np.array(given) < 0, ids_B, given)

    return write(model, np.array([[opening[0]] for opening in openings]), size.tokens, choose)


def _encode(target: Target, text: str, settings: SampledCorpus) -> list[int]:
    ids: list[int] = target.tokenizer.encode(text)
    start = getattr(target.tokenizer, "bos_token_id", None)
    if start is None or not ids or ids[0] != start:
        raise UserError("tokenizer", "bos_token", "none in front of a text", "one, to begin with")
    shortest = min(size.tokens for size in settings.splits.values())
    if len(ids) >= shortest:
        found = f"{text!r}, {len(ids)} tokens"
        raise UserError("profile", "corpus.openings", found, f"fewer than {shortest} tokens")
    return ids
