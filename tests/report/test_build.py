"""The whole report: what it shows, what it refuses, that it needs nothing else."""

import dataclasses
import re
import subprocess
import sys

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.verdict import Frozen
from diffdraft.report import act4s_pictures, build, cells, criteria, render

from .conftest import HOSTILE, ROOT, STUDIES
from .pages import Page


@pytest.fixture(scope="module")
def html(report):
    return render.html(report)


@pytest.fixture(scope="module")
def page(html):
    return Page.parse(html)


def parts(judged):
    return [(criterion, part) for criterion in judged.criteria for part in criterion.parts]


def met(outcome):
    return "met" if outcome else "not met"


def test_page_and_summary_open_with_the_verdicts_and_what_they_stop(report, page, evidence):
    summary = render.markdown(report)
    verdicts = [study.verdict.carried.verdict for study in evidence.studies]
    assert verdicts == ["FAIL", "FASTER", "K=4 IS SLOWER."]
    for text in (page.text, summary):
        opening = text[: text.index("Criteria of the plan")]
        assert [opening.count(verdict) > 0 for verdict in verdicts] == [True] * 3
        assert "STOP — rprm_stage2: NOT RUN" in opening
        assert "primary.FULL came out FAIL" in opening
        assert "c3_auroc_gain_over_progress" in opening


def test_a_verdict_that_opens_the_stage_is_not_called_a_stop(report):
    opened = report.studies[0].stop.model_copy(update={"status": "OPEN"})
    card = dataclasses.replace(report.studies[0], stop=opened)
    assert card.stop_line == "rprm_stage2: OPEN"


def test_a_verdict_by_a_draft_says_so_at_once(report, evidence):
    """The plans of the small study are drafts."""
    frozen = evidence.rprm.study.verdict.model_copy(
        update={"plan_frozen": Frozen(sha256="0" * 64, date="2026-01-01T00:00:00+00:00")}
    )
    card = build.card(dataclasses.replace(evidence.rprm.study, verdict=frozen))
    for text in (render.html(report), render.markdown(report)):
        assert text.count("PLAN NOT FROZEN") == 3
    registered = dataclasses.replace(report, studies=[card])
    for text in (render.html(registered), render.markdown(registered)):
        assert "PLAN NOT FROZEN" not in text


@pytest.mark.parametrize("study", [0, 1, 2])
def test_every_comparison_is_a_row_with_value_interval_bound_and_outcome(page, evidence, study):
    verdict = evidence.studies[study].verdict
    expected = [9, 3, 14][study]
    for scope, judged in verdict.scopes.items():
        role = "carries the verdict" if scope == verdict.carried.scope else "reported"
        [caption] = [c for c in page.tables if c.startswith(f"{scope}: {judged.verdict} ({role}")]
        _, *rows = page.tables[caption]
        assert len(rows) == len(parts(judged)) == expected
        for (criterion, part), row in zip(parts(judged), rows, strict=True):
            end = "" if part.statistic == "value" else f" ({part.statistic})"
            assert row[1] == part.metric + end
            assert row[2] == cells.number(criteria.compared(part))
            assert row[3] == cells.interval(part.ci_low, part.ci_high).text
            assert row[4] == criteria.needs(part)
            assert row[5] == met(part.outcome)
            if part is criterion.parts[0]:
                assert (row[0], row[6]) == (criterion.id, met(criterion.outcome))


def test_published_values_stand_beside_ours(page, evidence):
    published = evidence.rprm.published
    assert published.verdict.carried.verdict == "FAIL"
    for scope, judged in published.verdict.scopes.items():
        _, *rows = page.tables[scope]
        ours = evidence.rprm.study.verdict.scopes[scope]
        for (_, our), (_, their), row in zip(parts(ours), parts(judged), rows, strict=True):
            assert row[0].startswith(our.metric)
            values = [cells.number(criteria.compared(part)) for part in (our, their)]
            assert [row[1], row[3]] == values
            assert row[7] == ("same" if our.outcome == their.outcome else "differs")
    replayed = [
        row[4] for row in page.tables["The published figures, judged here and as published"]
    ]
    assert replayed[1:] == ["6 of 6"] * 4
    for entry in published.comparison["differences"]:
        assert entry["found"] in page.text


def test_limits_plans_and_provenance_are_shown(page, evidence):
    for study in evidence.studies:
        for line in study.plan.does_not_show:
            assert line in page.text
        for decision in study.plan.decisions:
            assert decision.choice in page.text
        assert study.plan.sha256 in page.text
    for value in ("0123456789abcdef", "adapter of primary", "adapter of replication", "not frozen"):
        assert value in page.text


def test_the_page_needs_no_other_file(html, page):
    assert not {"script", "link", "iframe", "object", "embed", "base"} & set(page.tags)
    assert page.tags.count("img") == 11 + len(act4s_pictures.DRAW)
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"url\(|@import|http", page.styles)
    assert {link[1:] for link in page.links} <= set(re.findall(r'id="([^"]+)"', html))


def test_hostile_categories_and_metadata_are_text(html, page):
    assert HOSTILE in page.text
    assert "an <b>old</b> CPU" in page.text
    assert "<script" not in html
    assert "b" not in page.tags


def test_the_same_evidence_gives_the_same_bytes(report, html, evidence):
    again = build.compose(evidence)
    assert render.html(again) == html
    assert render.markdown(again) == render.markdown(report)


