"""Token ids as text for a reader, piece by piece, with what the drafter guessed marked in it."""

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TextIO

REPLACEMENT = "\ufffd"
# Text must not move a terminal's cursor or recolour it; line ends and tabs may stay.
CONTROL = {
    code: REPLACEMENT for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}


def harmless(text: str) -> str:
    """Text without control characters."""
    return text.translate(CONTROL)


class Marks(NamedTuple):
    """What is put around guessed text, and how a legend calls it."""

    begin: str
    end: str
    called: str


UNDERLINED = Marks("\x1b[4;36m", "\x1b[0m", "underlined")
BRACKETED = Marks("[", "]", "in brackets")
UNMARKED = Marks("", "", "not marked")


def marks_for(stream: TextIO, plain: bool, environment: Mapping[str, str] = os.environ) -> Marks:
    """Underlined on a terminal that has colours, else in brackets; `plain` text has no marks."""
    if plain:
        return UNMARKED
    colours = environment.get("TERM") != "dumb" and not environment.get("NO_COLOR")
    return UNDERLINED if stream.isatty() and colours else BRACKETED


class MarkedText:
    """Turns tokens into text as they come.

    The detokenizer, as `mlx_lm.load` sets it, reads the prompt first, since a first token loses
    the blank before its word. A character of several tokens is told, and marked, with its last.
    """

    def __init__(self, tokenizer: Any, prompt_ids: Sequence[int], marks: Marks) -> None:
        self._marks = marks
        self._detokenizer = tokenizer.detokenizer
        for token in prompt_ids:
            self._detokenizer.add_token(token)
        self._new_text()
        self._guessed = False

    def add(self, tokens: Sequence[int], guessed: Sequence[bool]) -> str:
        """The text of further tokens, the guessed ones marked."""
        pieces = []
        for token, self._guessed in zip(tokens, guessed, strict=True):
            self._detokenizer.add_token(token)
            pieces.append((self._guessed, self._new_text()))
        runs = groupby((piece for piece in pieces if piece[1]), key=lambda piece: piece[0])
        return "".join(self._marked(mark, "".join(text for _, text in run)) for mark, run in runs)

    def finish(self) -> str:
        """What was held back for tokens that did not come."""
        self._detokenizer.finalize()
        return self._marked(self._guessed, self._new_text())

    def _marked(self, guessed: bool, text: str) -> str:
        return f"{self._marks.begin}{text}{self._marks.end}" if guessed and text else text

    def _new_text(self) -> str:
        return harmless(str(self._detokenizer.last_segment))
