"""Figures of study `act4s` on what is accepted: survival, histogram, refinement, controls."""

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
PREFIX = "accepted proposals a cycle (mean)"


def survival(analysis: Json, table: pd.DataFrame) -> Figure:
    """Plot 3: share of cycles that accept at least j proposals, fixed K and controls."""
    figure = style.new_figure(
        10, 5.2, "How far a draft survives", f"{analysis['n_prompts']} prompts; cycles pooled"
    )
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (run, title) in zip(
        panels, {"ksweep": "Fixed block sizes", "controls": "Controls"}.items(), strict=True
    ):
        arms = marks.pick(table, run=run)
        arms = arms[arms.arm != "ar"]
        for index, (arm, rows) in enumerate(arms.groupby("arm", sort=False)):
            rows = rows.sort_values("j")
            look = marks.series(index) | {"ms": 5}
            axes.plot(rows.j, rows.p_survive, label=marks.label(str(arm)), **look)
        axes.set(title=title, xlabel="j", ylim=(0, 1.02))
        marks.whole_numbers(axes)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, fontsize=8.5)
    panels[0].set_ylabel("P(at least j proposals accepted)")
    return figure


def histogram(analysis: Json, table: pd.DataFrame) -> Figure:
    """Plot 4: how many proposals a cycle accepts, one panel a fixed K."""
    rows = marks.fixed(marks.pick(table, run="ksweep"))
    blocks = sorted(rows.block.unique())
    figure = style.new_figure(
        10,
        3.8,
        "Proposals accepted in a cycle",
        f"{analysis['n_prompts']} prompts; cycles pooled; n is their number",
    )
    panels = figure.subplots(1, len(blocks), sharey=True, squeeze=False)[0]
    for axes, block in zip(panels, blocks, strict=True):
        one = rows[rows.block == block]
        axes.bar(one.accepted, one.probability, color=style.BLUE, width=0.8)
        axes.set_title(f"K={block}\nn={int(one.cycles.sum()):,}", fontsize=10)
        marks.whole_numbers(axes)
        axes.set_xlim(-0.7, max(one.accepted.max(), block - 1) + 0.7)
        axes.set_xlabel("accepted")
        axes.grid(axis="x", visible=False)
    panels[0].set_ylabel("share of cycles")
    return figure


def refinement(analysis: Json, summary: pd.DataFrame) -> Figure:
    """Plot 7: accepted prefix and speed-up by the number of draft passes."""
    rows = marks.pick(summary, run="controls", subset="pooled")
    passes = rows.arm.str.extract(r"^refine(\d+)_k\d+$", expand=False)
    rows = rows[passes.notna()].assign(passes=passes.dropna().astype(int)).sort_values("passes")
    figure = style.new_figure(
        9,
        4.2,
        "More draft passes: more accepted, at what speed",
        marks.source(analysis, rows.max_tokens),
    )
    left, right = figure.subplots(1, 2)
    places = range(len(rows))
    left.plot(places, rows.mean_accepted_prefix, **marks.series(2))
    left.set(title="Accepted", ylabel=PREFIX)
    left.set_ylim(bottom=0)
    bars = marks.ratio_interval(rows)
    right.errorbar(places, rows.paired_speedup, yerr=bars, capsize=4, **marks.series(2))
    marks.equal_line(right)
    right.set(title="Speed, interval over prompts", ylabel=PAIRED)
    right.legend(fontsize=9)
    for axes in (left, right):
        axes.set_xticks(places, rows.passes.astype(str))
        axes.set_xlabel("draft passes a cycle")
        axes.margins(x=0.1)
    return figure


def controls(analysis: Json, summary: pd.DataFrame) -> Figure:
    """Plot 8: speed-up and accepted prefix of the trained drafter and of every control."""
    rows = marks.pick(summary, run="controls")
    rows = rows[rows.arm != "ar"]
    arms = list(dict.fromkeys(rows.arm))
    figure = style.new_figure(
        10,
        2.2 + 0.36 * len(arms),
        "The trained drafter and its controls",
        marks.source(analysis, rows.max_tokens),
    )
    left, right = figure.subplots(1, 2, sharey=True)
    for subset, words in marks.SUBSETS.items():
        one = marks.pick(rows, subset=subset)
        if not one.empty:
            _control_marks(left, right, one, arms, subset, words)
    marks.equal_line(left, vertical=True)
    marks.name_rows(left, [marks.label(arm) for arm in arms])
    left.set(title="Speed, interval over prompts", xlabel=PAIRED)
    right.set(title="Accepted", xlabel=PREFIX)
    right.set_xlim(left=-0.03)
    style.legend_below(figure, left, 3)
    return figure


def _control_marks(
    left: Axes, right: Axes, rows: pd.DataFrame, arms: list[str], subset: str, words: str
) -> None:
    clean = subset == "loop_free"
    places = np.array([arms.index(arm) for arm in rows.arm]) + 0.2 * clean
    look = {"color": style.VERMILION, "marker": "s"} if clean else marks.series(0)
    look = look | {"ls": "", "mfc": "white" if clean else None}
    bars = marks.ratio_interval(rows)
    left.errorbar(rows.paired_speedup, places, xerr=bars, capsize=3, label=words, **look)
    right.plot(rows.mean_accepted_prefix, places, **look)


def confidence(analysis: Json, bins: pd.DataFrame) -> Figure:
    """Plot 10: proposals accepted by decile of the drafter's mean confidence in a cycle."""
    slots = analysis["block_size"] - 1
    figure = style.new_figure(
        7.4,
        5.2,
        "Does confidence tell what will be accepted?",
        f"K={analysis['block_size']}, {slots} proposals a cycle; cycles in bins of equal number",
    )
    axes = figure.subplots()
    for index, (subset, words) in enumerate(marks.SUBSETS.items()):
        rows = marks.pick(bins, subset=subset).sort_values("bin")
        if rows.empty:
            continue
        name = f"{words}: {int(rows.n.sum()):,} cycles"
        axes.plot(rows.mean_top1, rows.mean_accepted, label=name, **marks.series(index))
    chance = np.linspace(0, 1, 101)
    expected = sum(chance**slot for slot in range(1, slots + 1))
    name = "if each proposal were accepted with that probability"
    axes.plot(chance, expected, color=style.GREY, ls=":", label=name)
    axes.set(xlim=(0, 1.02), ylim=(0, None))
    axes.set_xlabel("mean top-1 probability of the cycle's proposals")
    axes.set_ylabel(PREFIX)
    style.legend_below(figure, axes, 1)
    return figure
