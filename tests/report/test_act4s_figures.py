"""Figures of study `act4s` show what the analysis wrote."""

import warnings

import numpy as np
import pytest

from diffdraft.report import (
    act4s_figures_cost,
    act4s_figures_drafts,
    act4s_figures_policies,
    act4s_figures_speed,
    act4s_labels,
    act4s_pictures,
    style,
)

from . import act4s_made


def whiskers(container):
    """Ends of the error bars of one series, [n, 2]."""
    [bars] = container[2]
    axis = 1 if container.has_yerr else 0
    return np.array([segment[:, axis] for segment in bars.get_segments()])


def series(axes, label):
    [found] = [c for c in axes.containers if c.get_label() == label]
    return found


def legend(figure):
    shown = [*figure.legends, *(a.get_legend() for a in figure.axes if a.get_legend())]
    return {text.get_text() for one in shown for text in one.get_texts()}


@pytest.mark.parametrize("name", act4s_pictures.DRAW)
def test_every_figure_is_drawn_without_a_warning_and_every_panel_is_labelled(name, both):
    with warnings.catch_warnings(), style.styled():
        warnings.simplefilter("error")
        figure = act4s_pictures.DRAW[name](both)
        style.png_bytes(figure)
    # Panels that share an axis are labelled at its end.
    assert any(axes.get_xlabel() for axes in figure.axes)
    assert all(axes.get_xlabel() or axes is not figure.axes[-1] for axes in figure.axes)
    assert all(axes.has_data() for axes in figure.axes)


@pytest.mark.parametrize("name", act4s_pictures.DRAW)
def test_a_caption_is_one_sentence(name):
    caption = act4s_pictures.CAPTIONS[name]
    assert caption.endswith(".")
    assert ". " not in caption


@pytest.mark.parametrize("name", ["block_size", "controls", "length", "confidence"])
def test_loop_free_prompts_are_drawn_where_there_are_any(name, pooled, both):
    for study, there in ((pooled, False), (both, True)):
        shown = legend(act4s_pictures.DRAW[name](study))
        assert any(text.startswith("loop-free prompts") for text in shown) == there
        assert any(text.startswith("all prompts") for text in shown)


def test_speed_by_block_size_shows_quartiles_the_native_line_and_paired_intervals(pooled):
    summary = pooled.tables["summary"]
    figure = act4s_figures_speed.by_block_size(pooled.analysis, summary)
    left, right = figure.axes
    rows = act4s_labels.fixed(act4s_labels.pick(summary, run="ksweep", subset="pooled"))
    assert list(rows.block) == list(act4s_made.BLOCKS)
    drafted = series(left, "drafted: median, quartiles of runs")
    assert whiskers(drafted) == pytest.approx(rows[["tok_s_p25", "tok_s_p75"]].to_numpy())
    native = act4s_labels.pick(summary, run="ksweep", subset="pooled", arm="ar").tok_s_median
    assert [line.get_ydata()[0] for line in left.lines if line.get_ls() == "--"] == list(native)
    ratio = series(right, "all prompts")
    assert list(ratio[0].get_ydata()) == list(rows.paired_speedup)
    assert whiskers(ratio) == pytest.approx(rows[["paired_ci_low", "paired_ci_high"]].to_numpy())


def test_categories_are_ordered_by_the_home_block_size_and_named_as_they_are(pooled):
    table = pooled.tables["by_category"]
    [axes] = act4s_figures_speed.by_category(pooled.analysis, table).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == list(act4s_made.CATEGORIES[::-1])
    [line] = [line for line in axes.lines if line.get_label() == "K=4"]
    rows = act4s_labels.pick(table, run="ksweep", arm="uno_k4").set_index("category")
    assert list(line.get_xdata()) == list(rows.paired_speedup[names])


def test_every_arm_is_a_point_of_forwards_against_speed_once(pooled):
    summary = pooled.tables["summary"]
    [axes] = act4s_figures_speed.forwards_against_speed(pooled.analysis, summary).axes
    arms = {arm for run in ("ksweep", "controls", "adaptive") for arm in act4s_made.ARMS[run]}
    assert sorted(text.get_text() for text in axes.texts) == sorted(
        act4s_labels.label(arm) for arm in arms - {"ar"}
    )
    assert len(axes.containers) == len(arms) - 1


def test_stages_are_stacked_to_the_cycle_and_native_decoding_has_none(pooled):
    summary = pooled.tables["summary"]
    figure = act4s_figures_cost.stages(pooled.analysis, summary)
    for axes, run in zip(figure.axes, act4s_figures_cost.RUNS, strict=True):
        drafted = act4s_made.ARMS[run][1:]
        names = [label.get_text() for label in axes.get_yticklabels()]
        assert names == [act4s_labels.label(arm) for arm in drafted]
        ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
        assert max(ends) == pytest.approx(2.0 + 2.5 + 0.3 + 0.4)
        assert len(axes.patches) == 4 * len(drafted)


def test_refinement_is_in_the_order_of_passes(pooled):
    summary = pooled.tables["summary"]
    shuffled = summary.sample(frac=1, random_state=0)
    _, right = act4s_figures_drafts.refinement(pooled.analysis, shuffled).axes
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["1", "2", "4"]
    rows = act4s_labels.pick(summary, run="controls", subset="pooled").set_index("arm")
    arms = ["refine1_k4", "refine2_k4", "refine4_k4"]
    expected = rows.loc[arms, ["paired_ci_low", "paired_ci_high"]].to_numpy()
    assert whiskers(right.containers[0]) == pytest.approx(expected)


def test_context_shows_each_log_ratio_with_its_interval(pooled):
    figure = act4s_figures_speed.by_context(pooled.analysis, pooled.tables["summary"])
    trend = [e["log_ratio"] for e in pooled.analysis["context_trend"] if e["arm"] == "uno_k4"]
    drawn = series(figure.axes[0], "K=4")
    assert list(drawn[0].get_ydata()) == [entry["value"] for entry in trend]
    ends = [[entry["ci_low"], entry["ci_high"]] for entry in trend]
    assert whiskers(drawn) == pytest.approx(np.array(ends))


def test_shares_of_chosen_widths_fill_a_bar_of_each_adaptive_arm_only(pooled):
    summary, choices = pooled.tables["summary"], pooled.tables["policy_choices"]
    _, right = act4s_figures_policies.adaptive(pooled.analysis, summary, choices).axes
    ends = {}
    for bar in right.patches:
        row = round(bar.get_y() + bar.get_height() / 2)
        ends[row] = max(ends.get(row, 0), bar.get_x() + bar.get_width())
    arms = act4s_made.ARMS["adaptive"][1:]
    filled = [arms[row] for row, end in ends.items() if end > 0]
    assert filled == act4s_made.ADAPTIVE
    assert [ends[arms.index(arm)] for arm in filled] == pytest.approx([1.0] * len(filled))


def test_fits_are_drawn_over_the_widths_that_were_fitted(pooled):
    figure = act4s_figures_cost.curve(pooled.analysis, pooled.tables["cost_curve"])
    for axes in figure.axes:
        lines = [line for line in axes.lines if "× rows" in str(line.get_label())]
        assert [list(line.get_xdata()) for line in lines] == [[1, 9]] * 2
        assert [list(line.get_ydata()) for line in lines] == [pytest.approx([2.4, 5.6])] * 2
