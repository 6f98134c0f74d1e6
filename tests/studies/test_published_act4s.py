"""The published figures of Act IV-S, read in every way and judged by a plan with its criteria."""

import copy
import math
import re

import pytest
import yaml

import published as script
from diffdraft import cli, files
from diffdraft.errors import UserError
from diffdraft.prereg.schema import load_plan
from diffdraft.studies.act4s.settings import Act4sAnalysis
from diffdraft.studies.published import act4s_metrics, act4s_readings, act4s_replay
from diffdraft.studies.published.act4s_depends import AXES, depends_on
from diffdraft.studies.published.act4s_metrics import AS_PUBLISHED, Reading, all_readings
from diffdraft.studies.published.figures import Figures, read_published
from tests.studies.act4s_plan import ANALYSIS, PUBLISHED, act4s_plan, write_plan
from tests.studies.plans import RPRM

SETTINGS = Act4sAnalysis.from_plan("plan", "analysis", ANALYSIS)
PUBLISHED_VERDICT = "K=4 STANDS. ADAPTIVE K FAILS."


@pytest.fixture(scope="module")
def values():
    return read_published(PUBLISHED)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return load_plan(write_plan(tmp_path_factory.mktemp("plan")))


@pytest.fixture(scope="module")
def judged(plan, values):
    return act4s_readings.judge_readings(plan, Figures(values), SETTINGS)


@pytest.fixture(scope="module")
def result(plan, values):
    return act4s_replay.replay(plan, Figures(values), SETTINGS)


def of(judged, *choice):
    return next(each for each in judged if each.reading == Reading(*choice))


def entry(result, what, by):
    return [each for each in result["depends_on"] if (each["what"], each["by"]) == (what, by)]


def test_the_original_reading_gives_every_gate_and_verdict_as_published(result):
    compared = result["as_published"]
    assert compared["reading"] == AS_PUBLISHED.to_json()
    assert compared["equal"]
    assert [gate["gate"] for gate in compared["gates"]] == [0, 1, 2, 3, 4, 5]
    assert compared["gates"][4]["replayed"] == "modest"
    assert compared["verdict"]["without_a_rule"] == "TWO OF THE APPARENT WINS WERE ARTIFACTS."


def test_twelve_readings_and_their_verdicts(judged):
    assert [each.reading for each in judged] == all_readings()
    assert len(judged) == 12
    for each in judged:
        reading = each.reading
        if reading.correctness_rule == "exact_tie":
            assert each.verdict.verdict == "NOT LOSSLESS"
        elif reading.subset == "pooled" and reading.estimator != "median_ratio":
            assert each.verdict.verdict == "K=4 STANDS. ADAPTIVE K STANDS."
        else:
            assert each.verdict.verdict == PUBLISHED_VERDICT


def test_metrics_are_recomputed_from_medians_means_and_stages(values):
    figures = Figures(values)
    got = {
        name: act4s_metrics.metrics(figures, Reading(name, "pooled", "one_ulp"), SETTINGS)
        for name in act4s_metrics.ESTIMATORS
    }
    ratios = {name: math.exp(metrics["k4_speedup_log"]["value"]) for name, metrics in got.items()}
    cycle = 24.7097 + 23.9794 + 0.2889 + 0.8339
    assert ratios == pytest.approx(
        {
            "median_ratio": 60.323 / 48.456,
            "mean_ratio": 60.4963 / 48.1424,
            "cycle_ratio": 3034.2 / cycle / 49.3161,
        }
    )
    metrics = got["median_ratio"]
    log = math.log(60.323 / 48.456)
    assert metrics["k4_faster_by"]["ci_low"] == pytest.approx(log - 0.01)
    assert metrics["k4_slower_by"]["value"] == pytest.approx(-log - 0.01)
    assert metrics["k4_outside"]["value"] == pytest.approx(log - 0.01)
    assert metrics["any_faster_by"]["value"] == metrics["k4_faster_by"]["value"]
    assert metrics["adaptive_over_fixed"]["value"] == pytest.approx(math.log(58.452 / 58.869))
    assert metrics["ar_repeat_sd"]["value"] == pytest.approx(0.8692 / 48.456)
    assert metrics["beyond_exact_tie"]["value"] == 267
    assert metrics["beyond_one_ulp"]["value"] == 0


