"""Figures of study `act4s` on widths chosen while decoding, and on text that repeats itself."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diffdraft.report import act4s_labels as marks
from diffdraft.report import style

Json = Mapping[str, Any]

PAIRED = "paired speed-up over native (×)"
PHASES = {"before": "before the first repeat", "inside": "inside the loop"}
HATCHES = ("", "//", "..", "xx")


def adaptive(analysis: Json, summary: pd.DataFrame, choices: pd.DataFrame) -> Figure:
    """Plot 11: speed of the adaptive arms beside fixed K, and the widths that they chose."""
    rows = marks.pick(summary, run="adaptive", subset="pooled")
    rows = rows[rows.arm != "ar"]
    arms = list(rows.arm)
    figure = style.new_figure(
        10,
        2.4 + 0.36 * len(arms),
        "Widths chosen while decoding, beside fixed ones",
        marks.source(analysis, rows.max_tokens),
    )
    left, right = figure.subplots(1, 2, sharey=True)
    for place, arm in enumerate(arms):
        row = rows[rows.arm == arm]
        _, colour, marker = marks.family(arm)
        bars = marks.ratio_interval(row)
        left.errorbar(row.paired_speedup, [place], xerr=bars, fmt=marker, color=colour, capsize=3)
    best = rows.paired_speedup[rows.arm.map(marks.fixed_block).notna()].max()
    left.axvline(best, color=style.BLUE, lw=1, ls=":", label="best fixed K")
    marks.equal_line(left, vertical=True)
    marks.name_rows(left, [marks.label(arm) for arm in arms])
    left.set(title="Speed, interval over prompts", xlabel=PAIRED)
    _shares(right, choices, arms)
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=4, fontsize=9)
    return figure


def _shares(axes: Axes, choices: pd.DataFrame, arms: list[str]) -> None:
    blocks = sorted(choices.block_size.unique())
    start = np.zeros(len(arms))
    for index, block in enumerate(blocks):
        one = marks.pick(choices, block_size=block).set_index("arm").share
        share = one.reindex(arms).fillna(0).to_numpy()
        colour = marks.SERIES[index % len(marks.SERIES)][0]
        hatch = HATCHES[index % len(HATCHES)]
        look = marks.bar(colour, hatch)
        axes.barh(range(len(arms)), share, left=start, label=f"K={block}", height=0.7, **look)
        start = start + share
    axes.set(title="Widths chosen", xlabel="share of cycles", xlim=(0, 1))
    axes.grid(axis="y", visible=False)


def degeneration(analysis: Json, rows: pd.DataFrame, phases: pd.DataFrame) -> Figure:
    """Plot 12: loop fraction against acceptance by length; acceptance before and in the loop."""
    figure = style.new_figure(
        10,
        5.2,
        "Does repetition of the text raise acceptance?",
        f"{analysis['n_prompts']} prompts, one mark a prompt and length (left); "
        "cycles pooled (right)",
    )
    left, right = figure.subplots(1, 2)
    trends = {entry["max_tokens"]: entry for entry in analysis["degeneration"]["by_length"]}
    for index, (length, one) in enumerate(rows.groupby("max_tokens")):
        r = trends.get(length, {}).get("pearson_r")
        name = f"{length} tokens" + ("" if r is None else f", r = {r:+.2f}")
        look = marks.series(index) | {"ls": ""}
        left.plot(one.looped_fraction, one.acceptance_rate, alpha=0.65, label=name, **look)
    left.set(title="By prompt", ylabel="accepted share of proposals", xlim=(-0.02, 1.02))
    left.set_xlabel("looped share of the native text")
    left.set_ylim(bottom=0)
    _phase_bars(right, phases)
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize=9)
    return figure


def _phase_bars(axes: Axes, phases: pd.DataFrame) -> None:
    arms = list(dict.fromkeys(phases.arm))
    for index, (phase, words) in enumerate(PHASES.items()):
        rows = marks.pick(phases, phase=phase)
        places = np.array([arms.index(arm) for arm in rows.arm]) + 0.38 * (index - 0.5)
        colour = (style.BLUE, style.ORANGE)[index]
        look = marks.bar(colour, HATCHES[index])
        axes.barh(places, rows.mean_accepted, height=0.36, label=words, **look)
    marks.name_rows(axes, [marks.label(arm) for arm in arms])
    axes.tick_params(axis="y", labelsize=8.5)
    axes.set(title="By phase of the text", xlabel="accepted proposals a cycle (mean)")
