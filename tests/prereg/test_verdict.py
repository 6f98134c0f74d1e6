"""The verdict moves exactly as the plan says: one criterion, one leaf, one bound at a time."""

import copy
import itertools
import json
import math

import pytest

from diffdraft.errors import UserError
from diffdraft.prereg.criteria import AllOf, AnyOf, Leaf
from diffdraft.prereg.verdict import choose, judge, load_verdict, merge_metrics

from .examples import parse_dict, passing_metrics, plan_dict

CRITERIA = [criterion["id"] for criterion in plan_dict()["criteria"]]


def outcomes(verdict, scope="primary.FULL"):
    return {criterion.id: criterion.outcome for criterion in verdict.scopes[scope].criteria}


def failing(leaf: Leaf) -> float:
    """A number on the wrong side of the leaf's bound."""
    return leaf.bound + (1 if leaf.operator in ("<", "<=") else -1)


def passing(leaf: Leaf) -> float:
    return leaf.bound + (-1 if leaf.operator in ("<", "<=") else 1)


def slow_holds(condition, values) -> bool:
    """Oracle: the condition as a Python expression, evaluated as text."""

    def text(node):
        match node:
            case AllOf():
                return "(" + " and ".join(map(text, node.all)) + ")"
            case AnyOf():
                return "(" + " or ".join(map(text, node.any)) + ")"
        return f"({values[node.metric][node.statistic]!r} {node.operator} {node.bound!r})"

    return eval(text(condition))


def slow_label(passed: dict[str, bool]) -> str:
    """Oracle: the registered wording of the labels of RPRM stage 1."""
    if all(passed.values()):
        return "STRONG PASS"
    weak = passed["c3_auroc_gain_over_progress"] and passed["c4_beats_shuffled"]
    return "WEAK PASS" if weak and not passed["c5_adds_to_existing"] else "FAIL"


def test_metrics_that_pass_everything_open_the_stage(rprm):
    verdict = judge(rprm, passing_metrics(rprm))
    assert all(outcomes(verdict).values())
    assert verdict.carried.scope == "primary.FULL"
    assert {scope.verdict for scope in verdict.scopes.values()} == {"STRONG PASS"}
    assert verdict.stop.status == "OPEN"


@pytest.mark.parametrize("criterion_id", CRITERIA)
def test_failing_one_criterion_flips_it_alone_and_moves_the_verdict(rprm, criterion_id):
    (criterion,) = [c for c in rprm.criteria if c.id == criterion_id]
    metrics = passing_metrics(rprm)
    for leaf in criterion.passes_when.leaves():
        metrics["scopes"]["primary.FULL"][leaf.metric][leaf.statistic] = failing(leaf)
    verdict = judge(rprm, metrics)
    flipped = {name for name, outcome in outcomes(verdict).items() if not outcome}
    assert flipped == {criterion_id}
    expected = "WEAK PASS" if criterion_id == "c5_adds_to_existing" else "FAIL"
    assert verdict.carried.verdict == expected
    assert verdict.stop.status == "NOT RUN"
    assert verdict.scopes["replication.FULL"].verdict == "STRONG PASS"


LEAVES = [
    (criterion.id, index)
    for criterion in parse_dict(plan_dict()).criteria
    for index, _ in enumerate(criterion.passes_when.leaves())
]


@pytest.mark.parametrize(("criterion_id", "index"), LEAVES)
def test_every_leaf_can_decide_its_criterion(rprm, criterion_id, index):
    """With the other leaves set so that this one decides, flipping it flips the criterion."""
    (criterion,) = [c for c in rprm.criteria if c.id == criterion_id]
    leaves = list(criterion.passes_when.leaves())
    others = [leaf for i, leaf in enumerate(leaves) if i != index]
    decided = False
    for pattern in itertools.product([True, False], repeat=len(others)):
        seen = []
        for mine in (True, False):
            metrics = passing_metrics(rprm)
            values = metrics["scopes"]["primary.FULL"]
            chosen = zip([leaves[index], *others], [mine, *pattern], strict=True)
            for leaf, good in chosen:
                values[leaf.metric][leaf.statistic] = passing(leaf) if good else failing(leaf)
            verdict = judge(rprm, metrics)
            outcome = outcomes(verdict)[criterion_id]
            assert outcome == slow_holds(criterion.passes_when, values)
            (record,) = [c for c in verdict.scopes["primary.FULL"].criteria if c.id == criterion_id]
            assert record.parts[index].outcome is mine
            seen.append((outcome, verdict.carried.verdict))
        decided = decided or (seen[0][0] != seen[1][0] and seen[0][1] != seen[1][1])
    assert decided


