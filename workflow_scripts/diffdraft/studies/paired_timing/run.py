"""The paired-timing study from files to files."""

from pathlib import Path

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.schema import load_plan
from diffdraft.rows import read_rows
from diffdraft.studies.paired_timing.analysis import analyse, check_cycles, check_runs, metrics_of
from diffdraft.studies.paired_timing.settings import PairedTimingAnalysis, PairedTimingSeeds

STUDY = "paired_timing"
SCOPE = "all"


def run(plan_file: Path, timing_file: Path, cycles_file: Path, out_dir: Path) -> None:
    """Check and analyse the rows by the plan; write `analysis.json` and `metrics.json`.

    Raises:
        UserError: a plan of another study, or rows that do not fit it.
    """
    plan = load_plan(plan_file)
    if plan.study != STUDY:
        raise UserError(plan_file, "study", plan.study, STUDY)
    analysis = PairedTimingAnalysis.from_plan(plan_file, "analysis", plan.analysis)
    seeds = PairedTimingSeeds.from_plan(plan_file, "seeds", plan.seeds)
    timing, cycles = read_rows(timing_file, "timing"), read_rows(cycles_file, "cycles")
    check_runs(timing, analysis, timing_file)
    check_cycles(timing, cycles, cycles_file)
    figures = analyse(timing, cycles, analysis, seeds)
    metrics = {"study": STUDY, "scopes": {SCOPE: metrics_of(figures)}}
    files.write_json(out_dir / "analysis.json", figures)
    files.write_json(out_dir / "metrics.json", metrics)
