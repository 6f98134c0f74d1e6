"""What a verdict stops really does not run: the gate that a later stage has to pass."""

from pathlib import Path
from typing import Any

from diffdraft.errors import UserError
from diffdraft.prereg import ledger
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import load_verdict


def open_gate(plan_path: Path, verdict_path: Path) -> dict[str, Any]:
    """The record of an open gate: the stage, the verdict behind it, and the plan it has to keep to.

    Raises `UserError` if the verdict is of other plan bytes, if the plan stops nothing, if it
    stops the stage, or if the stage is open but has no frozen plan of its own.
    """
    plan, verdict = load_plan(plan_path), load_verdict(verdict_path)
    if verdict.plan_sha256 != plan.sha256:
        raise UserError(verdict_path, "plan_sha256", verdict.plan_sha256[:12], plan.sha256[:12])
    if plan.stops is None:
        raise UserError(plan_path, "stops", "nothing", "a stage that a verdict opens or stops")
    carried = verdict.carried
    if carried.verdict not in plan.stops.unless:
        raise UserError(
            verdict_path,
            carried.scope,
            f"{carried.verdict}, so {plan.stops.stage} is NOT RUN",
            " or ".join(plan.stops.unless),
        )
    entry = ledger.require_frozen(plan_path.with_name(f"{plan.stops.stage}.yaml"))
    return {
        "stage": plan.stops.stage,
        "status": "OPEN",
        "verdict": carried.model_dump(),
        "plan_sha256": plan.sha256,
        "stage_plan": {"file": entry.file, "sha256": entry.sha256},
    }
