"""Published figures through the verdict engine that judges ours, and how the outcomes compare."""

from pathlib import Path

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import ScopeVerdict, Verdict, judge
from diffdraft.studies.published.checks import Check, scope_checks, split_check
from diffdraft.studies.published.figures import Json, read_published
from diffdraft.studies.rprm.analysis import metrics_of
from diffdraft.studies.rprm.run import STUDY, settings_of
from diffdraft.studies.rprm.settings import RprmAnalysis, RprmSeeds
from diffdraft.studies.rprm.tables import differences

TAGS = ("primary", "replication")
STRATA = ("FULL", "SCHEDULE")


def metrics(published: Json) -> Json:
    """The metrics that our analysis computes from rows, here from the published figures."""
    scopes = {
        f"{tag}.{stratum}": _scope_metrics(published, tag, stratum)
        for tag in TAGS
        for stratum in STRATA
    }
    return {"study": STUDY, "scopes": scopes}


def _scope_metrics(published: Json, tag: str, stratum: str) -> Json:
    figures = published[f"stage1_{tag}"][stratum]
    effects = {
        **figures["verdict"],
        "quintile_inversions": differences(figures["quintiles_entropy"]),
    }
    windows = published[f"positions_meta_{tag}"]["windows"]
    return metrics_of({**figures, "effects": effects}, windows)


def checks(published: Json, analysis: RprmAnalysis, seeds: RprmSeeds) -> list[Check]:
    """Published figures recomputed from other published figures."""
    out = [split_check(published, analysis, seeds.split)]
    counts = published["derived_counts"]["test_accepted_by_offset_2_to_8"]
    for tag in TAGS:
        for stratum in STRATA:
            figures = published[f"stage1_{tag}"][stratum]
            scope, by_offset = f"{tag}.{stratum}", counts[tag][stratum]
            out += scope_checks(scope, figures, by_offset, analysis)
    return out


def compare(verdict: Verdict, published: Json) -> Json:
    """For every scope: replayed and printed outcome of each criterion and of the verdict."""
    scopes = {}
    for scope, judged in verdict.scopes.items():
        tag, stratum = scope.split(".")
        scopes[scope] = _compare_scope(judged, published[f"stage1_{tag}"][stratum]["verdict"])
    return {"equal": all(entry["equal"] for entry in scopes.values()), "scopes": scopes}


def _compare_scope(judged: ScopeVerdict, printed: Json) -> Json:
    criteria = [
        _pair(outcome.outcome, printed["criteria"][outcome.id], id=outcome.id)
        for outcome in judged.criteria
    ]
    verdict = _pair(judged.verdict, printed["verdict"])
    equal = verdict["equal"] and all(entry["equal"] for entry in criteria)
    return {"equal": equal, "verdict": verdict, "criteria": criteria}


def _pair(replayed: object, printed: object, **key: str) -> Json:
    return {**key, "replayed": replayed, "published": printed, "equal": replayed == printed}


def run(plan_file: Path, published_file: Path, out_dir: Path) -> str:
    """Write `verdict.json` and `comparison.json`; returns a line that sums them up.

    Raises:
        UserError: a plan of another study, or a figure that is not in the file.
    """
    plan, published = load_plan(plan_file), read_published(published_file)
    analysis, seeds = settings_of(plan, plan_file)
    try:
        verdict = judge(plan, metrics(published), published_file)
        checked = checks(published, analysis, seeds)
        comparison = compare(verdict, published)
        comparison["differences"] = published["differences"]
    except KeyError as error:
        raise UserError(published_file, str(error.args[0]), "nothing", "this figure") from None
    comparison["checks"] = [check.to_json() for check in checked]
    files.write_json(out_dir / "verdict.json", verdict.to_json())
    files.write_json(out_dir / "comparison.json", comparison)
    return _summary(comparison, checked)


def _summary(comparison: Json, checked: list[Check]) -> str:
    scopes = comparison["scopes"].values()
    criteria = [entry["equal"] for scope in scopes for entry in scope["criteria"]]
    verdicts = [scope["verdict"]["equal"] for scope in scopes]
    held = sum(check.holds for check in checked)
    return (
        f"published replay: {sum(verdicts)} of {len(verdicts)} verdicts and {sum(criteria)} of "
        f"{len(criteria)} criteria as published; {held} of {len(checked)} consistency checks hold"
    )
