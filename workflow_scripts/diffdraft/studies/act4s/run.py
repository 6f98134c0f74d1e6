"""Act IV-S from files to files."""

from pathlib import Path

import pandas as pd

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.amendments import load_amended_plan
from diffdraft.studies.act4s.acceptance import (
    histogram,
    loop_phases,
    policy_choices,
    slot_break_even,
    survival,
)
from diffdraft.studies.act4s.analysis import figures
from diffdraft.studies.act4s.audit import audit, ties_summary
from diffdraft.studies.act4s.cells import Cells, cells_of
from diffdraft.studies.act4s.checks import check_study
from diffdraft.studies.act4s.confidence import confidence_bins
from diffdraft.studies.act4s.costs import cost_curve, cost_model, cost_parts
from diffdraft.studies.act4s.metrics import scopes
from diffdraft.studies.act4s.study_rows import StudyRows, read_study
from diffdraft.studies.act4s.tables import by_category, degeneration, summary

STUDY = "act4s"


def run(plan_file: Path, rows_folder: Path, out_dir: Path) -> None:
    """Check and analyse all rows by the plan; write tables, `analysis.json` and `metrics.json`.

    Raises:
        UserError: a plan of another study, or rows that do not fit it; nothing is written then.
    """
    plan = load_amended_plan(plan_file)
    if plan.study != STUDY:
        raise UserError(plan_file, "study", plan.study, STUDY)
    study = read_study(rows_folder, plan, plan_file)
    check_study(study)
    cells = cells_of(study)
    tables = tables_of(cells, study)
    found = figures(cells, study, tables)
    metrics = scopes(cells, study, tables["audit"], found["margin"]["margin"])
    for name, table in tables.items():
        text = table.to_csv(index=False, lineterminator="\n")
        files.write_text(out_dir / f"{name}.csv", text)
    files.write_json(out_dir / "analysis.json", found)
    files.write_json(out_dir / "metrics.json", {"study": STUDY, "scopes": metrics})


def tables_of(cells: Cells, study: StudyRows) -> dict[str, pd.DataFrame]:
    """Every table by its file's name."""
    by_arm, curve = summary(cells, study), cost_curve(study)
    return {
        "summary": by_arm,
        "by_category": by_category(cells, study),
        "histogram": histogram(cells),
        "survival": survival(cells),
        "slot_break_even": slot_break_even(cells, study),
        "confidence_bins": confidence_bins(cells, study),
        "policy_choices": policy_choices(cells, study),
        "degeneration": degeneration(cells, study),
        "loop_phases": loop_phases(cells, study),
        "cost_curve": curve,
        "cost_parts": cost_parts(study),
        "cost_model": cost_model(cells, by_arm, curve, study),
        "audit": audit(study),
        "ties_summary": ties_summary(study),
    }
