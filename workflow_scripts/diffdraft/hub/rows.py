"""The rows of a data set: which files hold a part of it, and the texts in them."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pandas as pd

from diffdraft import files
from diffdraft.config_hub import HubCorpus
from diffdraft.errors import UserError

COLUMN = "text"


def parquet_of(corpus: HubCorpus) -> str:
    """The files of the pinned configuration inside a snapshot."""
    return f"{corpus.configuration}/*.parquet"


def part_files(folder: Path, corpus: HubCorpus, part: str) -> list[Path]:
    """The files of one part, in order; in a snapshot they lie in the configuration's folder.

    Raises `UserError` if there are none.
    """
    inside = folder / corpus.configuration
    folder = inside if inside.is_dir() else folder
    found = sorted(folder.glob(f"{part}*.parquet")) or sorted(folder.glob(f"{part}.txt"))
    if not found:
        expected = f"{part}*.parquet, or {part}.txt with a row a line"
        raise UserError(folder, part, "no file of it", expected)
    return found


def long_rows(paths: list[Path], min_characters: int) -> Iterator[str]:
    """Rows whose text, without the blanks around it, is long enough."""
    rows = chain.from_iterable(map(read_rows, paths))
    return (row for row in rows if len(row.strip()) >= min_characters)


def read_rows(path: Path) -> Iterator[str]:
    """The rows of one file. Raises `UserError` for one that is no such file."""
    if path.suffix == ".txt":
        yield from files.read_text(path).split("\n")
        return
    try:
        yield from pd.read_parquet(path, columns=[COLUMN])[COLUMN]
    except ImportError:
        action = "Install it by `make hub`, or give text files"
        raise UserError(path, "format", "Parquet, and no pyarrow", "pyarrow", action) from None
    except (ValueError, KeyError) as error:  # pyarrow's own errors are ValueErrors
        said = str(error).splitlines()[0]
        raise UserError(path, "file", said, f"Parquet with a column {COLUMN}") from None
