"""The RPRM study from files to files."""

from pathlib import Path

import pandas as pd

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.amendments import load_amended_plan
from diffdraft.prereg.schema import Plan, load_plan
from diffdraft.rows import read_rows
from diffdraft.studies.rprm import tables
from diffdraft.studies.rprm.analysis import StratumResult, analyse
from diffdraft.studies.rprm.settings import RprmAnalysis, RprmSeeds

STUDY = "rprm"


def settings_of(plan: Plan, file: object) -> tuple[RprmAnalysis, RprmSeeds]:
    """The typed `analysis` and `seeds` of a plan of this study."""
    if plan.study != STUDY:
        raise UserError(file, "study", plan.study, STUDY)
    return (
        RprmAnalysis.from_plan(file, "analysis", plan.analysis),
        RprmSeeds.from_plan(file, "seeds", plan.seeds),
    )


def run(plan_path: Path, tag: str, positions_path: Path, out_dir: Path) -> None:
    """Analyse the positions of adapter `tag` and write its figures, tables and metrics.

    Raises:
        UserError: a plan of another study or without this adapter, or rows that do not fit it.
    """
    plan = load_plan(plan_path)
    analysis, seeds = settings_of(plan, plan_path)
    tags = sorted({scope.split(".")[0] for scope in plan.scopes.names()})
    if tag not in tags:
        raise UserError("--tag", "adapter", tag, " or ".join(tags))
    frame = read_rows(positions_path, "positions")
    check_offsets(frame, [plan, load_amended_plan(plan_path)], positions_path)
    results = analyse(frame, analysis, seeds, positions_path)
    for name, table in _tables(results).items():
        text = table.to_csv(index=False, lineterminator="\n")
        files.write_text(out_dir / f"{name}_{tag}.csv", text)
    figures = {result.name: result.figures for result in results}
    files.write_json(out_dir / f"analysis_{tag}.json", figures)
    scopes = {f"{tag}.{result.name}": result.metrics for result in results}
    files.write_json(out_dir / f"metrics_{tag}.json", {"study": STUDY, "scopes": scopes})


def check_offsets(frame: pd.DataFrame, plans: list[Plan], file: object) -> None:
    """Refuse a table that does not reach the last offset of a planned block.

    The rows themselves cannot show that an offset is missing from every window.
    """
    samples = [sample for plan in plans for sample in plan.samples.values()]
    blocks = {sample.block_size for sample in samples}
    found = int(frame["offset"].max())
    if found not in blocks:
        expected = " or ".join(f"+{block}" for block in sorted(blocks))
        raise UserError(file, "largest offset", f"+{found}", f"{expected}, the planned block size")


def _tables(results: list[StratumResult]) -> dict[str, pd.DataFrame]:
    quintiles = [
        {"stratum": result.name, "predictor": name, **record}
        for result in results
        for name in tables.PREDICTORS
        for record in result.figures[f"quintiles_{name}"]
    ]
    within = [
        {"stratum": result.name, **record}
        for result in results
        for record in result.figures["within_offset"]
    ]
    calibration = [record for result in results for record in result.calibration]
    return {
        "quintiles": pd.DataFrame(quintiles),
        "within_offset": pd.DataFrame(within),
        "calibration": pd.DataFrame(calibration),
        "roc": pd.concat([result.roc for result in results]),
        "pr": pd.concat([result.pr for result in results]),
    }
