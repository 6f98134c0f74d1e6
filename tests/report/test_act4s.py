"""Study `act4s` in the report: figures and tables show what the analysis wrote, and no more."""

import dataclasses
import json
import warnings

import numpy as np
import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.report import (
    act4s_detail_tables,
    act4s_figures_cost,
    act4s_figures_drafts,
    act4s_figures_policies,
    act4s_figures_speed,
    act4s_labels,
    act4s_pages,
    act4s_pictures,
    act4s_published_pages,
    act4s_tables,
    cells,
    render,
    style,
)

from . import act4s_folder
from .pages import Page


@pytest.fixture(scope="module")
def pooled(evidence):
    return evidence.act4s


@pytest.fixture(scope="module")
def both(pooled):
    """The same study with loop-free prompts."""
    tables, analysis = act4s_folder.tables(act4s_folder.SUBSETS), act4s_folder.SUBSETS
    return dataclasses.replace(pooled, tables=tables, analysis=act4s_folder.analysis(analysis))


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


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
    assert list(rows.block) == list(act4s_folder.BLOCKS)
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
    assert names == list(act4s_folder.CATEGORIES[::-1])
    [line] = [line for line in axes.lines if line.get_label() == "K=4"]
    rows = act4s_labels.pick(table, run="ksweep", arm="uno_k4").set_index("category")
    assert list(line.get_xdata()) == list(rows.paired_speedup[names])


def test_every_arm_is_a_point_of_forwards_against_speed_once(pooled):
    summary = pooled.tables["summary"]
    [axes] = act4s_figures_speed.forwards_against_speed(pooled.analysis, summary).axes
    arms = {arm for run in ("ksweep", "controls", "adaptive") for arm in act4s_folder.ARMS[run]}
    assert sorted(text.get_text() for text in axes.texts) == sorted(
        act4s_labels.label(arm) for arm in arms - {"ar"}
    )
    assert len(axes.containers) == len(arms) - 1


def test_stages_are_stacked_to_the_cycle_and_native_decoding_has_none(pooled):
    summary = pooled.tables["summary"]
    figure = act4s_figures_cost.stages(pooled.analysis, summary)
    for axes, run in zip(figure.axes, act4s_figures_cost.RUNS, strict=True):
        drafted = act4s_folder.ARMS[run][1:]
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
    arms = act4s_folder.ARMS["adaptive"][1:]
    filled = [arms[row] for row, end in ends.items() if end > 0]
    assert filled == act4s_folder.ADAPTIVE
    assert [ends[arms.index(arm)] for arm in filled] == pytest.approx([1.0] * len(filled))


def test_fits_are_drawn_over_the_widths_that_were_fitted(pooled):
    figure = act4s_figures_cost.curve(pooled.analysis, pooled.tables["cost_curve"])
    for axes in figure.axes:
        lines = [line for line in axes.lines if "× rows" in str(line.get_label())]
        assert [list(line.get_xdata()) for line in lines] == [[1, 9]] * 2
        assert [list(line.get_ydata()) for line in lines] == [pytest.approx([2.4, 5.6])] * 2


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("ar", "native"),
        ("uno_k16", "K=16"),
        ("uno_k4_again", "K=4 again"),
        ("refine2_k4", "refined ×2"),
        ("ngram3_k4", "n-gram, order 3"),
        ("untrained_k4", "untrained adapter"),
        ("adapt_survival_repaired", "adaptive: survival, repaired"),
        ("conf_k4", "K=4, confidence kept"),
        ("something_new", "something_new"),
    ],
)
def test_arms_have_names(arm, words):
    assert act4s_labels.label(arm) == words
    assert len(act4s_labels.family(arm)) == 3


def test_only_plain_fixed_arms_count_as_fixed():
    assert [act4s_labels.fixed_block(arm) for arm in ("uno_k16", "uno_k4_again", "refine1_k4")] == [
        16,
        None,
        None,
    ]


def test_an_estimator_that_differs_in_sign_is_marked_not_robust(pooled):
    rows = texts(act4s_tables.estimator_table(pooled))
    assert [row[1] for row in rows if row[-1] == "not robust"] == ["uno_k2"]
    [block] = [b.value for b in act4s_pages.estimators_section(pooled).blocks if b.kind != "table"]
    assert block.startswith("In 1 of 4 comparisons")


def test_the_three_rules_of_correctness_stand_side_by_side(pooled):
    table = act4s_detail_tables.audit_table(pooled)
    assert table.head[-3:] == ["strict", "exact tie", "1 ULP"]
    rows = {(row[0], row[1]): row for row in texts(table)}
    assert rows["ksweep", "float32"][-3:] == ["met"] * 3
    assert rows["precision", "bfloat16"][-3:] == ["not met", "not met", "met"]
    assert rows["ksweep", "float32"][8] == cells.NOTHING  # no divergence has no largest gap


def test_disagreeing_published_estimators_are_named(pooled):
    shown = [block.value for block in act4s_pages.criteria_section(pooled).blocks]
    assert ["mean_ratio came out K=4 STANDS. ADAPTIVE K FAILS., paired K=4 IS SLOWER."] in shown