def test_bounds_are_the_point_and_that_is_said(values, result):
    metrics = act4s_metrics.metrics(Figures(values), AS_PUBLISHED, SETTINGS)
    assert all(len({m["value"], m["ci_low"], m["ci_high"]}) == 1 for m in metrics.values())
    assert "stands for both of its bounds" in result["basis"]["intervals"]
    assert set(result["basis"]["stated"]) == {"ar_identical", "ar_repeat_sd"}
    assert set(result["basis"]["stated"]) < set(metrics)


def test_the_exact_tie_rule_shows_its_own_metric(judged):
    for rule, metric, value in (
        ("one_ulp", "beyond_one_ulp", 0),
        ("exact_tie", "beyond_exact_tie", 267),
    ):
        criteria = of(judged, "median_ratio", "pooled", rule).to_json()["criteria"]
        shown = next(each for each in criteria if each["id"] == "g1_correct")
        assert (shown["metric"], shown["value"], shown["outcome"]) == (metric, value, value == 0)


def test_gate_1_depends_on_the_rule_that_was_changed_afterwards(result):
    (found,) = entry(result, "gate 1", "correctness rule")
    assert found["readings"] == {"one_ulp": True, "exact_tie": False}
    assert found["where"] == {}
    assert "267 of 759" in found["says"]
    assert "after the results were known" in found["says"]


def test_gate_5_and_the_useful_band_depend_on_the_estimator_over_all_rows(result):
    (gate_5,) = entry(result, "gate 5", "estimator")
    assert gate_5["where"] == {"subset": ["pooled"]}
    assert gate_5["readings"] == {"median_ratio": False, "mean_ratio": True, "cycle_ratio": True}
    assert "fails by the ratio of medians (0.9830)" in gate_5["says"]
    (useful,) = entry(result, "gate 4 (useful)", "estimator")
    assert useful["readings"] == {"median_ratio": False, "mean_ratio": True, "cycle_ratio": False}
    assert entry(result, "gate 4 (modest)", "estimator") == []


@pytest.mark.parametrize(
    ("what", "median", "mean"),
    [
        ("ngram2_k4 against uno_k4", "not ahead", "ahead"),
        ("ngram3_k4 against uno_k4", "not ahead", "ahead"),
        ("K=8 against K=2", "not ahead", "ahead"),
        ("uno_k4 against every other arm of controls", "ahead", "not ahead"),
        ("uno_k4 against every other arm of adaptive", "ahead", "not ahead"),
    ],
)
def test_standings_that_hang_on_the_estimator(result, what, median, mean):
    (found,) = entry(result, what, "estimator")
    assert found["where"] == {"subset": ["pooled"]}
    assert (found["readings"]["median_ratio"], found["readings"]["mean_ratio"]) == (median, mean)


def test_entries_are_what_a_comparison_of_all_pairs_of_readings_gives(judged, result):
    """The slow way: a criterion depends on an axis if two readings that differ in it disagree."""
    expected = set()
    for one in judged:
        for other in judged:
            a, b = one.reading.to_json(), other.reading.to_json()
            differing = [axis for axis in AXES if a[axis] != b[axis]]
            if len(differing) == 1:
                for name, outcome in one.passed.items():
                    if outcome != other.passed[name]:
                        expected.add((name.split("_")[0], differing[0].replace("_", " ")))
    found = {
        ("g" + each["what"].split()[1], each["by"])
        for each in result["depends_on"]
        if each["what"].startswith("gate")
    }
    assert found == expected


