"""Cells and tables: numbers become text here, once, for both HTML and Markdown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

NOTHING = "–"
GOOD, BAD, PLAIN = "good", "bad", ""
LONG_WORD = 40  # characters; a longer word, such as a digest, may be broken at any of them


@dataclass(frozen=True)
class Cell:
    """Text of one table cell; `mark` is `good`, `bad` or empty and only colours it."""

    text: str
    mark: str = PLAIN
    numeric: bool = False

    @property
    def css(self) -> str:
        """Class names of the cell in HTML."""
        if self.numeric:
            return f"num {self.mark}".strip()
        longest = max(map(len, self.text.split()), default=0)
        width = "digest" if longest > LONG_WORD else "prose" if len(self.text) > LONG_WORD else ""
        return f"{width} {self.mark}".strip()


@dataclass(frozen=True)
class Table:
    """A captioned table. `head` names the columns; `note` stands under it."""

    caption: str
    head: list[str]
    rows: list[list[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise ValueError(f"{self.caption}: {len(row)} cells under {len(self.head)} heads")

    def numeric_column(self, index: int) -> bool:
        """Whether a column holds numbers, so that its head is aligned as they are."""
        return any(row[index].numeric for row in self.rows)


def number(value: Any, digits: int = 5) -> str:
    """A number as text: whole numbers in full, others to `digits` decimals, null as a dash.

    Shares and AUROCs are published to five decimals, so five is the default. A value that would
    print as zero without being zero keeps its leading digits instead.
    """
    if value is None or value != value:
        return NOTHING
    if isinstance(value, bool):
        return yes_no(value)
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}".replace("-", "−")
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = f"{value:.2g}"
    return text.replace("-", "−")


def interval(low: float | None, high: float | None, digits: int = 5) -> Cell:
    """`low to high`, or a dash when there is no interval."""
    if low is None or high is None:
        return Cell(NOTHING, numeric=True)
    return Cell(f"{number(low, digits)} to {number(high, digits)}", numeric=True)


def difference(ours: float | None, theirs: float | None, digits: int = 5) -> Cell:
    """Ours minus theirs with its sign, or a dash when either is not there."""
    if ours is None or theirs is None:
        return Cell(NOTHING, numeric=True)
    gap = ours - theirs
    return Cell(("+" if gap > 0 else "") + number(gap, digits), numeric=True)


def yes_no(value: bool) -> str:
    """`yes` or `no`."""
    return "yes" if value else "no"


def text(value: Any) -> Cell:
    """Any value as plain text."""
    return Cell(NOTHING if value is None else str(value))


def num(value: Any, digits: int = 5) -> Cell:
    """A right-aligned number."""
    return Cell(number(value, digits), numeric=True)


def outcome(passed: bool) -> Cell:
    """Whether a criterion or a part of one is met."""
    return Cell("met", GOOD) if passed else Cell("not met", BAD)


def agreement(same: bool) -> Cell:
    """Whether two things agree."""
    return Cell("same", GOOD) if same else Cell("differs", BAD)


def flatten(value: Any, prefix: str = "") -> Iterable[tuple[str, str]]:
    """Dotted key and text of every leaf of a JSON value, in the order of the file."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flatten(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        for index, inner in enumerate(value):
            yield from flatten(inner, f"{prefix}[{index}]")
    elif isinstance(value, list):
        yield prefix, ", ".join(map(str, value)) or NOTHING
    else:
        yield prefix, NOTHING if value in (None, {}) else str(value)
