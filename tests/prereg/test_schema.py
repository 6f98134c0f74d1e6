"""Plans that must load, and one-line refusals of plans that must not."""

import copy
import json

import pytest

from diffdraft.errors import UserError
from diffdraft.prereg.adapter_evidence import ADAPTERS
from diffdraft.prereg.history import PUBLISHED
from diffdraft.prereg.registry import STUDIES as STUDIES_WITH_CODE
from diffdraft.prereg.schema import (
    RESERVED_PROFILES,
    RESERVED_STUDIES,
    export,
    load_plan,
    parse_plan,
)

from .examples import PREREG, STUDIES, parse_dict, plan_dict, plan_text


@pytest.mark.parametrize("study", STUDIES)
def test_the_committed_plans_load(study):
    plan = load_plan(PREREG / f"{study}.yaml")
    assert plan.study == study
    assert len(plan.sha256) == 64


def test_no_study_and_no_profile_has_the_name_of_another_folder_of_results():
    """The audit reads these folders otherwise, or not at all."""
    assert ADAPTERS in RESERVED_STUDIES and PUBLISHED in RESERVED_PROFILES
    assert not {*RESERVED_STUDIES} & STUDIES_WITH_CODE.keys()
    for study in RESERVED_STUDIES:
        assert f"study: found {study}; expected another" in refusal(plan_dict() | {"study": study})
    for profile in RESERVED_PROFILES:
        plan = plan_dict()
        for key in ("samples", "models"):
            plan[key] = plan[key] | {profile: plan[key]["tiny"]}
        assert f"samples: found {profile}; expected another" in refusal(plan)


def test_the_exported_schema_agrees_with_the_models():
    assert json.loads((PREREG / "schema.json").read_text()) == export()


@pytest.mark.parametrize("study", STUDIES)
def test_the_committed_plans_fit_the_exported_schema(study):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((PREREG / "schema.json").read_text())
    jsonschema.validate(plan_dict(study), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plan_dict(study) | {"threshold": 1}, schema)


@pytest.mark.parametrize("study", STUDIES)
def test_the_analysis_block_is_what_the_study_reads(study):
    from diffdraft.studies.paired_timing import settings as timing
    from diffdraft.studies.rprm import settings as rprm

    plan = load_plan(PREREG / f"{study}.yaml")
    analysis, seeds = {
        "rprm": (rprm.RprmAnalysis, rprm.RprmSeeds),
        "paired_timing": (timing.PairedTimingAnalysis, timing.PairedTimingSeeds),
    }[study]
    analysis.from_plan("plan", "analysis", plan.analysis)
    seeds.from_plan("plan", "seeds", plan.seeds)


def refusal(plan: dict) -> str:
    with pytest.raises(UserError) as caught:
        parse_dict(plan)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("plan.yaml: ")
    return message


def edit_at(plan: dict, path: tuple, value: object) -> dict:
    plan = copy.deepcopy(plan)
    target = plan
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return plan


BAD = {
    "unknown key": (("threshold",), 1, "threshold: found an unknown key"),
    "unknown key deep": (("criteria", 2, "passes_when", "limit"), 1, "limit: found an unknown key"),
    "no otherwise": (
        ("verdicts",),
        [{"when": {"all": ["c1_monotone"]}, "verdict": "PASS"}],
        "verdicts: found no `otherwise` at the end",
    ),
    "otherwise early": (
        ("verdicts",),
        [{"otherwise": "STRONG PASS"}, {"otherwise": "FAIL"}],
        "verdicts: found an `otherwise` before the end",
    ),
    "empty verdicts": (("verdicts",), [], "verdicts"),
    "rule on no criterion": (
        ("verdicts", 0, "when", "all"),
        ["c9_unheard_of"],
        "verdicts: found c9_unheard_of; expected ids listed under criteria",
    ),
    "rule without condition": (("verdicts", 0, "when"), {}, "found no criterion"),
    "criterion on an unknown metric": (
        ("criteria", 2, "passes_when", "metric"),
        "auroc_gain_9_over_1",
        "found metric auroc_gain_9_over_1; expected a metric listed under outcomes",
    ),
    "criterion on an exploratory measure": (
        ("criteria", 2, "passes_when", "metric"),
        "auroc_gain_margin",
        "no exploratory measure",
    ),
    "criterion id twice": (("criteria", 1, "id"), "c1_monotone", "found c1_monotone twice"),
    "scope twice": (("scopes", "reported"), ["primary.FULL"], "found primary.FULL twice"),
    "stop on no verdict": (("stops", "unless"), ["GREAT PASS"], "found GREAT PASS"),
    "unknown operator": (("criteria", 2, "passes_when", "operator"), "=>", "operator: found '=>'"),
    "bound not finite": (("criteria", 2, "passes_when", "bound"), float("inf"), "bound: found inf"),
    "bound as text": (("criteria", 2, "passes_when", "bound"), "0.05", "bound: found '0.05'"),
    "bound as truth value": (("criteria", 2, "passes_when", "bound"), True, "bound: found True"),
    "empty condition": (("criteria", 0, "passes_when", "all"), [], "all: found []"),
    "windows do not add up": (("samples", "tiny", "windows"), 1000, "windows: found 1000"),
    "negative size": (("samples", "tiny", "batch_size"), -4, "batch_size: found -4"),
    "profiles differ": (("models",), {"other": {"target": "t", "revision": "r"}}, "models: found"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_plan_that_does_not_fit_is_refused_in_one_line(name):
    path, value, expected = BAD[name]
    assert expected in refusal(edit_at(plan_dict(), path, value))


def test_a_missing_block_is_named():
    plan = plan_dict()
    del plan["criteria"]
    assert "criteria: found nothing" in refusal(plan)


def refuse_file(tmp_path, data: bytes, name: str = "rprm.yaml") -> str:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        load_plan(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_key_given_twice_is_refused(tmp_path):
    text = plan_text("rprm") + "axis: another\n"
    assert "key 'axis' is given twice" in refuse_file(tmp_path, text.encode())


def test_other_encodings_objects_and_bad_yaml_are_refused(tmp_path):
    assert "not UTF-8" in refuse_file(tmp_path, b"study: \xff\xfe")
    assert "line 1" in refuse_file(tmp_path, b"study: !!python/object:os.system {}")
    assert "line 2" in refuse_file(tmp_path, b"a: [1\nb: 2\n")
    assert "expected" in refuse_file(tmp_path, b"")


def test_the_file_is_named_after_the_study_and_must_exist(tmp_path):
    message = refuse_file(tmp_path, plan_text("rprm").encode(), "other.yaml")
    assert "study: found 'rprm'" in message
    with pytest.raises(UserError, match="nothing there"):
        load_plan(tmp_path / "nowhere.yaml")


def test_one_changed_byte_changes_the_digest(tmp_path):
    text = plan_text("rprm")
    path = tmp_path / "rprm.yaml"
    path.write_text(text)
    before = load_plan(path).sha256
    path.write_text(text.replace("bound: 0.05", "bound: 0.04"))
    assert load_plan(path).sha256 != before


@pytest.mark.parametrize("text", [b"? [a, b]\n: 1\n", b"title: 2026-01-01 99:99:99\n", b"[" * 5000])
def test_yaml_that_breaks_the_loader_is_one_line(text):
    with pytest.raises(UserError) as caught:
        parse_plan(text, "plan.yaml")
    assert "\n" not in str(caught.value)
