"""Figures of study `act4s` on speed: by K, category, forwards, generation length and context."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from diffdraft.report import act4s_labels as marks
from diffdraft.report import style

Json = Mapping[str, Any]

BESIDE = {"pooled": 0.0, "loop_free": 0.14}  # of a step on the axis, so that marks do not overlap
FILLS = {"pooled": None, "loop_free": "white"}
PAIRED = "paired speed-up over native (×)"


def by_block_size(analysis: Json, summary: pd.DataFrame) -> Figure:
    """Plot 1: throughput by K with the native line, and the paired ratio with its interval."""
    rows = marks.pick(summary, run="ksweep")
    figure = style.new_figure(
        10, 4.6, "Speed by block size", marks.source(analysis, rows.max_tokens)
    )
    left, right = figure.subplots(1, 2)
    _throughput(left, marks.pick(rows, subset="pooled"))
    for subset, words in marks.SUBSETS.items():
        _ratios(right, marks.fixed(marks.pick(rows, subset=subset)), subset, words)
    marks.equal_line(right)
    right.set(title="Paired ratio, interval over prompts", xlabel="block size K", ylabel=PAIRED)
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=9)
    return figure


def _throughput(axes: Axes, rows: pd.DataFrame) -> None:
    fixed = marks.fixed(rows)
    places = np.arange(len(fixed))
    bars = marks.spread(fixed.tok_s_median, fixed.tok_s_p25, fixed.tok_s_p75)
    axes.errorbar(
        places,
        fixed.tok_s_median,
        yerr=bars,
        capsize=4,
        label="drafted: median, quartiles of runs",
        **marks.series(0),
    )
    native = marks.pick(rows, arm="ar").iloc[0]
    axes.axhline(native.tok_s_median, color=style.INK, ls="--", lw=1, label="native: the same")
    axes.axhspan(native.tok_s_p25, native.tok_s_p75, color=style.GREY, alpha=0.2, lw=0)
    axes.set_xticks(places, fixed.block.astype(str))
    axes.set(title="Throughput", xlabel="block size K", ylabel="tokens a second")
    axes.set_ylim(bottom=0)


def _ratios(axes: Axes, rows: pd.DataFrame, subset: str, words: str) -> None:
    if rows.empty:
        return
    places = np.arange(len(rows)) + BESIDE[subset]
    axes.errorbar(
        places,
        rows.paired_speedup,
        yerr=marks.ratio_interval(rows),
        capsize=4,
        mfc=FILLS[subset],
        label=words,
        **marks.series(0 if subset == "pooled" else 1),
    )
    if subset == "pooled":
        axes.set_xticks(np.arange(len(rows)), rows.block.astype(str))


def by_category(analysis: Json, table: pd.DataFrame) -> Figure:
    """Plot 2: paired speed-up in every category, one mark a fixed K, the fastest category on top.

    A category has too few prompts for an interval; the spread over categories stands in its place.
    """
    rows = marks.fixed(marks.pick(table, run="ksweep"))
    home = rows[rows.block == analysis["block_size"]].sort_values("paired_speedup")
    order = list(home.category[::-1])
    figure = style.new_figure(
        9,
        2.2 + 0.38 * len(order),
        "Paired speed-up by category and block size",
        marks.source(analysis, rows.max_tokens, f"in order of K={analysis['block_size']}"),
    )
    axes = figure.subplots()
    for index, (arm, one) in enumerate(rows.groupby("arm", sort=False)):
        drawn = one.set_index("category").paired_speedup.reindex(order)
        look = marks.series(index) | {"ls": ""}
        axes.plot(drawn, range(len(order)), label=marks.label(str(arm)), alpha=0.85, **look)
    marks.equal_line(axes, vertical=True)
    marks.name_rows(axes, order)
    axes.set_xlabel(PAIRED)
    style.legend_below(figure, axes, 6)
    return figure


def forwards_against_speed(analysis: Json, summary: pd.DataFrame) -> Figure:
    """Plot 6: tokens a forward against wall-clock speed-up, one mark an arm."""
    runs = ["ksweep", "controls", "adaptive"]
    rows = marks.pick(summary[summary.run.isin(runs)], subset="pooled")
    rows = rows[rows.arm != "ar"].drop_duplicates("arm")
    figure = style.new_figure(
        10, 6.4, "Tokens a forward are not speed", marks.source(analysis, rows.max_tokens)
    )
    axes = figure.subplots()
    named: set[str] = set()
    for row in marks.records(rows):
        name, colour, marker = marks.family(row.arm)
        axes.errorbar(
            [row.tpf_median],
            [row.paired_speedup],
            yerr=marks.spread([row.paired_speedup], [row.paired_ci_low], [row.paired_ci_high]),
            fmt=marker,
            color=colour,
            capsize=3,
            label=None if name in named else name,
        )
        named.add(name)
    _annotate(axes, rows)
    ends = [min(rows.tpf_median.min(), 1.0) * 0.98, max(rows.tpf_median.max(), 1.0) * 1.02]
    axes.plot(ends, ends, color=style.GREY, ls=":", label="if every forward cost the same")
    marks.equal_line(axes)
    axes.set_xlabel("tokens a forward (median of runs, prefill counted)")
    axes.set_ylabel(PAIRED)
    style.legend_below(figure, axes, 4)
    return figure


def _annotate(axes: Axes, rows: pd.DataFrame) -> None:
    """Name every mark in a column beside the axes, in the order of height, joined by a line."""
    ordered = rows.sort_values("paired_speedup")
    heights = np.linspace(0.02, 0.98, len(ordered))
    for height, row in zip(heights, marks.records(ordered), strict=True):
        axes.annotate(
            marks.label(row.arm),
            (row.tpf_median, row.paired_speedup),
            xytext=(1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": style.GREY, "lw": 0.5, "alpha": 0.6},
        )


def by_length(analysis: Json, summary: pd.DataFrame) -> Figure:
    """Plot 13: paired speed-up at block size K by the number of generated tokens."""
    rows = marks.fixed(marks.pick(summary, run="baseline"))
    rows = rows[rows.block == analysis["block_size"]].sort_values("max_tokens")
    figure = style.new_figure(
        7.6,
        4.6,
        f"Speed-up of K={analysis['block_size']} by generated length",
        marks.source(analysis, rows.max_tokens),
    )
    axes = figure.subplots()
    lengths = sorted(rows.max_tokens.unique())
    for index, (subset, words) in enumerate(marks.SUBSETS.items()):
        one = marks.pick(rows, subset=subset)
        if one.empty:
            continue
        places = [lengths.index(length) + BESIDE[subset] for length in one.max_tokens]
        bars = marks.ratio_interval(one)
        look = marks.series(index) | {"mfc": FILLS[subset]}
        axes.errorbar(places, one.paired_speedup, yerr=bars, capsize=4, label=words, **look)
    axes.set_xticks(range(len(lengths)), [str(length) for length in lengths])
    marks.equal_line(axes)
    axes.set(xlabel="tokens generated", ylabel=PAIRED)
    style.legend_below(figure, axes, 3)
    return figure


def by_context(analysis: Json, summary: pd.DataFrame) -> Figure:
    """Plot 9: log ratio of native to drafted wall time by context length, with intervals."""
    entries = analysis["context_trend"]
    lengths = sorted({entry["length"] for entry in entries})
    tokens = marks.pick(summary, run="context").max_tokens
    figure = style.new_figure(
        8.4,
        4.8,
        "Speed-up after contexts of growing length",
        f"{', '.join(map(str, sorted(set(tokens))))} tokens generated; interval over passages",
    )
    axes = figure.subplots()
    arms = list(dict.fromkeys(entry["arm"] for entry in entries))
    for index, arm in enumerate(arms):
        beside = 0.08 * (index - (len(arms) - 1) / 2)
        _trend(axes, [e for e in entries if e["arm"] == arm], lengths, beside, index)
    axes.axhline(0, color=style.INK, lw=1, ls="--", label="native speed")
    axes.set_xticks(range(len(lengths)), [f"{length:,}" for length in lengths])
    axes.set_xlabel("tokens of context")
    axes.set_ylabel("log(native wall time / drafted wall time)")
    upper = axes.secondary_yaxis("right", functions=(np.exp, _log))
    upper.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}×"))
    style.legend_below(figure, axes, 4)
    return figure


def _trend(axes: Axes, entries: list[Json], lengths: list[int], beside: float, index: int) -> None:
    ratios = [entry["log_ratio"] for entry in entries]
    values = [ratio["value"] for ratio in ratios]
    bars = marks.spread(
        values, *([ratio[end] for ratio in ratios] for end in ("ci_low", "ci_high"))
    )
    places = [lengths.index(entry["length"]) + beside for entry in entries]
    name = marks.label(entries[0]["arm"])
    axes.errorbar(places, values, yerr=bars, capsize=4, label=name, **marks.series(index))


def _log(ratio: Any) -> Any:
    # Matplotlib tries an axis from 0 to 1 before it knows the real one.
    return np.log(np.maximum(ratio, np.finfo(np.float64).tiny))
