"""The plot of the paired timing: one dot a prompt, by category, with the mean and its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from diffdraft.report import style


@dataclass(frozen=True)
class Ratios:
    """Log ratios (baseline over drafted wall time) of one category's prompts."""

    category: str
    log_ratios: Sequence[float]


def log_ratios(
    groups: Sequence[Ratios], mean: float, ci_low: float, ci_high: float, arms: str
) -> Figure:
    """Per-prompt log ratios in rows of their category, best category on top.

    `arms` names what is over what; the lower axis is the log ratio, the upper one the ratio.
    """
    ordered = sorted(groups, key=lambda group: _mean(group.log_ratios))
    prompts = sum(len(group.log_ratios) for group in groups)
    figure = style.new_figure(
        9,
        2.4 + 0.34 * len(groups),
        "Paired timing: log ratio of wall time, one dot a prompt",
        f"{arms}; {prompts} prompts; right of zero the drafted decoder is faster",
    )
    axes = figure.subplots()
    axes.axvspan(ci_low, ci_high, color=style.BLUE, alpha=0.18, lw=0, label="its interval")
    axes.axvline(mean, color=style.BLUE, lw=2, label=f"mean of prompts: {mean:+.4f}")
    axes.axvline(0, color=style.INK, lw=1, ls="--", label="equal time")
    for row, group in enumerate(ordered):
        _draw(axes, row, group, label_it=row == 0)
    axes.set_yticks(range(len(ordered)), [group.category for group in ordered])
    axes.set_xlabel("log(baseline wall time / drafted wall time)")
    axes.grid(axis="y", visible=False)
    _ratio_axis(axes)
    style.legend_below(figure, axes, 3)
    return figure


def _draw(axes: Axes, row: int, group: Ratios, label_it: bool) -> None:
    dots, tick = ("one prompt", "mean of the category") if label_it else (None, None)
    height = [row] * len(group.log_ratios)
    axes.plot(group.log_ratios, height, "o", color=style.VERMILION, alpha=0.65, label=dots)
    centre = [_mean(group.log_ratios)]
    axes.plot(centre, [row], "|", color=style.INK, markersize=15, markeredgewidth=2, label=tick)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _log(ratio: npt.ArrayLike) -> npt.NDArray[np.float64]:
    # Matplotlib tries an axis from 0 to 1 before it knows the real one.
    return np.log(np.maximum(ratio, np.finfo(np.float64).tiny))


def _ratio_axis(axes: Axes) -> None:
    upper = axes.secondary_xaxis("top", functions=(np.exp, _log))
    upper.xaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}×"))
    upper.set_xlabel("ratio of wall times")
