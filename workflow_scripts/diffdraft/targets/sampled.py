"""The corpus of a pretrained target: what it writes itself, drawn anew for every split.

Text that the target writes is text that a drafter meets, needs no licence, and is the same for
everybody who has the model. Documents are written in batches, one file each in the work folder, so
that a run that was killed goes on.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from diffdraft import files
from diffdraft.arrays import save_array
from diffdraft.config import SampledCorpus, SampleSize
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
    record: dict[str, Any] = {"settings": settings.model_dump(), "splits": {}}
    for number, (name, size) in enumerate(settings.splits.items()):
        batches = range(0, size.documents, BATCH)
        parts = []
        for first in tqdm(batches, desc=name, disable=None, unit="batch"):
            part = work / f"{name}_{first:06d}.npy"
            if not part.is_file():
                key = stream_key(settings.seed, "data_sampling", number * SPLIT_STRIDE + first)
                rows = range(first, min(first + BATCH, size.documents))
                texts = [openings[row % len(openings)] for row in rows]
                save_array(part, documents(target.model, texts, size, key))
                if not sys.stderr.isatty():
                    print(f"{name}: {rows.stop} of {size.documents}", file=sys.stderr)
            parts.append(np.load(part, allow_pickle=False))
        stream = np.concatenate(parts).reshape(-1)
        save_array(folder / f"{name}.npy", stream)
        record["splits"][name] = {"documents": size.documents, "tokens": len(stream)}
    record["target_fingerprint"] = target.fingerprint
    files.write_json(folder / "corpus.json", record)


def documents(model: Any, openings: list[list[int]], size: SampleSize, key: int) -> np.ndarray:
    """Documents [B, tokens], one an opening: the opening, sampled text, greedy text."""
    generator = np.random.default_rng(key)

    def choose(logits_BV: np.ndarray, place: int) -> np.ndarray:
        # Every place draws, whether it is used or not, so that no text depends on the openings
        # beside it.
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