def test_write_puts_page_summary_and_figures(report, tmp_path):
    build.write(report, tmp_path)
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")}
    figures = {f"figures/{picture.stem}.png" for picture in report.pictures()}
    assert names == {"index.html", "summary.md"} | figures
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\((figures/[^)]+)\)", summary))
    assert shown <= figures
    assert "figures/act4s_block_size.png" in shown


def test_committed_evidence_takes_metadata_from_results(tree):
    evidence = tree.load("committed")
    assert evidence.rprm.study.manifest["code"]["commit"] == "fedcba"
    assert evidence.act4s.study.manifest["study"] == "act4s"
    assert evidence.act4s.study.metas["cost"]["adapter_sha256"] == "adapter of primary"
    assert evidence.rprm.study.adapters[1].meta["adapter_sha256"] == "adapter of replication"
    assert tree.load("measured").rprm.study.manifest is None
    assert set(build.EVIDENCE_LINES) == {"measured", "committed"}


INPUTS = [
    "measured/rprm/verdict.json",
    "measured/rprm/analysis_primary.json",
    "measured/rprm/quintiles_replication.csv",
    "measured/rprm/within_offset_primary.csv",
    "measured/rprm/calibration_primary.csv",
    "measured/rprm/roc_replication.csv",
    "measured/rprm/pr_primary.csv",
    "measured/rprm/positions_primary_meta.json",
    "measured/paired_timing/verdict.json",
    "measured/paired_timing/analysis.json",
    "measured/paired_timing/timing_meta.json",
    "published/verdict.json",
    "measured/act4s/verdict.json",
    "measured/act4s/analysis.json",
    "measured/act4s/summary.csv",
    "measured/act4s/ties_summary.csv",
    "measured/act4s/precision_meta.json",
    "published/comparison.json",
    "published/act4s/readings.json",
    "prereg/rprm.yaml",
    "prereg/act4s.yaml",
    "results/published/rprm.yaml",
]


@pytest.mark.parametrize("name", INPUTS)
def test_a_missing_file_is_named(tree, tmp_path, name):
    copy = tree.copy(tmp_path / "copy")
    (copy.root / name).unlink()
    with pytest.raises(UserError) as error:
        copy.load()
    assert error.value.file == str(copy.root / name)


@pytest.mark.parametrize("study", STUDIES)
def test_a_missing_manifest_is_named(tree, tmp_path, study):
    copy = tree.copy(tmp_path / "copy")
    (copy.results / f"tiny/{study}/MANIFEST.json").unlink()
    with pytest.raises(UserError, match=rf"{study}/MANIFEST\.json"):
        copy.load("committed")


def test_a_table_without_a_column_is_refused(tree, tmp_path):
    copy = tree.copy(tmp_path / "copy")
    path = copy.analysis("rprm") / "roc_primary.csv"
    files.write_text(path, files.read_text(path).replace("tpr", "other", 1))
    with pytest.raises(UserError, match=r"roc_primary\.csv: columns.*expected a column tpr"):
        copy.load()


@pytest.mark.parametrize("plan", [0, 2])
def test_a_verdict_of_another_plan_is_refused(tree, tmp_path, plan):
    copy = tree.copy(tmp_path / "copy")
    files.write_text(copy.plans[plan], files.read_text(copy.plans[plan]) + "# one byte more\n")
    with pytest.raises(UserError, match="plan_sha256"):
        copy.load()


def script(*arguments):
    command = [sys.executable, ROOT / "workflow_scripts" / "report.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_ends_with_one_line_and_writes_nothing(tree, tmp_path):
    copy = tree.copy(tmp_path / "copy")
    (copy.analysis("paired_timing") / "analysis.json").unlink()
    folders = ["--rprm", copy.analysis("rprm"), "--timing", copy.analysis("paired_timing")]
    folders += ["--act4s", copy.analysis("act4s"), "--results", copy.results]
    published = copy.published
    folders += ["--published", published["rprm"], "--published-act4s", published["act4s"]]
    out = tmp_path / "out"
    done = script(
        *("--profile", "tiny", "--evidence", "measured", *folders),
        *("--plans", *copy.plans, "--out-dir", out),
    )
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "paired_timing/analysis.json: file: found nothing there" in done.stderr
    assert not out.exists()


def test_reporting_imports_no_mlx():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import diffdraft.report.build; "
        "sys.exit(any(name.split('.')[0] in ('mlx', 'mlx_lm') for name in sys.modules))"
    )
    command = [sys.executable, "-c", code, str(ROOT / "workflow_scripts")]
    assert subprocess.run(command, check=False).returncode == 0


def test_a_page_can_be_about_one_study(tree):
    folders = {"act4s": tree.analysis("act4s")}
    alone = build.load("tiny", "measured", folders, tree.published, tree.plans, tree.results)
    report = build.compose(alone)
    assert [card.study for card in report.studies] == ["act4s"]
    text = render.markdown(report)
    assert "snakemake --cores all --config profile=tiny -- act4s" in text
    assert "paired_timing" not in text.replace("The committed rows of paired_timing", "")


def test_a_study_without_its_replay_is_refused(tree, tmp_path):
    common = ("--profile", "tiny", "--evidence", "measured", "--plans", *tree.plans)
    done = script(*common, "--act4s", tree.analysis("act4s"), "--out-dir", tmp_path / "out")
    assert done.returncode == 3
    assert done.stderr == (
        "error: report.py: --published-act4s: found nothing; expected a folder\n"
    )
