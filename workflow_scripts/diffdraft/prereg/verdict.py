"""Compare metrics with a plan: criteria outcomes, the verdict of every scope, the stop rule.

No threshold lives here. `judge` sees numbers by name and a plan, and nothing else.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.criteria import (
    AllOf,
    AnyOf,
    Condition,
    Criterion,
    Leaf,
    Operator,
    Rule,
    Statistic,
    Strict,
    When,
)
from diffdraft.prereg.ledger import Entry
from diffdraft.prereg.reading import fit
from diffdraft.prereg.schema import Plan

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}


class Part(Strict):
    """One comparison of a criterion: the metric's numbers, the bound, and what came out."""

    metric: str
    statistic: Statistic
    value: float | None
    ci_low: float | None
    ci_high: float | None
    operator: Operator
    bound: float
    outcome: bool


class CriterionOutcome(Strict):
    id: str
    outcome: bool
    parts: list[Part]


class ScopeVerdict(Strict):
    verdict: str
    criteria: list[CriterionOutcome]


class Carried(Strict):
    scope: str
    verdict: str


class StopStatus(Strict):
    stage: str
    status: Literal["OPEN", "NOT RUN"]
    reason: str


class Frozen(Strict):
    """The ledger line of the plan that was judged by."""

    sha256: str
    date: str


class Verdict(Strict):
    """What a study showed, as written to `verdict.json`.

    `plan_frozen` is null for a draft: criteria that could still change decide nothing.
    """

    study: str
    plan_sha256: str
    plan_frozen: Frozen | None = None
    carried: Carried
    scopes: dict[str, ScopeVerdict]
    stop: StopStatus | None
    does_not_show: list[str]

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class _Metrics:
    """The metrics of one scope; asking for one that is not there is an error."""

    def __init__(self, scope: str, values: Mapping[str, Mapping[str, Any]], file: object) -> None:
        self.scope, self.values, self.file = scope, values, file

    def number(self, leaf: Leaf) -> float:
        """The statistic a leaf compares. Raises `UserError` if unknown, null or not finite."""
        field = f"{self.scope}.{leaf.metric}.{leaf.statistic}"
        if leaf.metric not in self.values:
            raise UserError(self.file, field, "an unknown metric", "a metric the analysis computes")
        number = self.values[leaf.metric].get(leaf.statistic)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise UserError(self.file, field, number, "a number the plan's criterion can use")
        if not math.isfinite(number):
            raise UserError(self.file, field, number, "a finite number")
        return float(number)

    def part(self, leaf: Leaf) -> Part:
        outcome = COMPARE[leaf.operator](self.number(leaf), leaf.bound)
        value, low, high = (
            self.values[leaf.metric].get(name) for name in ("value", "ci_low", "ci_high")
        )
        return Part.model_validate(
            {**leaf.model_dump(), "value": value, "ci_low": low, "ci_high": high}
            | {"outcome": outcome}
        )


def holds(condition: Condition, metrics: _Metrics) -> bool:
    """Whether a condition is met."""
    match condition:
        case AllOf():
            return all(holds(inner, metrics) for inner in condition.all)
        case AnyOf():
            return any(holds(inner, metrics) for inner in condition.any)
        case Leaf():
            return metrics.part(condition).outcome


def _outcome(criterion: Criterion, metrics: _Metrics) -> CriterionOutcome:
    parts = [metrics.part(leaf) for leaf in criterion.passes_when.leaves()]
    outcome = holds(criterion.passes_when, metrics)
    return CriterionOutcome(id=criterion.id, outcome=outcome, parts=parts)


def _applies(when: When, passed: Mapping[str, bool]) -> bool:
    if not all(passed[name] for name in when.all) or any(passed[name] for name in when.none):
        return False
    return not when.any or any(passed[name] for name in when.any)


