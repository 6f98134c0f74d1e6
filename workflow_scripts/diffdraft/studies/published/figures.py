"""Published figures as read from YAML: blocks of rows found by key, numbers asked for by column.

A figure that is not there is a `UserError` that names it; nothing is filled in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.reading import parse_yaml

Json = dict[str, Any]
KEYS = (
    *("run", "subset", "arm", "policy", "gate", "max_tokens", "context_length"),
    *("category", "prompt_index", "bin"),
)


def read_published(path: Path) -> Json:
    """Read the published figures. Raises `UserError` if the file is not a mapping."""
    published = parse_yaml(files.read_text(path).encode(), path)
    if not isinstance(published, dict):
        raise UserError(path, "file", type(published).__name__, "a mapping of published figures")
    return published


@dataclass(frozen=True)
class Row:
    """One row of a block, or the block's own values where it has no rows."""

    file: object
    block: str
    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Block and keys, as a reader would look the row up."""
        keys = [str(self.values[key]) for key in KEYS if key in self.values]
        return " ".join([self.block, *keys])

    def value(self, column: str) -> Any:
        """Anything that stands in the row. Raises `UserError` if nothing does."""
        if column not in self.values:
            raise UserError(self.file, f"{self.label}: {column}", "nothing", "this figure")
        return self.values[column]

    def __getitem__(self, column: str) -> float:
        """A finite number. Raises `UserError` if there is none."""
        return self._number(column, self.value(column))

    def numbers(self, column: str) -> list[float]:
        """A list of numbers. Raises `UserError` if it is not one."""
        found = self.value(column)
        if not isinstance(found, list):
            raise UserError(self.file, f"{self.label}: {column}", found, "a list of numbers")
        return [self._number(column, each) for each in found]

    def positive(self, column: str) -> float:
        """A number above zero, which a ratio can be made of."""
        number = self[column]
        if number <= 0:
            raise UserError(self.file, f"{self.label}: {column}", number, "a number above 0")
        return number

    def _number(self, column: str, found: Any) -> float:
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        if not is_number or not float("-inf") < found < float("inf"):
            raise UserError(self.file, f"{self.label}: {column}", found, "a finite number")
        return found


class Figures:
    """The blocks of one published study."""

    def __init__(self, values: Json, file: object = "published figures") -> None:
        self.values, self.file = values, file

    def block(self, name: str) -> Row:
        """A block's own values. Raises `UserError` if the block is not there."""
        block = self.values.get(name)
        if not isinstance(block, Mapping):
            raise UserError(self.file, name, "nothing", "a block of figures")
        return Row(self.file, name, block)

    def rows(self, block: str, **keys: object) -> list[Row]:
        """The rows of a block that have these keys, in the order of the file."""
        listed = self.block(block).value("rows")
        if not isinstance(listed, list) or not all(isinstance(row, Mapping) for row in listed):
            raise UserError(self.file, f"{block}.rows", "something else", "a list of rows")
        return [
            Row(self.file, block, row)
            for row in listed
            if all(row.get(key) == wanted for key, wanted in keys.items())
        ]

    def row(self, block: str, **keys: object) -> Row:
        """The one row of a block that has these keys. Raises `UserError` unless there is one."""
        found = self.rows(block, **keys)
        if len(found) != 1:
            named = ", ".join(f"{key} {value}" for key, value in keys.items())
            raise UserError(self.file, f"{block}: {named}", f"{len(found)} rows", "one row")
        return found[0]
