"""The five published plots of the RPRM study: one stratum, the TEST split, one set per adapter.

Source of the set: johnathonkillaly/qwen-block-diffusion-lab, RPRM stage 1 (plots 1 to 5).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from diffdraft.report import style

Series = Mapping[str, Any]

PREDICTORS = {
    "entropy": ("drafter entropy", "normalised, 0 to 1"),
    "gap": ("draftability gap", "L1 distance, 0 to 2"),
    "teacher_entropy": ("teacher entropy", "nats"),
}
MODEL_LABELS = {
    "1_progress_only": "1 progress only",
    "2_uncertainty_only": "2 drafter entropy only",
    "3_existing_only": "3 gap only",
    "4_progress_uncertainty": "4 progress + drafter entropy",
    "5_progress_existing": "5 progress + gap",
    "6_progress_existing_uncertainty": "6 progress + gap + drafter entropy",
    "7_shuffled_control": "7 progress + shuffled entropy",
    "8_progress_teacher_entropy": "8 progress + teacher entropy",
}
CURVES = {
    "1_progress_only": (style.GREY, "--"),
    "4_progress_uncertainty": (style.BLUE, "-"),
    "5_progress_existing": (style.ORANGE, "-."),
    "6_progress_existing_uncertainty": (style.GREEN, "-"),
}
CALIBRATED = {
    "1_progress_only": (style.GREY, "s"),
    "5_progress_existing": (style.ORANGE, "^"),
    "6_progress_existing_uncertainty": (style.GREEN, "o"),
}

BESIDE = 0.18  # of a quintile, so that two bars do not cover each other


def source_line(tag: str, stratum: str, analysis: Series) -> str:
    """Which positions a figure shows."""
    return (
        f"{tag} adapter, {stratum}, TEST split: {analysis['n_test']:,} positions "
        f"in {analysis['windows_test']:,} windows"
    )


def quintiles(tag: str, stratum: str, analysis: Series, table: pd.DataFrame) -> Figure:
    """Plot 1: acceptance by quintile of three predictors, with two intervals each."""
    figure = style.new_figure(
        10,
        4.4,
        "Share of proposals accepted, by quintile of each predictor",
        source_line(tag, stratum, analysis) + "; quintile edges from FIT",
    )
    panels = figure.subplots(1, len(PREDICTORS), sharey=True)
    for axes, (name, (label, unit)) in zip(panels, PREDICTORS.items(), strict=True):
        rows = table[(table.stratum == stratum) & (table.predictor == name)]
        _quintile_panel(axes, rows, analysis["acceptance_test"])
        axes.set_title(label)
        axes.set_xlabel(f"quintile mean ({unit})")
    panels[0].set_ylabel("acceptance (share of positions)")
    panels[0].set_ylim(bottom=0)
    style.legend_below(figure, panels[0], 2)
    return figure


def _quintile_panel(axes: Axes, rows: pd.DataFrame, base_rate: float) -> None:
    filled = rows[rows.n > 0]
    spread = [filled.acceptance - filled.ci_low, filled.ci_high - filled.acceptance]
    axes.bar(filled.quintile, filled.acceptance, color=style.BLUE, alpha=0.3, width=0.8)
    axes.errorbar(
        filled.quintile,
        filled.acceptance,
        yerr=np.clip(spread, 0, None),
        fmt="o",
        color=style.BLUE,
        capsize=4,
        label="acceptance, Wilson interval as published",
    )
    spread = [filled.acceptance - filled.cluster_ci_low, filled.cluster_ci_high - filled.acceptance]
    axes.errorbar(
        filled.quintile + BESIDE,
        filled.acceptance,
        yerr=np.clip(spread, 0, None),
        fmt="none",
        ecolor=style.VERMILION,
        capsize=4,
        label="interval over windows",
    )
    axes.axhline(base_rate, color=style.GREY, ls="--", label=f"all positions: {base_rate:.3f}")
    ticks = [
        f"Q{quintile + 1}\n" + (f"{mean:.3g}\nn={n}" if n else "empty")
        for quintile, mean, n in zip(rows.quintile, rows.mean_value, rows.n, strict=True)
    ]
    axes.set_xticks(rows.quintile, ticks, fontsize=9)
    axes.set_xlim(rows.quintile.min() - 0.6, rows.quintile.max() + 0.6)
    axes.grid(axis="x", visible=False)


def within_offset(tag: str, stratum: str, analysis: Series, table: pd.DataFrame) -> Figure:
    """Plot 2: acceptance by offset for the low and high entropy tercile and for all positions."""
    figure = style.new_figure(
        9,
        4.8,
        "Share accepted at each offset, low against high drafter entropy",
        source_line(tag, stratum, analysis) + "; tercile edges from FIT of the same offset",
    )
    axes = figure.subplots()
    rows = table[table.stratum == stratum].sort_values("offset")
    low, high = "lowest entropy tercile", "highest entropy tercile"
    axes.plot(rows.offset, rows.acc_low, "o-", color=style.BLUE, label=low)
    axes.plot(rows.offset, rows.acceptance, "D--", color=style.GREY, label="all positions")
    axes.plot(rows.offset, rows.acc_high, "s-", color=style.VERMILION, label=high)
    ticks = [
        f"+{row.offset}\n{row.n_low} and {row.n_high}\nof {row.n}"
        + ("" if row.adequate else "\n(too few)")
        for row in rows.itertuples()
    ]
    axes.set_xticks(rows.offset, ticks, fontsize=9)
    axes.set_xlabel("offset (tokens ahead); below it, positions in the low and in the high tercile")
    axes.set_ylabel("acceptance (share of positions)")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def shuffled_control(tag: str, stratum: str, analysis: Series) -> Figure:
    """Plot 3: AUROC of model 1, model 4 and the shuffled control with its 2.5–97.5 % range."""
    models = analysis["models"]
    control = models["7_shuffled_control"]
    names = ["1_progress_only", "4_progress_uncertainty", "7_shuffled_control"]
    values = [models[name]["auroc"] for name in names]
    figure = style.new_figure(
        8,
        4.6,
        "AUROC of model 4 against progress alone and shuffled entropy",
        source_line(tag, stratum, analysis)
        + f"; whisker: 2.5 to 97.5 % of {control['n_permutations']} shuffles",
    )
    axes = figure.subplots()
    colours = [style.GREY, style.BLUE, style.PURPLE]
    chance = 0.5  # bars start where a predictor that knows nothing ends
    axes.bar(range(3), [v - chance for v in values], bottom=chance, color=colours, width=0.6)
    low, high = values[2] - control["auroc_p2_5"], control["auroc_p97_5"] - values[2]
    whisker = np.clip([[low], [high]], 0, None)
    axes.errorbar([2], [values[2]], yerr=whisker, fmt="none", color=style.INK, capsize=6)
    tops = [values[0], values[1], max(values[2], control["auroc_p97_5"])]
    for x, (value, top) in enumerate(zip(values, tops, strict=True)):
        axes.annotate(
            f"{value:.4f}", (x, top), xytext=(0, 4), textcoords="offset points", ha="center"
        )
    labels = [f"model {MODEL_LABELS[name]}".replace(" + ", "\n+ ") for name in names]
    axes.set_xticks(range(3), [*labels[:2], f"{labels[2]} (mean)"])
    axes.set_ylabel("AUROC (0.5 is chance)")
    axes.margins(y=0.12)
    axes.set_ylim(bottom=min(chance, *axes.get_ylim()))
    axes.grid(axis="x", visible=False)
    return figure


def roc_pr(tag: str, stratum: str, analysis: Series, roc: pd.DataFrame, pr: pd.DataFrame) -> Figure:
    """Plot 4: ROC and precision–recall curves of models 1, 4, 5, 6; AUROC and AP in the legend."""
    figure = style.new_figure(
        10,
        5.6,
        "ROC and precision–recall curves on held-out windows",
        source_line(tag, stratum, analysis),
    )
    left, right = figure.subplots(1, 2)
    for name, (colour, dash) in CURVES.items():
        scores = analysis["models"][name]
        one = roc[(roc.stratum == stratum) & (roc.model == name)]
        label = f"{MODEL_LABELS[name]} ({scores['auroc']:.3f})"
        left.plot(one.fpr, one.tpr, color=colour, ls=dash, label=label)
        one = pr[(pr.stratum == stratum) & (pr.model == name)]
        label = f"{MODEL_LABELS[name]} ({scores['auprc']:.3f})"
        right.plot(one.recall, one.precision, color=colour, ls=dash, label=label)
    base = analysis["acceptance_test"]
    left.plot([0, 1], [0, 1], color=style.RULE, label="chance (0.500)")
    right.axhline(base, color=style.RULE, label=f"base rate ({base:.3f})")
    left.set(title="ROC", xlabel="false positive rate", ylabel="true positive rate")
    right.set(title="Precision–recall", xlabel="recall", ylabel="precision", ylim=(0, 1.02))
    for axes, score in ((left, "AUROC"), (right, "average precision")):
        axes.legend(
            title=f"model ({score})", loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=9
        )
    return figure


def calibration(tag: str, stratum: str, analysis: Series, table: pd.DataFrame) -> Figure:
    """Plot 5: predicted against observed acceptance by decile of the prediction, models 1, 5, 6."""
    figure = style.new_figure(
        7.4,
        6.8,
        "Predicted against observed acceptance",
        source_line(tag, stratum, analysis) + "; deciles of the prediction",
    )
    axes = figure.subplots()
    rows = table[(table.stratum == stratum) & table.model.isin(CALIBRATED)]
    top = 1.05 * max(rows.predicted.max(), rows.observed.max())
    axes.plot([0, top], [0, top], color=style.GREY, ls="--", lw=1, label="perfectly calibrated")
    for name, (colour, marker) in CALIBRATED.items():
        one = rows[rows.model == name].sort_values("predicted")
        label = f"model {MODEL_LABELS[name]}"
        axes.plot(one.predicted, one.observed, marker=marker, color=colour, lw=1, label=label)
    axes.set(xlim=(0, top), ylim=(0, top), aspect="equal")
    axes.set_xlabel("mean predicted probability of acceptance")
    axes.set_ylabel("observed share accepted")
    axes.legend(loc="upper left")
    return figure
