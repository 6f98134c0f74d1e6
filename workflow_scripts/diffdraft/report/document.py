"""The report as data: verdict cards and sections of blocks, rendered to HTML and to Markdown."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from diffdraft.prereg.verdict import StopStatus
from diffdraft.report import style
from diffdraft.report.cells import Table

PNG_WIDTH_AT = slice(16, 20)  # of the IHDR chunk, which a PNG must begin with
PNG_HEIGHT_AT = slice(20, 24)
CSS_PIXELS_AN_INCH = 100


@dataclass(frozen=True)
class Picture:
    """A figure: file stem, what it shows in one sentence, and the PNG."""

    stem: str
    caption: str
    png: bytes = field(repr=False)

    @property
    def width(self) -> int:
        """Pixels across."""
        return int.from_bytes(self.png[PNG_WIDTH_AT], "big")

    @property
    def height(self) -> int:
        """Pixels down."""
        return int.from_bytes(self.png[PNG_HEIGHT_AT], "big")

    @property
    def shown_width(self) -> int:
        """Width in CSS pixels that shows the text of every figure at one size."""
        return round(self.width / style.DPI * CSS_PIXELS_AN_INCH)

    @property
    def data_uri(self) -> str:
        """The PNG inside the page itself, so that the page needs no other file."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")


@dataclass(frozen=True)
class Block:
    """One piece of a section; `value` is a string, a list of strings, a Table or a Picture."""

    kind: Literal["heading", "paragraph", "list", "commands", "table", "picture"]
    value: str | Sequence[str] | Table | Picture


@dataclass(frozen=True)
class Section:
    """A titled run of blocks; `in_summary` says whether the Markdown summary has it too."""

    anchor: str
    title: str
    blocks: list[Block]
    in_summary: bool = True


@dataclass(frozen=True)
class Card:
    """The verdict of one study, as the report opens with it."""

    study: str
    title: str
    question: str
    scope: str
    verdict: str
    stop: StopStatus | None
    failures: list[tuple[str, str]]
    frozen: bool

    @property
    def draft_line(self) -> str:
        """Said of a verdict by a plan that could still be changed; empty for a frozen one."""
        return "" if self.frozen else "PLAN NOT FROZEN"

    @property
    def stop_line(self) -> str:
        """Whether the next stage runs, said so that it cannot be overlooked."""
        if self.stop is None:
            return ""
        line = f"{self.stop.stage}: {self.stop.status}"
        return line if self.stop.status == "OPEN" else f"STOP — {line}"


@dataclass(frozen=True)
class Report:
    """Everything the page and the summary show."""

    title: str
    profile: str
    evidence_line: str
    studies: list[Card]
    sections: list[Section]

    def pictures(self) -> list[Picture]:
        """All figures, in the order shown."""
        blocks = (block.value for section in self.sections for block in section.blocks)
        return [value for value in blocks if isinstance(value, Picture)]


def heading(value: str) -> Block:
    """A heading inside a section."""
    return Block("heading", value)


def paragraph(value: str) -> Block:
    """Running text."""
    return Block("paragraph", value)


def bullets(items: Sequence[str]) -> Block:
    """A list."""
    return Block("list", items)


def commands(lines: Sequence[str]) -> Block:
    """Lines to type."""
    return Block("commands", lines)


def table(value: Table) -> Block:
    """A table."""
    return Block("table", value)


def picture(value: Picture) -> Block:
    """A figure."""
    return Block("picture", value)
