"""Figures: whole PNGs of the expected size that show the data they are given."""

import io

import numpy as np
import pytest
from matplotlib import image

from diffdraft.report import (
    act4s_pictures,
    figures,
    rprm_pages,
    style,
    timing_figure,
    timing_pages,
)

SIZES = {
    "plot1_quintiles": (1500, 660),
    "plot2_within_offset": (1350, 720),
    "plot3_shuffled_control": (1200, 690),
    "plot4_roc_pr": (1500, 840),
    "plot5_calibration": (1110, 1020),
}


@pytest.fixture(scope="module")
def primary(evidence):
    return evidence.rprm.study.adapters[0]


def pixels(png):
    return image.imread(io.BytesIO(png), format="png")


def test_both_adapters_have_the_five_plots_timing_has_one_and_act4s_each_kind_once(report):
    stems = [picture.stem for picture in report.pictures()]
    plots = [f"{name}_{tag}" for tag in ("primary", "replication") for name in SIZES]
    kinds = sorted(f"act4s_{name}" for name in act4s_pictures.DRAW)
    assert [stem for stem in stems if not stem.startswith("act4s")] == [*plots, "timing_log_ratio"]
    assert sorted(stem for stem in stems if stem.startswith("act4s")) == kinds


def test_every_figure_is_a_png_of_its_size_and_not_blank(report):
    for picture in report.pictures():
        shown = pixels(picture.png)
        assert shown.shape[:2] == (picture.height, picture.width)
        name = picture.stem.rpartition("_")[0]
        if name in SIZES:
            assert (picture.width, picture.height) == SIZES[name]
        ink = np.any(shown[..., :3] < 0.9, axis=-1)
        assert 0.01 < ink.mean() < 0.6
        # Every quarter has something in it, so no panel is empty.
        for half in np.array_split(ink, 2, axis=0):
            assert all(quarter.any() for quarter in np.array_split(half, 2, axis=1))


def test_no_time_or_version_in_a_png(report):
    for picture in report.pictures():
        assert not any(chunk in picture.png for chunk in (b"tEXt", b"iTXt", b"tIME"))


def test_figures_do_not_depend_on_the_users_settings(primary):
    import matplotlib

    with style.styled():
        usual = style.png_bytes(draw_control(primary))
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "pink"}), style.styled():
        assert style.png_bytes(draw_control(primary)) == usual
    assert matplotlib.rcParams["text.parse_math"]


def draw_control(adapter):
    return figures.shuffled_control(adapter.tag, "FULL", adapter.analysis["FULL"])


def test_quintile_points_are_at_the_acceptance_of_the_table(primary):
    table = primary.tables["quintiles"]
    figure = figures.quintiles("primary", "FULL", primary.analysis["FULL"], table)
    rows = table[(table.stratum == "FULL") & (table.predictor == "gap")]
    heights = [bar.get_height() for bar in figure.axes[1].patches]
    assert heights == pytest.approx(list(rows.acceptance))
    labels = [tick.get_text() for tick in figure.axes[1].get_xticklabels()]
    assert [f"n={n}" in label for n, label in zip(rows.n, labels, strict=True)] == [True] * 5


def test_each_quintile_has_both_intervals(primary):
    table = primary.tables["quintiles"]
    figure = figures.quintiles("primary", "FULL", primary.analysis["FULL"], table)
    rows = table[(table.stratum == "FULL") & (table.predictor == "gap")]
    drawn = [bars.get_segments() for bars in figure.axes[1].collections]
    for segments, prefix in zip(drawn, ("", "cluster_"), strict=True):
        assert [ends[0][1] for ends in segments] == pytest.approx(list(rows[f"{prefix}ci_low"]))
        assert [ends[1][1] for ends in segments] == pytest.approx(list(rows[f"{prefix}ci_high"]))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("Wilson interval as published" in text for text in legend)


