"""Derive a verdict again from rows, and say where two verdicts differ."""

import math
import tempfile
from pathlib import Path
from typing import Any

from diffdraft.prereg.ledger import frozen_entry
from diffdraft.prereg.registry import Study
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import CriterionOutcome, ScopeVerdict, Verdict, judge

# Another processor may round a fitted probability otherwise, which can move one rank of an AUROC.
# Published figures of this kind have five decimals.
SAME_NUMBER = 1e-5
MEASURED = ("value", "ci_low", "ci_high")


def rederive(plan: Path, folder: Path, study: Study) -> Verdict:
    """The verdict of the rows in `folder`; `folder` is only read."""
    with tempfile.TemporaryDirectory() as scratch:
        metrics = study.metrics(plan, folder, Path(scratch))
        return judge(load_plan(plan), metrics, folder, frozen_entry(plan))


def compare(ours: Verdict, theirs: Verdict) -> dict[str, Any]:
    """Two verdicts side by side, scope by scope and criterion by criterion.

    `equal` says whether all verdict strings and the stop agree, `same_outcomes` whether every
    criterion and each of its comparisons does too, and `same_numbers` whether their values are
    the same to five decimals.
    """
    scopes = {
        name: _compare_scopes(ours.scopes.get(name), theirs.scopes.get(name))
        for name in dict.fromkeys([*ours.scopes, *theirs.scopes])
    }
    status = [verdict.stop.status if verdict.stop else None for verdict in (ours, theirs)]
    equal = (
        ours.study == theirs.study
        and ours.carried == theirs.carried
        and status[0] == status[1]
        and all(scope["equal"] for scope in scopes.values())
    )
    rows = [row for scope in scopes.values() for row in scope["criteria"]]
    return {
        "study": ours.study,
        "equal": equal,
        "same_plan": ours.plan_sha256 == theirs.plan_sha256,
        "same_outcomes": equal and all(row["equal"] and row["same_parts"] for row in rows),
        "same_numbers": equal and all(row["same_numbers"] for row in rows),
        "carried": {"ours": ours.carried.model_dump(), "theirs": theirs.carried.model_dump()},
        "stop": {"ours": status[0], "theirs": status[1]},
        "scopes": scopes,
    }


def _compare_scopes(ours: ScopeVerdict | None, theirs: ScopeVerdict | None) -> dict[str, Any]:
    left = {criterion.id: criterion for criterion in ours.criteria} if ours else {}
    right = {criterion.id: criterion for criterion in theirs.criteria} if theirs else {}
    verdicts = [scope.verdict if scope else None for scope in (ours, theirs)]
    return {
        "ours": verdicts[0],
        "theirs": verdicts[1],
        "equal": verdicts[0] == verdicts[1],
        "criteria": [
            _compare_criteria(name, left.get(name), right.get(name))
            for name in dict.fromkeys([*left, *right])
        ],
    }


def _compare_criteria(
    name: str, ours: CriterionOutcome | None, theirs: CriterionOutcome | None
) -> dict[str, Any]:
    outcomes = [criterion.outcome if criterion else None for criterion in (ours, theirs)]
    numbers = [_numbers(criterion) for criterion in (ours, theirs)]
    measured = [_measured(criterion) for criterion in (ours, theirs)]
    return {
        "id": name,
        "ours": {"outcome": outcomes[0], "numbers": numbers[0]},
        "theirs": {"outcome": outcomes[1], "numbers": numbers[1]},
        "equal": outcomes[0] == outcomes[1],
        "same_parts": _exact(ours) == _exact(theirs),
        "same_numbers": len(measured[0]) == len(measured[1]) and all(map(_same_number, *measured)),
    }


def _exact(criterion: CriterionOutcome | None) -> list[dict[str, Any]]:
    """The comparisons without what was measured: no rounding moves these."""
    parts = criterion.parts if criterion else []
    return [part.model_dump(exclude=set(MEASURED)) for part in parts]


def _measured(criterion: CriterionOutcome | None) -> list[float | None]:
    parts = criterion.parts if criterion else []
    return [getattr(part, name) for part in parts for name in MEASURED]


def _numbers(criterion: CriterionOutcome | None) -> dict[str, float | None]:
    parts = criterion.parts if criterion else []
    return {
        f"{part.metric}.{name}": value
        for part in parts
        for name, value in ((name, getattr(part, name)) for name in MEASURED)
    } | {f"{part.metric} {part.operator}": part.bound for part in parts}


def _same_number(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=0.0, abs_tol=SAME_NUMBER)


def differences(comparison: dict[str, Any]) -> list[str]:
    """One line for each thing that differs, the verdicts first."""
    lines = []
    ours, theirs = comparison["carried"]["ours"], comparison["carried"]["theirs"]
    if ours != theirs:
        lines.append(f"carried: {' '.join(ours.values())} and not {' '.join(theirs.values())}")
    if comparison["stop"]["ours"] != comparison["stop"]["theirs"]:
        lines.append(f"stop: {comparison['stop']['ours']} and not {comparison['stop']['theirs']}")
    for name, scope in comparison["scopes"].items():
        if not scope["equal"]:
            lines.append(f"{name}: {scope['ours']} and not {scope['theirs']}")
        for row in scope["criteria"]:
            if not row["equal"]:
                lines.append(f"{name}, {row['id']}: the outcome differs")
            elif not row["same_parts"]:
                lines.append(f"{name}, {row['id']}: a comparison or its outcome differs")
            elif not row["same_numbers"]:
                lines.append(f"{name}, {row['id']}: numbers differ in the fifth decimal or before")
    return lines