def test_where_names_every_combination_once(result):
    for each in result["depends_on"]:
        assert len(set(each["readings"].values())) > 1
        assert set(each["readings"]) in [set(values) for values in AXES.values()]
    verdicts = entry(result, "the verdict", "correctness rule")
    sizes = [
        math.prod(len(each["where"].get(axis, AXES[axis])) for axis in ("estimator", "subset"))
        for each in verdicts
    ]
    assert sum(sizes) == 6


def test_equal_answers_give_no_dependence(plan, values):
    flat = copy.deepcopy(values)
    for name, block in flat.items():
        if "_summary" in name:
            for row in block["rows"]:
                same = 40.0 if row["arm"] == "ar" else 50.0
                row |= {"tok_s_median": same, "tok_s_mean": same, "decode_tok_s_median": 40.0}
                row |= {"mean_committed_per_cycle": 2.0, "mean_accepted_prefix": 1.2}
                row |= {"proposal_ms": 40.0, "verify_ms": 0.0, "commit_ms": 0.0, "overhead_ms": 0.0}
    for row in flat["divergence_audit"]["rows"]:
        row["exact_ties"] = row["divergences"]
    judged = act4s_readings.judge_readings(plan, Figures(flat), SETTINGS)
    assert depends_on(judged, act4s_metrics.divergences(Figures(flat))) == []


@pytest.mark.parametrize(
    ("gate", "result"),
    [(0, "FAIL"), (2, "FAIL"), (4, "useful"), (4, "nothing"), (5, "PASS")],
)
def test_a_changed_gate_is_told(plan, values, gate, result):
    changed = copy.deepcopy(values)
    changed["gates"]["rows"][gate]["result"] = result
    got = act4s_replay.replay(plan, Figures(changed), SETTINGS)["as_published"]
    # Gate 0 has no figure: what was stated is what is judged, so it agrees and nothing stands.
    assert got["gates"][gate]["equal"] == (gate == 0)
    assert not got["equal"]


def test_an_unstable_baseline_or_a_defect_comes_first(plan, values):
    changed = copy.deepcopy(values)
    changed["divergence_audit"]["rows"][0]["beyond_one_ulp"] = 1
    judged = act4s_readings.judge_readings(plan, Figures(changed), SETTINGS)
    assert {each.verdict.verdict for each in judged} == {"NOT LOSSLESS"}
    changed["gates"]["rows"][0]["result"] = "FAIL"
    judged = act4s_readings.judge_readings(plan, Figures(changed), SETTINGS)
    assert {each.verdict.verdict for each in judged} == {"BASELINE UNSTABLE"}


@pytest.mark.parametrize(
    ("k4", "k2", "verdict"),
    [
        (48.456, 54.69, "ANOTHER CONFIGURATION STANDS. K=4 DOES NOT."),
        (48.456, 40.0, "K=4 IS EQUAL TO NATIVE DECODING."),
        (40.0, 40.0, "K=4 IS SLOWER."),
    ],
)
def test_other_speeds_give_the_other_verdicts(plan, values, k4, k2, verdict):
    changed = copy.deepcopy(values)
    for row in changed["ksweep_summary"]["rows"]:
        if row["arm"] != "ar":
            row["tok_s_median"] = {"uno_k4": k4, "uno_k2": k2}.get(row["arm"], 30.0)
    judged = act4s_readings.judge_readings(plan, Figures(changed), SETTINGS)
    assert of(judged, "median_ratio", "pooled", "one_ulp").verdict.verdict == verdict


def call(*arguments):
    with pytest.raises(SystemExit) as stopped:
        cli.run(script.parser(), script.main, [str(argument) for argument in arguments])
    return stopped.value.code


