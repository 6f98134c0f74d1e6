"""Published figures of Act IV-S: every reading of them judged, compared, and checked."""

from pathlib import Path

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.schema import Plan, load_plan
from diffdraft.studies.act4s.settings import Act4sAnalysis
from diffdraft.studies.published.act4s_checks import derived_checks, run_checks
from diffdraft.studies.published.act4s_depends import depends_on
from diffdraft.studies.published.act4s_metrics import AS_PUBLISHED, STATED, divergences
from diffdraft.studies.published.act4s_readings import as_published, judge_readings
from diffdraft.studies.published.act4s_records import record_checks
from diffdraft.studies.published.agreement import Group
from diffdraft.studies.published.figures import Figures, Json, read_published

STUDY = "act4s"
INTERVALS = (
    "No figure was published with an interval. The point stands for both of its bounds, and the"
    " margin is the plan's floor, so a criterion on a bound asks less here than of measured rows."
)
AUDIT = (
    "Divergences were not published by subset, and those of the confidence run were not audited:"
    " every reading counts the audited ones of all rows."
)


def checks(figures: Figures, analysis: Act4sAnalysis) -> list[Group]:
    """Published figures recomputed from other published figures."""
    return [*run_checks(figures), *derived_checks(figures), *record_checks(figures, analysis)]


def stated(plan: Plan) -> dict[str, str]:
    """Metrics of the plan's criteria that have no published figure, and what stands in."""
    used = {leaf.metric for each in plan.criteria for leaf in each.passes_when.leaves()}
    return {metric: source for metric, source in STATED.items() if metric in used}


def replay(plan: Plan, figures: Figures, analysis: Act4sAnalysis) -> Json:
    """What `readings.json` holds.

    Raises `UserError` for a figure that is not there, or a criterion on a metric that the
    published figures cannot give.
    """
    judged = judge_readings(plan, figures, analysis)
    counts = divergences(figures)
    original = next(each for each in judged if each.reading == AS_PUBLISHED)
    return {
        "study": plan.study,
        "plan_sha256": plan.sha256,
        "published_verdict": figures.block("gates").value("verdict"),
        "as_published": as_published(original, figures),
        "readings": [each.to_json() for each in judged],
        "depends_on": depends_on(judged, counts),
        "divergences": counts,
        "basis": {"intervals": INTERVALS, "divergences": AUDIT, "stated": stated(plan)},
        "margin": analysis.margin_floor,
        "checks": [check.to_json() for check in checks(figures, analysis)],
    }


def run(plan_file: Path, published_file: Path, out_dir: Path) -> str:
    """Write `readings.json`; returns a line that sums it up.

    Raises:
        UserError: a plan of another study, or figures that are not whole.
    """
    plan = load_plan(plan_file)
    if plan.study != STUDY:
        raise UserError(plan_file, "study", plan.study, STUDY)
    analysis = Act4sAnalysis.from_plan(plan_file, "analysis", plan.analysis)
    figures = Figures(read_published(published_file), published_file)
    try:
        result = replay(plan, figures, analysis)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        found = f"{type(error).__name__} {error}"
        raise UserError(published_file, "figures", found, "the published tables, whole") from error
    files.write_json(out_dir / "readings.json", result)
    return _summary(result)


def _summary(result: Json) -> str:
    gates = [gate["equal"] for gate in result["as_published"]["gates"]]
    verdicts = {reading["verdict"] for reading in result["readings"]}
    held = [check["holds"] for check in result["checks"]]
    return (
        f"published replay: {sum(gates)} of {len(gates)} gates as published;"
        f" {len(result['readings'])} readings give {len(verdicts)} verdicts;"
        f" {sum(held)} of {len(held)} consistency checks hold"
    )
