"""How arms of study `act4s` are called and drawn, and marks that its figures share."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from diffdraft.report import style

FIXED = re.compile(r"uno_k(\d+)")
WORDS = {
    "ar": "native",
    "untrained": "untrained adapter",
    "shuffled": "shuffled targets",
    "random": "random tokens",
    "adapt_entropy": "adaptive: entropy",
    "adapt_survival": "adaptive: survival",
    "adapt_survival_repaired": "adaptive: survival, repaired",
    "adapt_ev": "adaptive: expected value",
    "adapt_confidence": "adaptive: confidence",
}
PATTERNS = (
    (re.compile(r"uno_k(\d+)_again"), "K={0} again"),
    (FIXED, "K={0}"),
    (re.compile(r"refine(\d+)_k\d+"), "refined ×{0}"),
    (re.compile(r"ngram(\d+)_k\d+"), "n-gram, order {0}"),
    (re.compile(r"conf_k(\d+)"), "K={0}, confidence kept"),
)
# Colour and marker of what an arm does; each differs from the others in both.
FAMILIES = {
    "ar": ("native", style.INK, "*"),
    "uno": ("fixed K", style.BLUE, "o"),
    "refine": ("refinement", style.GREEN, "^"),
    "ngram": ("n-gram", style.ORANGE, "s"),
    "adapt": ("adaptive", style.PURPLE, "D"),
    "conf": ("fixed K, confidence kept", style.GREY, "P"),
    "untrained": ("control", style.VERMILION, "X"),
    "shuffled": ("control", style.VERMILION, "X"),
    "random": ("control", style.VERMILION, "X"),
}
# Colour, marker and dash of series that differ in one number, such as K or a length.
SERIES = (
    (style.BLUE, "o", "-"),
    (style.VERMILION, "s", "--"),
    (style.GREEN, "^", "-."),
    (style.PURPLE, "D", ":"),
    (style.ORANGE, "v", "-"),
    (style.GREY, "P", "--"),
    (style.INK, "X", "-."),
    (style.BLUE, "<", ":"),
    (style.VERMILION, ">", "-"),
    (style.GREEN, "*", "--"),
    (style.PURPLE, "p", "-."),
)
SUBSETS = {"pooled": "all prompts", "loop_free": "loop-free prompts"}


def label(arm: str) -> str:
    """What an arm is called in a figure; an unknown one by its id."""
    for pattern, words in PATTERNS:
        if match := pattern.fullmatch(arm):
            return words.format(*match.groups())
    return WORDS.get(arm, WORDS.get(arm.split("_")[0], arm))


def family(arm: str) -> tuple[str, str, str]:
    """Name, colour and marker of the kind of arm."""
    known = re.match(r"[a-z]+", arm)
    return FAMILIES.get(known.group() if known else "", ("other", style.GREY, "P"))


def fixed_block(arm: str) -> int | None:
    """K of a plain fixed-K arm, or None for any other."""
    match = FIXED.fullmatch(arm)
    return int(match.group(1)) if match else None


def fixed(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the plain fixed-K arms with a column `block`, in the order of K."""
    blocks = table.arm.map(fixed_block)
    chosen = table[blocks.notna()].assign(block=blocks.dropna().astype(int))
    return chosen.sort_values("block", kind="stable")


def series(index: int) -> dict[str, Any]:
    """Colour, marker and dash of the series with this index."""
    colour, marker, dash = SERIES[index % len(SERIES)]
    return {"color": colour, "marker": marker, "ls": dash}


def pick(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Rows whose columns have these values."""
    for name, value in values.items():
        table = table[table[name] == value]
    return table


def records(table: pd.DataFrame) -> Iterator[Any]:
    """Rows of a table, columns as attributes."""
    return iter(table.itertuples())


def bar(colour: str, hatch: str) -> dict[str, Any]:
    """Look of a bar that has neighbours: they differ in colour and, for print in grey, in hatch."""
    return {"color": colour, "hatch": hatch, "edgecolor": "white", "lw": 0}


def spread(centre: Any, low: Any, high: Any) -> Any:
    """Lengths of error bars below and above `centre`, shape [2, n], never negative."""
    middle = np.asarray(centre, dtype=float)
    return np.clip([middle - np.asarray(low), np.asarray(high) - middle], 0, None)


def ratio_interval(rows: pd.DataFrame) -> Any:
    """Error bars of the paired speed-ups of summary rows, shape [2, n]."""
    return spread(rows.paired_speedup, rows.paired_ci_low, rows.paired_ci_high)


def equal_line(axes: Axes, vertical: bool = False, label: str = "native speed") -> None:
    """The line where an arm is as fast as native decoding."""
    draw = axes.axvline if vertical else axes.axhline
    draw(1, color=style.INK, lw=1, ls="--", label=label)


def whole_numbers(axes: Axes) -> None:
    """Ticks of the lower axis at whole numbers only, even where there is but one."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Names of horizontal rows, the first on top."""
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def source(analysis: Any, tokens: Any, more: str = "") -> str:
    """Which runs a figure shows."""
    lengths = ", ".join(str(int(count)) for count in sorted(set(tokens)))
    runs = f"{analysis['n_prompts']} prompts × {analysis['repeats']} repeats, {lengths} tokens"
    return f"{runs}; {more}" if more else runs