def test_that_no_prompt_is_loop_free_is_said(pooled, both):
    assert act4s_pages.subset_line(pooled).startswith("No prompt is loop-free")
    assert act4s_pages.subset_line(both).startswith("16 of 27 prompts are loop-free")
    assert (pooled.has_loop_free, both.has_loop_free) == (False, True)


def test_how_native_decoding_repeats_itself_is_said(pooled):
    first, second, *_ = (block.value for block in act4s_pages.speed_section(pooled).blocks)
    assert first == act4s_pages.subset_line(pooled)
    assert "share 1, standard deviation 0.0500" in second[0]
    assert second[1].endswith("kept: 5.")


def test_every_arm_of_every_run_is_in_the_tables(pooled, both):
    for study, subsets in ((pooled, 1), (both, 2)):
        speeds = [t for t in act4s_tables.arm_tables(study) if t.caption.endswith(": speed")]
        assert sum(len(table.rows) for table in speeds) == len(study.tables["summary"])
        assert len(speeds) == subsets * len(act4s_folder.ARMS)


def test_native_decoding_has_no_ratio_to_itself(pooled):
    [native, *drafted] = texts(act4s_tables.speed_table(pooled))
    assert native[:1] + native[2:4] == ["ar", cells.NOTHING, cells.NOTHING]
    assert all(row[3] != cells.NOTHING for row in drafted)


def test_published_readings_depend_on_the_rule_and_say_so(pooled, evidence):
    section = act4s_published_pages.published_section(pooled, evidence.readings)
    tables = {b.value.caption: texts(b.value) for b in section.blocks if b.kind == "table"}
    rows = tables["Verdict of the published figures by reading"]
    assert [row[3:] for row in rows if row[2] == "exact_tie"] == [
        ["NOT LOSSLESS", "g1_correct"]
    ] * 2
    depends = act4s_published_pages.depends_table(evidence.readings["depends_on"])
    assert texts(depends)[0][2:] == [
        "exact_tie: not met; one_ulp: met",
        "Gate 1 depends on the rule.",
    ]
    gates = tables["The published gates, judged by our plan"]
    assert [row[4] for row in gates] == ["same", "differs"]
    assert "K=4 STANDS. ADAPTIVE K FAILS. AND MORE." in section.blocks[0].value[0]


def test_published_figures_that_contradict_one_another_are_named(evidence):
    section = act4s_published_pages.published_details(evidence.readings)
    _, outcomes, misses, checks = (block.value for block in section.blocks)
    assert texts(misses) == [["ksweep uno_k4", "speed-ups", "1.200000", "1.201200"]]
    assert texts(checks) == [["ksweep", "speed-ups", "6", "0.001200", "differs"]]
    [column] = [i for i, name in enumerate(outcomes.head) if name == "g1_correct"]
    assert [row[column] for row in texts(outcomes)] == ["met", "not met"] * 2


def test_the_summary_has_the_main_tables_and_leaves_out_the_long_ones(report):
    summary, page = render.markdown(report), render.html(report)
    for caption in ("Fixed block sizes against native", "The same arms by every estimator"):
        assert caption in summary
    for caption in ("Which slots pay for themselves", "paired comparisons", "Manifest of"):
        assert caption not in summary
    assert "Which slots pay for themselves" in page


def test_every_measurement_is_in_the_glance_with_its_commit(report):
    rows = Page.parse(render.html(report)).tables["Measurements"][1:]
    assert [row[0] for row in rows] == ["rprm"] * 2 + ["paired_timing"] + ["act4s"] * 8
    assert {row[2] for row in rows} == {"0123456789abcdef"}


def test_a_run_without_rows_is_refused(tree, tmp_path):
    copy = tree.copy(tmp_path / "copy")
    path = copy.analysis("act4s") / "summary.csv"
    lines = files.read_text(path).splitlines(keepends=True)
    files.write_text(path, "".join(line for line in lines if not line.startswith("controls,")))
    with pytest.raises(UserError, match=r"summary\.csv: run: .*expected pooled rows of controls"):
        copy.load()


def test_a_table_without_a_column_is_refused(tree, tmp_path):
    copy = tree.copy(tmp_path / "copy")
    path = copy.analysis("act4s") / "audit.csv"
    files.write_text(path, files.read_text(path).replace("passes_ulp", "other", 1))
    with pytest.raises(UserError, match=r"audit\.csv: columns.*expected a column passes_ulp"):
        copy.load()


@pytest.mark.parametrize("value", [{"n_prompts": 27}, [1]])
def test_an_analysis_without_its_keys_is_refused(tree, tmp_path, value):
    copy = tree.copy(tmp_path / "copy")
    files.write_json(copy.analysis("act4s") / "analysis.json", value)
    with pytest.raises(UserError, match=r"analysis\.json: keys: .*expected a key"):
        copy.load()


def test_readings_by_another_plan_are_refused(tree, tmp_path):
    copy = tree.copy(tmp_path / "copy")
    path = copy.published["act4s"] / "readings.json"
    changed = json.loads(files.read_text(path)) | {"plan_sha256": "0" * 64}
    files.write_json(path, changed)
    with pytest.raises(UserError, match=r"readings\.json: plan_sha256"):
        copy.load()