def choose(plan: Plan, passed: Mapping[str, bool]) -> str:
    """The string of the first verdict rule that the outcomes satisfy."""
    for rule in plan.verdicts:
        if not isinstance(rule, Rule):
            return rule.otherwise
        if _applies(rule.when, passed):
            return rule.verdict
    raise AssertionError("a plan's verdicts end with `otherwise`")


def judge_scope(
    plan: Plan, scope: str, values: Mapping[str, Mapping[str, Any]], file: object = "metrics"
) -> ScopeVerdict:
    """Judge the metrics of one scope, which need not be one that the plan declares.

    `values` is `{metric: {"value", "ci_low", "ci_high"}}`. Raises `UserError` for a criterion on
    a metric that is unknown, null or not finite.
    """
    metrics = _Metrics(scope, values, file)
    outcomes = [_outcome(criterion, metrics) for criterion in plan.criteria]
    passed = {outcome.id: outcome.outcome for outcome in outcomes}
    return ScopeVerdict(verdict=choose(plan, passed), criteria=outcomes)


def _stop(plan: Plan, carried: Carried) -> StopStatus | None:
    if plan.stops is None:
        return None
    is_open = carried.verdict in plan.stops.unless
    needed = " or ".join(plan.stops.unless)
    reason = f"{carried.scope} came out {carried.verdict}; the stage needs {needed}"
    return StopStatus(
        stage=plan.stops.stage, status="OPEN" if is_open else "NOT RUN", reason=reason
    )


def judge(
    plan: Plan,
    metrics: Mapping[str, Any],
    file: object = "metrics",
    frozen: Entry | None = None,
) -> Verdict:
    """Judge every declared scope by the plan's criteria.

    `frozen` is the plan's ledger line, and `metrics` is
    `{"study": ..., "scopes": {scope: {metric: {"value", "ci_low", "ci_high"}}}}`.
    Raises `UserError` for another study's metrics, a scope missing or not declared, and a
    criterion on a metric that is unknown, null or not finite.
    """
    scopes = metrics.get("scopes")
    if metrics.get("study") != plan.study or not isinstance(scopes, Mapping):
        raise UserError(file, "study", metrics.get("study"), f"{plan.study}, and its scopes")
    if set(scopes) != set(plan.scopes.names()):
        raise UserError(file, "scopes", sorted(scopes), sorted(plan.scopes.names()))
    verdicts = {
        scope: judge_scope(plan, scope, scopes[scope], file) for scope in plan.scopes.names()
    }
    carried = Carried(scope=plan.scopes.carries, verdict=verdicts[plan.scopes.carries].verdict)
    return Verdict(
        study=plan.study,
        plan_sha256=plan.sha256,
        plan_frozen=Frozen(sha256=frozen.sha256, date=frozen.date) if frozen else None,
        carried=carried,
        scopes=verdicts,
        stop=_stop(plan, carried),
        does_not_show=plan.does_not_show,
    )


def merge_metrics(paths: Iterable[str | Path]) -> dict[str, Any]:
    """Read metrics files and join their scopes; two studies or a scope twice are errors."""
    merged: dict[str, Any] = {}
    for path in paths:
        metrics = files.read_json(path)
        if not isinstance(metrics, dict) or not isinstance(metrics.get("scopes"), dict):
            raise UserError(path, "scopes", "nothing", "the metrics of a study")
        merged = merged or {"study": metrics.get("study"), "scopes": {}}
        if metrics.get("study") != merged["study"]:
            raise UserError(path, "study", metrics.get("study"), merged["study"])
        for scope, values in metrics["scopes"].items():
            if scope in merged["scopes"]:
                raise UserError(path, f"scopes.{scope}", "a scope given before", "each scope once")
            merged["scopes"][scope] = values
    return merged


def load_verdict(path: str | Path) -> Verdict:
    """Read `verdict.json`. Raises `UserError` if it is not one."""
    return fit(Verdict, files.read_json(path), path)
