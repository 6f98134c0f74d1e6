"""The rows of a data set: which files hold a part of it, and the texts in them."""

import re
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

    Raises `UserError` if there are none, or not as many as their names say.
    """
    inside = folder / corpus.configuration
    folder = inside if inside.is_dir() else folder
    shard = re.compile(rf"{re.escape(part)}(-(\d+)-of-(\d+)(-\w+)?)?\.parquet")
    parquet = {path: named for path in folder.glob("*") if (named := shard.fullmatch(path.name))}
    found = sorted(parquet) or sorted(folder.glob(f"{part}.txt"))
    if not found:
        expected = f"{part}.parquet, its numbered shards, or {part}.txt with a row a line"
        raise UserError(folder, part, "no file of it", expected)
    _check_numbers(folder, part, [parquet[path] for path in sorted(parquet)])
    return found


def _check_numbers(folder: Path, part: str, shards: list[re.Match[str]]) -> None:
    """A shard missing is another text: windows are cut from the rows in their order."""
    numbers = [int(shard[2]) if shard[1] else 0 for shard in shards]
    counts = {int(shard[3]) if shard[1] else 1 for shard in shards}
    if counts and (len(counts) > 1 or numbers != list(range(max(counts)))):
        found = ", ".join(shard[0] for shard in shards)
        raise UserError(folder, part, found, f"each of {max(counts)} shards once")


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
        table = pd.read_parquet(path, columns=[COLUMN])
    except ImportError:
        action = "Install it by `make hub`, or give text files"
        raise UserError(path, "format", "Parquet, and no pyarrow", "pyarrow", action) from None
    # What pyarrow raises is a ValueError, or an OSError where pages or the footer are torn.
    except (ValueError, KeyError, OSError) as error:
        said = f"{type(error).__name__} {error}".splitlines()[0]
        raise UserError(path, "file", said, f"Parquet with a column {COLUMN}") from None
    for place, row in enumerate(table[COLUMN]):
        if not isinstance(row, str):
            raise UserError(path, COLUMN, f"{row!r} in row {place}", "a text in every row")
        yield row