def nodes(value):
    if isinstance(value, dict):
        if "bound" in value:
            yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


@pytest.mark.parametrize("index", range(len(LEAVES)))
def test_the_bound_comes_from_the_plan(rprm, index):
    """Moving one bound past the metric flips that leaf, with the same metrics."""
    plan = plan_dict()
    node = list(nodes(plan["criteria"]))[index]
    value = passing_metrics(rprm)["scopes"]["primary.FULL"][node["metric"]]
    number = value[node.get("statistic", "value")]
    node["bound"] = number + (-1 if node["operator"] in ("<", "<=") else 1)
    verdict = judge(parse_dict(plan), passing_metrics(rprm))
    parts = [p for c in verdict.scopes["primary.FULL"].criteria for p in c.parts]
    assert [i for i, part in enumerate(parts) if not part.outcome] == [index]


@pytest.mark.parametrize(
    ("symbol", "below", "equal", "above"),
    [
        (">", False, False, True),
        (">=", False, True, True),
        ("<", True, False, False),
        ("<=", True, True, False),
        ("==", False, True, False),
    ],
)
def test_operators_at_the_bound(rprm, symbol, below, equal, above):
    plan = plan_dict()
    plan["criteria"][2]["passes_when"]["operator"] = symbol
    for number, expected in (
        (math.nextafter(0.05, 0), below),
        (0.05, equal),
        (math.nextafter(0.05, 1), above),
    ):
        metrics = passing_metrics(rprm)
        metrics["scopes"]["primary.FULL"]["auroc_gain_4_over_1"]["value"] = number
        verdict = judge(parse_dict(plan), metrics)
        assert outcomes(verdict)["c3_auroc_gain_over_progress"] is expected


def test_labels_follow_the_registered_wording_for_all_outcomes(rprm):
    for values in itertools.product([True, False], repeat=len(CRITERIA)):
        passed = dict(zip(CRITERIA, values, strict=True))
        assert choose(rprm, passed) == slow_label(passed)


def test_rules_with_any_and_first_match_wins():
    plan = plan_dict()
    plan["verdicts"] = [
        {"when": {"any": ["c1_monotone", "c2_within_cell"]}, "verdict": "ONE"},
        {"when": {"all": ["c1_monotone"]}, "verdict": "NEVER"},
        {"otherwise": "NONE"},
    ]
    plan["stops"] = None
    plan = parse_dict(plan)
    passed = dict.fromkeys(CRITERIA, False)
    assert choose(plan, passed) == "NONE"
    assert choose(plan, passed | {"c2_within_cell": True}) == "ONE"
    assert choose(plan, passed | {"c1_monotone": True}) == "ONE"


def test_timing_verdicts():
    plan = parse_dict(plan_dict("paired_timing"))

    def carried(identical, low, high):
        values = {
            "identical_outputs": {"value": identical},
            "log_ratio": {"value": (low + high) / 2, "ci_low": low, "ci_high": high},
        }
        verdict = judge(plan, {"study": plan.study, "scopes": {"all": values}})
        return verdict.carried.verdict

    assert carried(1.0, 0.1, 0.2) == "FASTER"
    assert carried(1.0, -0.2, -0.1) == "SLOWER"
    assert carried(1.0, -0.2, 0.1) == "NO DIFFERENCE SHOWN"
    assert carried(1.0, 0.0, 0.1) == "NO DIFFERENCE SHOWN"
    assert carried(math.nextafter(1.0, 0), 0.1, 0.2) == "INVALID"


