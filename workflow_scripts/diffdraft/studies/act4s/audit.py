"""Is the output of every drafted arm the target's own, up to ties of its arithmetic?"""

from typing import Any

import pandas as pd

from diffdraft.studies.act4s.study_rows import RunRows, StudyRows

TAIL = 0.05  # the published quantile of small gaps


def audit(study: StudyRows) -> pd.DataFrame:
    """One row a run and dtype: drafted generations, and how those that diverge do so.

    Three rules: no divergence at all; exact ties only; contested logits within one unit in the
    last place (times the plan's tolerance) and both near the maximum of their row.
    """
    return pd.DataFrame(
        [
            _audit(name, run, dtype, study)
            for name, run in study.runs.items()
            for dtype in run.design.dtypes or tuple(run.generations["dtype"].unique())
        ]
    )


def _audit(name: str, run: RunRows, dtype: str, study: StudyRows) -> dict[str, Any]:
    generations, divergences = (
        rows[rows["dtype"] == dtype] for rows in (run.generations, run.divergences)
    )
    base, tolerance = study.analysis.baseline_arm, study.analysis.ulp_tolerance
    return {"run": name, "dtype": dtype, **counts(generations, divergences, base, tolerance)}


def counts(
    generations: pd.DataFrame, divergences: pd.DataFrame, base: str, tolerance: float
) -> dict[str, Any]:
    """The drafted generations of one run and dtype, by all three rules.

    Native runs that do not repeat themselves may have divergences too, and are not counted here.
    """
    checked = generations[generations["arm"] != base]
    rows = divergences[divergences["arm"] != base]
    ties, beyond = rows["exact_tie"] == 1, is_beyond(rows, tolerance)
    return {
        "rows_checked": len(checked),
        "identical": int(checked["identical"].sum()),
        "divergent": len(rows),
        "exact_ties": int(ties.sum()),
        "within_one_ulp_not_tie": int((~beyond & ~ties).sum()),
        "beyond_one_ulp": int(beyond.sum()),
        "max_gap_in_ulps": float(rows["gap_in_ulps"].max()),
        "median_gap_in_ulps": float(rows["gap_in_ulps"].median()),
        "passes_strict": int(rows.empty),
        "passes_exact_tie": int(ties.all()),
        "passes_ulp": int(not beyond.any()),
    }


def is_beyond(rows: pd.DataFrame, tolerance: float) -> pd.Series:
    """Divergences that rounding does not explain: too far apart, or not near the maximum."""
    return (rows["gap"] > tolerance * rows["ulp"]) | (rows["near_maximum"] == 0)


def ties_summary(study: StudyRows) -> pd.DataFrame:
    """How often the two best logits of a position of native text are equal, by dtype."""
    rows = []
    for dtype, part in study.ties.groupby("dtype", sort=False):
        rows.append(
            {
                "dtype": dtype,
                "positions": len(part),
                "exact_ties": int(part["exact_tie"].sum()),
                "tie_rate": float(part["exact_tie"].mean()),
                "gap_median": float(part["top2_gap"].median()),
                "gap_p05": float(part["top2_gap"].quantile(TAIL)),
            }
        )
    return pd.DataFrame(rows)