def test_an_empty_quintile_is_drawn_as_empty(primary):
    table = primary.tables["quintiles"]
    rows = table[(table.stratum == "SCHEDULE") & (table.predictor == "gap")]
    assert rows.n.iloc[0] == 0  # zeros of an uncorrupted window lie on the lowest edge
    figure = figures.quintiles("primary", "SCHEDULE", primary.analysis["SCHEDULE"], table)
    assert len(figure.axes[1].patches) == (rows.n > 0).sum() < 5
    assert figure.axes[1].get_xticklabels()[0].get_text() == "Q1\nempty"


def test_curves_are_labelled_with_the_scores_of_the_analysis(primary):
    analysis, tables = primary.analysis["FULL"], primary.tables
    figure = figures.roc_pr("primary", "FULL", analysis, tables["roc"], tables["pr"])
    roc, pr = ([text.get_text() for text in a.get_legend().get_texts()] for a in figure.axes)
    for name in figures.CURVES:
        scores = analysis["models"][name]
        assert f"{figures.MODEL_LABELS[name]} ({scores['auroc']:.3f})" in roc
        assert f"{figures.MODEL_LABELS[name]} ({scores['auprc']:.3f})" in pr
    assert f"base rate ({analysis['acceptance_test']:.3f})" in pr
    assert "chance (0.500)" in roc


def test_offset_lines_follow_the_table(primary):
    table = primary.tables["within_offset"]
    figure = figures.within_offset("primary", "FULL", primary.analysis["FULL"], table)
    rows = table[table.stratum == "FULL"]
    drawn = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert drawn == {
        "lowest entropy tercile": list(rows.acc_low),
        "all positions": list(rows.acceptance),
        "highest entropy tercile": list(rows.acc_high),
    }


def test_control_bars_end_at_the_aurocs_and_the_whisker_at_the_percentiles(primary):
    models = primary.analysis["FULL"]["models"]
    [axes] = draw_control(primary).axes
    tops = [bar.get_y() + bar.get_height() for bar in axes.patches]
    names = ("1_progress_only", "4_progress_uncertainty", "7_shuffled_control")
    assert tops == pytest.approx([models[name]["auroc"] for name in names])
    [whisker] = axes.collections[0].get_segments()
    control = models["7_shuffled_control"]
    assert whisker[:, 1] == pytest.approx([control["auroc_p2_5"], control["auroc_p97_5"]])


def test_calibration_points_are_those_of_the_table(primary):
    table = primary.tables["calibration"]
    [axes] = figures.calibration("primary", "FULL", primary.analysis["FULL"], table).axes
    for name, line in zip(figures.CALIBRATED, axes.lines[1:], strict=True):
        rows = table[(table.stratum == "FULL") & (table.model == name)]
        assert list(line.get_xdata()) == list(rows.predicted)
        assert list(line.get_ydata()) == list(rows.observed)


def test_an_inadequate_offset_is_marked(primary):
    table = primary.tables["within_offset"].copy()
    table["adequate"] = table["offset"] != 5
    figure = figures.within_offset("primary", "FULL", primary.analysis["FULL"], table)
    labels = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert [label for label in labels if "too few" in label] == [labels[3]]
    assert labels[3].startswith("+5\n")


def test_every_prompt_is_a_dot_in_the_row_of_its_category(evidence):
    analysis = evidence.timing.analysis
    groups = [
        timing_figure.Ratios(category, [prompt["log_ratio"] for prompt in prompts])
        for category, prompts in timing_pages.by_category(analysis).items()
    ]
    figure = timing_figure.log_ratios(groups, 0.2, 0.1, 0.3, "a over b")
    axes = figure.axes[0]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    drawn = sorted(x for line in dots for x in line.get_xdata())
    assert drawn == sorted(prompt["log_ratio"] for prompt in analysis["prompts"])
    rows = [label.get_text() for label in axes.get_yticklabels()]
    for line in dots:
        [row] = set(line.get_ydata())
        [group] = [group for group in groups if group.category == rows[row]]
        assert list(line.get_xdata()) == list(group.log_ratios)


def test_figures_show_the_stratum_that_carries(evidence):
    assert rprm_pages.stratum_of(evidence.rprm.study) == "FULL"
