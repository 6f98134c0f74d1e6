"""Which code and which files belong to a study: from the rows in a folder back to its metrics.

The analyses are imported when they run: freezing a plan needs none of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffdraft.errors import UserError
from diffdraft.prereg.schema import Plan, load_plan
from diffdraft.prereg.verdict import merge_metrics
from diffdraft.studies.act4s.design import RUNS
from diffdraft.studies.act4s.settings import Act4sAnalysis, Act4sSeeds
from diffdraft.studies.paired_timing.settings import PairedTimingAnalysis, PairedTimingSeeds
from diffdraft.studies.rprm.settings import RprmAnalysis, RprmSeeds
from diffdraft.studies.settings import Seeds, Settings


@dataclass(frozen=True)
class Study:
    """The row files of a study with their schemas, their metadata files, and its analysis.

    `metas` gives for each row file the JSON file that says how it was measured. `arms` gives for
    each of those the arm it measured, where arms are measured one by one.
    `metrics(plan, folder, out_dir)` analyses the rows in `folder`, writes what it makes to
    `out_dir`, and returns the metrics of all scopes, as `judge` takes them.
    """

    rows: Mapping[str, str]
    metas: Mapping[str, str]
    settings: type[Settings]
    seeds: type[Seeds]
    metrics: Callable[[Path, Path, Path], dict[str, Any]]
    arms: Mapping[str, str] = field(default_factory=dict)

    def files(self) -> list[str]:
        """Everything that is measured, sorted."""
        return sorted({*self.rows, *self.metas.values()})


def _rprm_metrics(plan: Path, folder: Path, out_dir: Path) -> dict[str, Any]:
    from diffdraft.studies.rprm.run import run

    tags = dict.fromkeys(scope.split(".")[0] for scope in load_plan(plan).scopes.names())
    for tag in tags:
        run(plan, tag, folder / f"positions_{tag}.csv", out_dir)
    return merge_metrics(out_dir / f"metrics_{tag}.json" for tag in tags)


def _paired_timing_metrics(plan: Path, folder: Path, out_dir: Path) -> dict[str, Any]:
    from diffdraft.studies.paired_timing.run import run

    run(plan, folder / "timing.csv", folder / "cycles.csv", out_dir)
    return merge_metrics([out_dir / "metrics.json"])


def _act4s_metrics(plan: Path, folder: Path, out_dir: Path) -> dict[str, Any]:
    from diffdraft.studies.act4s.run import run

    run(plan, folder, out_dir)
    return merge_metrics([out_dir / "metrics.json"])


def _act4s_files() -> tuple[dict[str, str], dict[str, str]]:
    """Row files with their schemas, and the metadata file of each."""
    rows, metas = {}, {}
    for run in RUNS:
        parts = {"": "generations", "_cycles": "draft_cycles", "_divergences": "divergences"}
        for ending, schema in parts.items():
            rows[f"{run}{ending}.csv"] = schema
            metas[f"{run}{ending}.csv"] = f"{run}_meta.json"
    more = {
        "confidence_slots.csv": ("slots", "confidence_meta.json"),
        "ties.csv": ("ties", "precision_meta.json"),
        "cost.csv": ("passes", "cost_meta.json"),
    }
    for name, (schema, meta) in more.items():
        rows[name], metas[name] = schema, meta
    return rows, metas


ACT4S_ROWS, ACT4S_METAS = _act4s_files()

STUDIES = {
    "rprm": Study(
        rows={
            "positions_primary.csv": "positions",
            "positions_replication.csv": "positions",
        },
        metas={
            "positions_primary.csv": "positions_primary_meta.json",
            "positions_replication.csv": "positions_replication_meta.json",
        },
        settings=RprmAnalysis,
        seeds=RprmSeeds,
        metrics=_rprm_metrics,
        arms={
            "positions_primary_meta.json": "primary",
            "positions_replication_meta.json": "replication",
        },
    ),
    "paired_timing": Study(
        rows={"timing.csv": "timing", "cycles.csv": "cycles"},
        metas={"timing.csv": "timing_meta.json", "cycles.csv": "timing_meta.json"},
        settings=PairedTimingAnalysis,
        seeds=PairedTimingSeeds,
        metrics=_paired_timing_metrics,
    ),
    "act4s": Study(
        rows=ACT4S_ROWS,
        metas=ACT4S_METAS,
        settings=Act4sAnalysis,
        seeds=Act4sSeeds,
        metrics=_act4s_metrics,
    ),
}


def study_of(name: str, file: object) -> Study:
    """The code of a study. Raises `UserError` if there is none of this name."""
    if name not in STUDIES:
        raise UserError(file, "study", name, f"one of {', '.join(STUDIES)}")
    return STUDIES[name]


def check_settings(plan: Plan, file: object) -> None:
    """Raise `UserError` unless the study's code can read the plan's analysis and seeds."""
    study = study_of(plan.study, file)
    study.settings.from_plan(file, "analysis", plan.analysis)
    study.seeds.from_plan(file, "seeds", plan.seeds)
