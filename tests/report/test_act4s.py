"""Pages of study `act4s` show what the analysis wrote; what does not fit is refused."""

import json

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.report import (
    act4s_detail_tables,
    act4s_inputs,
    act4s_labels,
    act4s_pages,
    act4s_published_pages,
    act4s_tables,
    cells,
    inputs,
    render,
)
from diffdraft.studies.act4s.run import run
from tests.synthetic_decoding import write_plan, write_study

from . import act4s_made
from .pages import Page


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


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


def test_how_native_decoding_repeats_itself_is_said(pooled):
    first, second, *_ = (block.value for block in act4s_pages.speed_section(pooled).blocks)
    assert first == act4s_pages.subset_line(pooled)
    assert "share 1, standard deviation 0.0500" in second[0]
    assert second[1].endswith("kept: 5.")


def test_every_arm_of_every_run_is_in_the_tables(pooled, both):
    for study, subsets in ((pooled, 1), (both, 2)):
        speeds = [t for t in act4s_tables.arm_tables(study) if t.caption.endswith(": speed")]
        assert sum(len(table.rows) for table in speeds) == len(study.tables["summary"])
        assert len(speeds) == subsets * len(act4s_made.ARMS)


def test_native_decoding_has_no_ratio_to_itself(pooled):
    [native, *drafted] = texts(act4s_tables.speed_table(pooled))
    assert native[:1] + native[2:4] == ["ar", cells.NOTHING, cells.NOTHING]
    assert all(row[3] != cells.NOTHING for row in drafted)


def test_published_readings_depend_on_the_rule_and_say_so(pooled, evidence):
    section = act4s_published_pages.published_section(pooled, evidence.act4s.readings)
    tables = {b.value.caption: texts(b.value) for b in section.blocks if b.kind == "table"}
    rows = tables["Verdict of the published figures by reading"]
    assert [row[3:] for row in rows if row[2] == "exact_tie"] == [
        ["NOT LOSSLESS", "g1_correct"]
    ] * 2
    depends = act4s_published_pages.depends_table(evidence.act4s.readings["depends_on"])
    assert texts(depends)[0][2:] == [
        "exact_tie: not met; one_ulp: met",
        "Gate 1 depends on the rule.",
    ]
    gates = tables["The published gates, judged by our plan"]
    assert [row[4] for row in gates] == ["same", "differs"]
    assert "K=4 STANDS. ADAPTIVE K FAILS. AND MORE." in section.blocks[0].value[0]


def test_published_figures_that_contradict_one_another_are_named(evidence):
    section = act4s_published_pages.published_details(evidence.act4s.readings)
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


def test_the_report_reads_what_the_analysis_writes(tmp_path):
    plan = write_plan(tmp_path, write_study(tmp_path / "rows"))
    run(plan, tmp_path / "rows", tmp_path / "out")
    act4s_inputs.read_object(tmp_path / "out" / "analysis.json", act4s_inputs.ANALYSIS)
    for stem, names in act4s_inputs.COLUMNS.items():
        assert len(inputs.read_table(tmp_path / "out" / f"{stem}.csv", names))
