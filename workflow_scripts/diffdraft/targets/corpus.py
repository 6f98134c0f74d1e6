"""The embedded corpus: documents from an installed package, disjoint splits, a BPE tokenizer.

The package is read as data (its code is never imported) and its file is pinned by SHA-256. A
chapter is a document; documents, not windows, are dealt to the splits, so that no window of one
split continues in another. The tokenizer is trained on the training split alone.
"""

import json
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from diffdraft import files
from diffdraft.arrays import save_array
from diffdraft.config import CorpusSettings
from diffdraft.errors import UserError

END_OF_TEXT = "<|endoftext|>"


def corpus_file(settings: CorpusSettings) -> Path:
    """The data file of the installed package, checked against its pinned SHA-256."""
    try:
        path = Path(str(distribution(settings.package).locate_file(settings.file)))
    except PackageNotFoundError:
        raise UserError(
            "profile", "corpus.package", f"{settings.package} not installed", "an installed package"
        ) from None
    if not path.is_file():
        raise UserError(settings.package, "corpus.file", "nothing there", settings.file)
    found = files.sha256_file(path)
    if found != settings.sha256:
        raise UserError(settings.file, "corpus.sha256", found, settings.sha256)
    return path


def read_documents(path: Path) -> list[str]:
    """One text a chapter, in the order of the file; verses are joined by a blank."""
    chapters: dict[tuple[str, int], list[str]] = {}
    for line in files.read_text(path).splitlines():
        verse = json.loads(line)
        chapters.setdefault((verse["book"], verse["chapter"]), []).append(verse["text"].strip())
    return [" ".join(verses) for verses in chapters.values()]


def split_documents(n: int, settings: CorpusSettings) -> dict[str, list[int]]:
    """Deal document indices to the named splits by one seeded permutation; disjoint, all used."""
    order = np.random.default_rng(settings.seed).permutation(n)
    bounds = np.round(np.cumsum(list(settings.splits.values())) * n).astype(int)
    starts = [0, *bounds[:-1]]
    return {
        name: sorted(order[start:stop].tolist())
        for name, start, stop in zip(settings.splits, starts, bounds, strict=True)
    }


def train_tokenizer(texts: list[str], vocab_size: int) -> Tokenizer:
    """A byte-level BPE tokenizer; the end-of-text token has id 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def build_corpus(settings: CorpusSettings, folder: Path) -> None:
    """Write tokenizer files, one int32 token stream a split, and `corpus.json`.

    In a stream every document is followed by the end-of-text id.
    """
    documents = read_documents(corpus_file(settings))
    splits = split_documents(len(documents), settings)
    tokenizer = train_tokenizer([documents[i] for i in splits["train"]], settings.vocab_size)
    if tokenizer.get_vocab_size() != settings.vocab_size:
        found = tokenizer.get_vocab_size()
        raise UserError(
            "profile", "corpus.vocab_size", f"{settings.vocab_size}", f"at most {found}"
        )
    end = tokenizer.token_to_id(END_OF_TEXT)
    record: dict[str, Any] = {"settings": settings.model_dump(), "splits": {}}
    for name, indices in splits.items():
        encoded = tokenizer.encode_batch([documents[i] for i in indices])
        stream = np.array([i for text in encoded for i in [*text.ids, end]], dtype=np.int32)
        save_array(folder / f"{name}.npy", stream)
        record["splits"][name] = {"documents": indices, "tokens": len(stream)}
    files.write_text(folder / "tokenizer.json", tokenizer.to_str(pretty=True))
    files.write_json(
        folder / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_OF_TEXT},
    )
    files.write_json(folder / "corpus.json", record)


def read_windows(folder: Path, split: str, window: int) -> np.ndarray:
    """Contiguous windows [n, window] of a split's token stream, without overlap.

    Raises `UserError` when the split is shorter than one window.
    """
    path = folder / f"{split}.npy"
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "a token stream; build the corpus first")
    try:
        stream = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise UserError(
            path, "file", error, "a whole NumPy array; build the corpus again"
        ) from None
    n = len(stream) // window
    if n == 0:
        raise UserError(path, "tokens", len(stream), f"at least one window of {window}")
    return stream[: n * window].reshape(n, window)


def with_start_token(folder: Path, windows_NW: np.ndarray) -> np.ndarray:
    """The windows, each beginning with the token that every text of the corpus begins with.

    A window may be the later part of a text, and a model that learned with such a token is not
    itself without it. Where `corpus.json` names none, the windows as they are.
    """
    record = folder / "corpus.json"
    start = files.read_json(record).get("start_token") if record.is_file() else None
    if not isinstance(start, int):
        return windows_NW
    windows_NW = windows_NW.copy()
    windows_NW[:, 0] = start
    return windows_NW
