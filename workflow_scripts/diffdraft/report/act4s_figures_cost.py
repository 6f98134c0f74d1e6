"""Figures of study `act4s` on cost: stages of a cycle, forwards by width, and slots that pay."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diffdraft.report import act4s_labels as marks
from diffdraft.report import style

Json = Mapping[str, Any]

# Colour and hatch, so that neighbours are distinct in grey too.
STAGES = {
    "draft_ms": ("draft", style.BLUE, ""),
    "verify_ms": ("verify", style.ORANGE, "//"),
    "commit_ms": ("commit", style.GREEN, ".."),
    "overhead_ms": ("overhead", style.GREY, "xx"),
}
RUNS = {"ksweep": "Fixed block sizes", "controls": "Controls", "adaptive": "Adaptive widths"}
KINDS = {
    "native": (style.INK, "*"),
    "draft": (style.BLUE, "o"),
    "verify": (style.VERMILION, "s"),
}
PART_LOOKS = (
    (style.BLUE, ""),
    (style.ORANGE, "//"),
    (style.GREEN, ".."),
    (style.PURPLE, "\\\\"),
    (style.VERMILION, "++"),
    (style.GREY, "xx"),
)


def stages(analysis: Json, summary: pd.DataFrame) -> Figure:
    """Plot 5: what a cycle costs, stage by stage, with the same boundaries in every arm."""
    pooled = marks.pick(summary, subset="pooled")
    runs = {run: marks.pick(pooled, run=run) for run in RUNS}
    # Native decoding has no cycles, and so no stages.
    runs = {run: rows[rows[list(STAGES)].sum(axis=1) > 0] for run, rows in runs.items()}
    sizes = [max(len(rows), 1) for rows in runs.values()]
    figure = style.new_figure(
        10,
        3.2 + 0.3 * sum(sizes),
        "Where the time of a cycle goes",
        marks.source(analysis, runs["ksweep"].max_tokens, "medians of ms a cycle"),
    )
    panels = figure.subplots(len(runs), 1, sharex=True, height_ratios=[n + 1 for n in sizes])
    for axes, (run, rows) in zip(panels, runs.items(), strict=True):
        _stacked(axes, rows)
        axes.set_title(RUNS[run])
    panels[-1].set_xlabel("milliseconds a cycle")
    style.legend_below(figure, panels[0], len(STAGES))
    return figure


def _stacked(axes: Axes, rows: pd.DataFrame) -> None:
    start = np.zeros(len(rows))
    for column, (name, colour, hatch) in STAGES.items():
        widths = rows[column].to_numpy()
        look = marks.bar(colour, hatch)
        axes.barh(range(len(rows)), widths, left=start, label=name, height=0.75, **look)
        start = start + widths
    marks.name_rows(axes, [marks.label(arm) for arm in rows.arm])


def curve(analysis: Json, table: pd.DataFrame) -> Figure:
    """Plot 14: cost of one forward by its width in each dtype, and the fitted lines."""
    dtypes = list(dict.fromkeys(table.dtype))
    figure = style.new_figure(
        10,
        5.2,
        "Cost of a forward by width",
        "medians and quartiles of timed forwards; lines are least-squares fits over their widths",
    )
    panels = figure.subplots(1, len(dtypes), squeeze=False)[0]
    for axes, dtype in zip(panels, dtypes, strict=True):
        for kind, rows in marks.pick(table, dtype=dtype).groupby("kind", sort=False):
            _kind(axes, str(kind), rows.sort_values("width"))
        for fit in analysis["cost_fits"]:
            if fit["dtype"] == dtype:
                _fit(axes, fit)
        axes.set(title=dtype, xlabel="rows in the forward")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=8.5)
    panels[0].set_ylabel("milliseconds a forward")
    return figure


def _kind(axes: Axes, kind: str, rows: pd.DataFrame) -> None:
    colour, marker = KINDS.get(kind, (style.PURPLE, "D"))
    bars = marks.spread(rows.ms_median, rows.ms_p25, rows.ms_p75)
    look: dict[str, Any] = {"fmt": marker, "color": colour, "capsize": 2, "ms": 5, "lw": 1}
    axes.errorbar(rows.width, rows.ms_median, yerr=bars, label=kind, **look)


def _fit(axes: Axes, fit: Json) -> None:
    widths = np.array(fit["widths"], dtype=float)
    colour, _ = KINDS.get(fit["kind"], (style.PURPLE, "D"))
    name = (
        f"{fit['kind']}: {fit['fixed_ms']:.2f} + {fit['per_row_ms']:.3f} × rows "
        f"(R² {fit['r_squared']:.2f})"
    )
    height = fit["fixed_ms"] + fit["per_row_ms"] * widths
    axes.plot(widths, height, color=colour, ls="--", lw=1.2, label=name)


def parts(table: pd.DataFrame) -> Figure:
    """Plot 14, second panel set: share of each part of the model in a forward, by width."""
    dtypes = list(dict.fromkeys(table.dtype))
    kinds = list(dict.fromkeys(table.kind))
    names = list(dict.fromkeys(table.part))
    figure = style.new_figure(
        10,
        1.6 + 2.4 * len(kinds),
        "What a forward spends its time on",
        "shares of the summed medians of its parts",
    )
    panels = figure.subplots(len(kinds), len(dtypes), squeeze=False, sharey=True)
    for line, kind in zip(panels, kinds, strict=True):
        for axes, dtype in zip(line, dtypes, strict=True):
            _part_bars(axes, marks.pick(table, dtype=dtype, kind=kind), names)
            axes.set(title=f"{kind}, {dtype}", xlabel="rows in the forward")
        line[0].set_ylabel("share of time")
    style.legend_below(figure, panels[0][0], min(len(names), 6))
    return figure


def _part_bars(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    widths = sorted(rows.width.unique())
    start = np.zeros(len(widths))
    for name, (colour, hatch) in zip(names, _looks(len(names)), strict=True):
        share = marks.pick(rows, part=name).set_index("width").share.reindex(widths).fillna(0)
        look = marks.bar(colour, hatch)
        axes.bar(range(len(widths)), share, bottom=start, label=name, **look)
        start = start + share.to_numpy()
    axes.set_xticks(range(len(widths)), [str(width) for width in widths])
    axes.set_ylim(0, 1.02)
    axes.grid(axis="x", visible=False)


def _looks(count: int) -> list[tuple[str, str]]:
    return [PART_LOOKS[index % len(PART_LOOKS)] for index in range(count)]


def break_even(table: pd.DataFrame) -> Figure:
    """Plot 14, last panel: chance that slot j survives against the chance at which it pays."""
    arms = list(dict.fromkeys(table.arm))
    figure = style.new_figure(
        10,
        4.4,
        "Which slots pay for themselves",
        "a slot pays while the chance that it is accepted is above its share of the cycle's cost",
    )
    panels = figure.subplots(1, len(arms), sharey=True, squeeze=False)[0]
    for axes, arm in zip(panels, arms, strict=True):
        rows = marks.pick(table, arm=arm).sort_values("j")
        axes.plot(rows.j, rows.p_survive, label="accepted", **(marks.series(0) | {"ms": 4}))
        axes.plot(rows.j, rows.break_even, label="break-even", **(marks.series(1) | {"ms": 4}))
        axes.set(title=marks.label(arm), xlabel="slot j")
        marks.whole_numbers(axes)
        axes.set(ylim=(0, 1.02), xlim=(0.5, rows.j.max() + 0.5))
    panels[0].set_ylabel("P(slot accepted)")
    style.legend_below(figure, panels[0], 2)
    return figure