def broken(metrics, change):
    metrics = copy.deepcopy(metrics)
    change(metrics["scopes"]["replication.SCHEDULE"])
    return metrics


@pytest.mark.parametrize(
    "change",
    [
        lambda scope: scope.pop("cells_signed"),
        lambda scope: scope["cells_signed"].update(value=None),
        lambda scope: scope["cells_signed"].update(value=float("nan")),
        lambda scope: scope["cells_signed"].update(value=True),
        lambda scope: scope["cells_signed"].update(value="7"),
        lambda scope: scope["cells_signed"].pop("value"),
    ],
)
def test_a_metric_the_criterion_cannot_use_is_named_even_in_a_reported_scope(rprm, change):
    with pytest.raises(UserError, match=r"replication\.SCHEDULE\.cells_signed\.value") as caught:
        judge(rprm, broken(passing_metrics(rprm), change))
    assert "\n" not in str(caught.value)


def test_a_null_leaf_is_an_error_even_when_the_other_branch_of_any_holds(rprm):
    metrics = passing_metrics(rprm)
    metrics["scopes"]["primary.FULL"]["logloss_reduction_6_over_5"]["ci_low"] = None
    with pytest.raises(UserError, match="logloss_reduction_6_over_5"):
        judge(rprm, metrics)


def test_scopes_and_study_must_be_the_plans(rprm):
    metrics = passing_metrics(rprm)
    with pytest.raises(UserError, match="study"):
        judge(rprm, metrics | {"study": "paired_timing"})
    del metrics["scopes"]["replication.FULL"]
    with pytest.raises(UserError, match="scopes"):
        judge(rprm, metrics)
    metrics = passing_metrics(rprm)
    metrics["scopes"]["third.FULL"] = metrics["scopes"]["primary.FULL"]
    with pytest.raises(UserError, match="scopes"):
        judge(rprm, metrics)


def test_the_json_form(rprm, tmp_path):
    verdict = judge(rprm, passing_metrics(rprm))
    path = tmp_path / "verdict.json"
    path.write_text(json.dumps(verdict.to_json()))
    assert load_verdict(path) == verdict
    value = json.loads(path.read_text())
    assert set(value) == {
        *("study", "plan_sha256", "plan_frozen", "carried", "scopes", "stop", "does_not_show"),
    }
    assert value["plan_sha256"] == rprm.sha256
    assert value["carried"] == {"scope": "primary.FULL", "verdict": "STRONG PASS"}
    criterion = value["scopes"]["replication.FULL"]["criteria"][5]
    assert criterion == {
        "id": "c6_bootstrap_nontrivial",
        "outcome": True,
        "parts": [
            {
                "metric": "auroc_gain_4_over_1",
                "statistic": "ci_low",
                "value": 0.07,
                "ci_low": 0.02,
                "ci_high": 0.09,
                "operator": ">",
                "bound": 0.0,
                "outcome": True,
            }
        ],
    }


def test_metrics_files_are_joined_and_overlaps_refused(rprm, tmp_path):
    metrics = passing_metrics(rprm)
    paths = []
    for tag in ("primary", "replication"):
        scopes = {name: v for name, v in metrics["scopes"].items() if name.startswith(tag)}
        paths.append(tmp_path / f"metrics_{tag}.json")
        paths[-1].write_text(json.dumps({"study": "rprm", "scopes": scopes}))
    assert merge_metrics(paths) == metrics
    with pytest.raises(UserError, match="a scope given before"):
        merge_metrics([*paths, paths[0]])
    paths[1].write_text(json.dumps({"study": "other", "scopes": {}}))
    with pytest.raises(UserError, match="study"):
        merge_metrics(paths)
    paths[1].write_text("[]")
    with pytest.raises(UserError, match="scopes"):
        merge_metrics(paths)
