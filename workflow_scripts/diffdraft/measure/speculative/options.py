"""Options of the command by hand: text as it was typed, turned into numbers or a one-line error."""

import json
import math
import re
import sys

from diffdraft.errors import UserError

WHOLE = re.compile(r"\d{1,9}")
LARGEST = sys.float_info.max
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def whole(option: str, text: str, least: int = 1) -> int:
    """A whole number of at least `least`, of at most nine digits."""
    if not WHOLE.fullmatch(text.strip()) or int(text) < least:
        raise UserError(
            option, "value", repr(text), f"a whole number of at least {least}, of at most 9 digits"
        )
    return int(text)


def whole_list(option: str, text: str) -> list[int]:
    """Whole numbers of at least 1 with commas between them, each once."""
    values = [whole(option, part) for part in text.split(",")]
    if len(set(values)) < len(values):
        raise UserError(option, "value", repr(text), "each number once")
    return values


def real(option: str, text: str) -> float:
    """A finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UserError(option, "value", repr(text), "a number of at least 0")
    return value


def cost_ms(option: str, text: str) -> dict[int, float]:
    """Milliseconds of a cycle by block size, from JSON such as {"2": 46.7, "4": 49.8}."""
    expected = 'JSON of block sizes and milliseconds above 0, such as {"2": 46.7, "4": 49.8}'
    if not text.strip():
        return {}
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):  # also an integer of thousands of digits
        pairs = None
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise UserError(option, "value", repr(text), expected)
    costs: dict[int, float] = {}
    for size, ms in pairs:
        number = isinstance(ms, int | float) and not isinstance(ms, bool)
        if not WHOLE.fullmatch(size) or int(size) < 1 or not number or not 0 < ms <= LARGEST:
            raise UserError(option, f"entry {size!r}", repr(ms), expected)
        if int(size) in costs:
            raise UserError(option, f"entry {size!r}", "a second time", "each block size once")
        costs[int(size)] = float(ms)
    return costs


def tag(option: str, text: str) -> str:
    """What file names begin with: letters, digits, dot, dash and underscore."""
    if not TAG.fullmatch(text):
        raise UserError(option, "value", repr(text), "letters, digits, '.', '-' and '_'")
    return text
