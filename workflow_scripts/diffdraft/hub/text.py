"""The corpus of a hub profile: windows of a data set's rows, by the target's own tokenizer.

Rows are taken in their order: those long enough, each followed by the end-of-text token, cut into
windows without overlap (qwen-block-diffusion-lab, training and evaluation pools).
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from diffdraft import files
from diffdraft.arrays import save_array
from diffdraft.config_hub import HubCorpus, PartSettings
from diffdraft.errors import UserError
from diffdraft.hub.download import download
from diffdraft.hub.rows import long_rows, parquet_of, part_files
from diffdraft.hub.snapshot import check_origin
from diffdraft.settings_files import read_settings


def build_text(
    corpus: HubCorpus, vocab_size: int, text: Path | None, target: Path, out: Path
) -> None:
    """Write one int32 token stream a split, and `corpus.json` with the hashes of what was read.

    `text` is a folder with PART*.parquet, or PART.txt with a row a line; without it the pinned data
    set is fetched. `target` is the model folder.

    Raises:
        UserError: a hub that does not answer, another data set or revision, a part that is missing
            or too short for one window, a tokenizer beyond the vocabulary, or a full disk.
    """
    folder = text or fetched(corpus)
    origin = check_origin(folder, corpus.dataset, corpus.revision, "dataset")
    tokenizer, end = load_tokenizer(target, vocab_size)
    parts = {piece.part: part_files(folder, corpus, piece.part) for piece in corpus.splits.values()}
    splits = {}
    for name, piece in corpus.splits.items():
        rows = long_rows(parts[piece.part], corpus.min_characters)
        stream = token_stream(rows, tokenizer, end, piece, corpus.window)
        if len(stream) == 0:
            found = f"fewer tokens in {piece.part} than a window of {corpus.window}"
            raise UserError(folder, f"splits.{name}", found, "one window or more")
        save_array(out / f"{name}.npy", stream)
        splits[name] = {"part": piece.part, "tokens": len(stream)}
    record = {
        "settings": corpus.model_dump(),
        "revision": origin.revision,
        "revision_known_by": origin.known_by,
        "splits": splits,
        "files": {path.name: files.described(path) for path in chain(*parts.values())},
    }
    files.write_json(out / "corpus.json", record)


def fetched(corpus: HubCorpus) -> Path:
    """The snapshot of the pinned data set, from the cache or the hub."""
    pattern = parquet_of(corpus)
    return download(corpus.dataset, corpus.revision, [pattern], "dataset", include=pattern)


def load_tokenizer(target: Path, vocab_size: int) -> tuple[Tokenizer, int]:
    """The tokenizer of a model folder and the id of its end-of-text token.

    Raises `UserError` if there is no such token, or more ids than rows of the embedding.
    """
    file = target / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no narrower one
        raise UserError(file, "file", f"{error}", "a tokenizer") from None
    file = target / "tokenizer_config.json"
    name = read_settings(file).get("eos_token")
    name = name.get("content") if isinstance(name, dict) else name
    end = tokenizer.token_to_id(name) if isinstance(name, str) else None
    if end is None:
        raise UserError(file, "eos_token", name, "a token of tokenizer.json")
    if (ids := tokenizer.get_vocab_size()) > vocab_size:
        raise UserError(target / "tokenizer.json", "ids", ids, f"at most {vocab_size}")
    return tokenizer, end


def token_stream(
    rows: Iterator[str], tokenizer: Tokenizer, end: int, piece: PartSettings, window: int
) -> np.ndarray:
    """The tokens [n * window] of whole windows, as many as the settings ask for; reads no more."""
    ids: list[int] = []
    for row in rows:
        if len(ids) >= piece.windows * window:
            break
        ids += [*tokenizer.encode(row).ids, end]
    n = min(len(ids) // window, piece.windows)
    return np.array(ids[: n * window], dtype=np.int32)