def test_the_command_writes_readings(tmp_path, capsys, result):
    arguments = ["--study", "act4s", "--plan", write_plan(tmp_path), "--published", PUBLISHED]
    assert call(*arguments, "--out-dir", tmp_path / "out") == 0
    assert "6 of 6 gates as published; 12 readings give 3 verdicts" in capsys.readouterr().out
    written = files.read_json(tmp_path / "out" / "readings.json")
    assert written["published_verdict"].startswith(PUBLISHED_VERDICT)
    assert written["depends_on"] == result["depends_on"]
    assert len(written["plan_sha256"]) == 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("gates"), "gates: found nothing"),
        (lambda v: v["ksweep_summary"]["rows"].pop(4), "ksweep_summary: arm uno_k4: found 0 rows"),
        (
            lambda v: v["ksweep_summary"]["rows"][4].update(tok_s_median="fast"),
            "ksweep_summary uno_k4: tok_s_median: found fast; expected a finite number",
        ),
        (
            lambda v: v["ksweep_summary"]["rows"][0].update(tok_s_mean=0),
            "ksweep_summary ar: tok_s_mean: found 0; expected a number above 0",
        ),
        (lambda v: v["ksweep_survival"]["rows"][2].pop("p_ge_j_from_1"), "p_ge_j_from_1: found"),
        (lambda v: v["divergence_audit"].update(rows=3), "divergence_audit.rows: found something"),
    ],
)
def test_a_figure_that_is_missing_or_no_number_is_named(plan, values, change, message):
    changed = copy.deepcopy(values)
    change(changed)
    with pytest.raises(UserError, match=re.escape(message)):
        act4s_replay.replay(plan, Figures(changed), SETTINGS)


def test_a_bad_figure_ends_the_command_in_one_line_and_writes_nothing(tmp_path, capsys):
    path = tmp_path / "act4_s.yaml"
    path.write_text(files.read_text(PUBLISHED).replace("ksweep_survival:", "survival:"))
    arguments = ["--study", "act4s", "--plan", write_plan(tmp_path), "--published", path]
    assert call(*arguments, "--out-dir", tmp_path / "out") == cli.EXIT_USER_ERROR
    error = capsys.readouterr().err
    assert f"{path}: ksweep_survival: found nothing" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_tables_that_are_not_whole_end_the_command_in_one_line(tmp_path, capsys, values):
    changed = copy.deepcopy(values)
    changed["confidence_bins"]["rows"] = []
    path = tmp_path / "act4_s.yaml"
    path.write_text(yaml.safe_dump(changed))
    arguments = ["--study", "act4s", "--plan", write_plan(tmp_path), "--published", path]
    assert call(*arguments, "--out-dir", tmp_path / "out") == cli.EXIT_USER_ERROR
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}: ") and error.count("\n") == 1


def test_metrics_that_stand_in_are_named_only_where_a_criterion_uses_them(tmp_path):
    criteria = copy.deepcopy(act4s_plan()["criteria"])
    criteria[0]["passes_when"]["all"][1]["metric"] = "aa_margin"
    outcomes = [*act4s_plan()["outcomes"], {"metric": "aa_margin", "meaning": "margin"}]
    plan = load_plan(write_plan(tmp_path, criteria=criteria, outcomes=outcomes))
    assert set(act4s_replay.stated(plan)) == {"ar_identical", "aa_margin"}


def test_a_plan_of_another_study_is_refused(tmp_path):
    with pytest.raises(UserError, match="found rprm; expected act4s"):
        act4s_replay.run(RPRM, PUBLISHED, tmp_path)


def test_a_plan_without_gate_criteria_is_refused(tmp_path, values):
    plan = load_plan(write_plan(tmp_path))
    criteria = [each for each in plan.criteria if not each.id.startswith("g")]
    rules = [plan.verdicts[-1]]
    bare = plan.model_copy(update={"criteria": criteria, "verdicts": rules})
    with pytest.raises(UserError, match="no criterion of the plan"):
        act4s_replay.replay(bare, Figures(values), SETTINGS)
