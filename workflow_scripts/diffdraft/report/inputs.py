"""What a report is made from. A missing or unfit file is a `UserError` that names it."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.reading import parse_yaml
from diffdraft.prereg.schema import Plan, load_plan
from diffdraft.prereg.verdict import Verdict, load_verdict
from diffdraft.report.registration import Registration, registration

Json = Mapping[str, Any]

# Columns that the figures and tables read; a file may have more.
COLUMNS = {
    "quintiles": "stratum predictor quintile n mean_value acceptance ci_low ci_high"
    " cluster_ci_low cluster_ci_high",
    "within_offset": "stratum offset n acceptance n_low acc_low n_high acc_high adequate",
    "calibration": "stratum model predicted observed",
    "roc": "stratum model fpr tpr",
    "pr": "stratum model recall precision",
}


@dataclass(frozen=True)
class Adapter:
    """The analysis of one adapter's positions: `analysis` by stratum, `tables` by file stem."""

    tag: str
    analysis: Json
    tables: Mapping[str, pd.DataFrame]
    meta: Json


@dataclass(frozen=True)
class Rprm:
    """Study `rprm`: its plan, its verdict and one analysis an adapter, the carrying one first."""

    plan: Plan
    registration: Registration
    verdict: Verdict
    adapters: list[Adapter]
    manifest: Json | None

    @property
    def metas(self) -> Mapping[str, Json]:
        """What each measurement says about itself, by name."""
        return {f"positions, {adapter.tag}": adapter.meta for adapter in self.adapters}


@dataclass(frozen=True)
class Timing:
    """Study `paired_timing`."""

    plan: Plan
    registration: Registration
    verdict: Verdict
    analysis: Json
    meta: Json
    manifest: Json | None

    @property
    def metas(self) -> Mapping[str, Json]:
        """What the measurement says about itself, by name."""
        return {"timing": self.meta}


@dataclass(frozen=True)
class Published:
    """The published study: its figures as printed, and the verdict our engine draws from them."""

    verdict: Verdict
    comparison: Json
    figures: Json


@dataclass(frozen=True)
class Place:
    """Where a study lies: its analysis, the metadata of its rows, its plan.

    `rows` is `analysis` for rows measured here, and the folder in results/ for committed ones,
    which also holds a manifest.
    """

    analysis: Path
    rows: Path
    plan: Path
    committed: bool


def read_table(path: Path, columns: str) -> pd.DataFrame:
    """A CSV with at least these columns."""
    table = pd.read_csv(StringIO(files.read_text(path)))
    for name in columns.split():
        if name not in table.columns:
            raise UserError(path, "columns", ", ".join(table.columns), f"a column {name}")
    return table


def judged(path: Path, plan: Plan) -> Verdict:
    """A verdict that was computed from this very plan."""
    verdict = load_verdict(path)
    check_plan(path, verdict.plan_sha256, plan)
    return verdict


def check_plan(path: Path, sha256: str, plan: Plan) -> None:
    """Raise `UserError` unless a file was made with this very plan."""
    if sha256 != plan.sha256:
        action = "Judge again with this plan, or give the plan that was used"
        raise UserError(path, "plan_sha256", sha256, plan.sha256, action)


def manifest(place: Place) -> Json | None:
    """The manifest of committed rows; rows measured here have none."""
    return files.read_json(place.rows / "MANIFEST.json") if place.committed else None


def load_rprm(place: Place) -> Rprm:
    """Study `rprm` from its analysis folder and the folder that holds its rows' metadata."""
    plan = load_plan(place.plan)
    tags = dict.fromkeys(scope.split(".")[0] for scope in plan.scopes.names())
    return Rprm(
        plan=plan,
        registration=registration(place.plan),
        verdict=judged(place.analysis / "verdict.json", plan),
        adapters=[_adapter(place, tag) for tag in tags],
        manifest=manifest(place),
    )


def _adapter(place: Place, tag: str) -> Adapter:
    return Adapter(
        tag=tag,
        analysis=files.read_json(place.analysis / f"analysis_{tag}.json"),
        tables={
            stem: read_table(place.analysis / f"{stem}_{tag}.csv", names)
            for stem, names in COLUMNS.items()
        },
        meta=files.read_json(place.rows / f"positions_{tag}_meta.json"),
    )


def load_timing(place: Place) -> Timing:
    """Study `paired_timing` from its analysis folder and the folder with its rows' metadata."""
    plan = load_plan(place.plan)
    return Timing(
        plan=plan,
        registration=registration(place.plan),
        verdict=judged(place.analysis / "verdict.json", plan),
        analysis=files.read_json(place.analysis / "analysis.json"),
        meta=files.read_json(place.rows / "timing_meta.json"),
        manifest=manifest(place),
    )


def load_published(folder: Path, figures: Path, plan: Plan) -> Published:
    """The replay of the published figures under the plan of study `rprm`, and the figures."""
    return Published(
        verdict=judged(folder / "verdict.json", plan),
        comparison=files.read_json(folder / "comparison.json"),
        figures=parse_yaml(files.read_text(figures).encode(), figures),
    )
