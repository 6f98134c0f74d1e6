"""The paired-timing study from files to files."""

from pathlib import Path
from typing import Any

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.schema import Plan, load_plan
from diffdraft.rows import read_rows
from diffdraft.studies.paired_timing.analysis import analyse, check_cycles, check_runs, metrics_of
from diffdraft.studies.paired_timing.settings import PairedTimingAnalysis, PairedTimingSeeds

STUDY = "paired_timing"
SCOPE = "all"


def figures_from(plan: Plan, plan_file: object, timing_file: Path, cycles_file: Path) -> Any:
    """Read, check and analyse the rows by the plan. Raises `UserError` on unfit rows or plan."""
    if plan.study != STUDY:
        raise UserError(plan_file, "study", plan.study, STUDY)
    analysis = PairedTimingAnalysis.from_plan(plan_file, "analysis", plan.analysis)
    seeds = PairedTimingSeeds.from_plan(plan_file, "seeds", plan.seeds)
    timing, cycles = read_rows(timing_file, "timing"), read_rows(cycles_file, "cycles")
    check_runs(timing, analysis, timing_file)
    check_cycles(timing, cycles, cycles_file)
    return analyse(timing, cycles, analysis, seeds)


def metrics_from(figures: Any) -> dict[str, Any]:
    """The metrics file of the study, as the verdict engine takes it."""
    return {"study": STUDY, "scopes": {SCOPE: metrics_of(figures)}}


def metrics(plan: Plan, folder: Path) -> dict[str, Any]:
    """The metrics of the rows in a folder."""
    plan_file = f"prereg/{STUDY}.yaml"
    figures = figures_from(plan, plan_file, folder / "timing.csv", folder / "cycles.csv")
    return metrics_from(figures)


def run(plan_file: Path, timing_file: Path, cycles_file: Path, out_dir: Path) -> None:
    """Analyse the rows and write `analysis.json` and `metrics.json`."""
    figures = figures_from(load_plan(plan_file), plan_file, timing_file, cycles_file)
    files.write_json(out_dir / "analysis.json", figures)
    files.write_json(out_dir / "metrics.json", metrics_from(figures))
