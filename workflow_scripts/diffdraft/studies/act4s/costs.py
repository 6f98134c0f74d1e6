"""What a forward costs by its width, and what that would allow at the measured acceptance."""

from typing import Any

import pandas as pd

from diffdraft.stats.lines import fit_line
from diffdraft.studies.act4s.acceptance import GIVEN_AND_NEXT
from diffdraft.studies.act4s.cells import Cells, headline
from diffdraft.studies.act4s.study_rows import StudyRows

WHOLE = "whole"  # the part of a pass that is all of it
PASS = ["dtype", "kind", "width"]
MODEL_COLUMNS = [
    "arm",
    "block_size",
    "expected_committed",
    "model_cycle_ms",
    "predicted_speedup",
    "measured_speedup",
    "measured_over_predicted",
]
Row = dict[str, Any]


def cost_curve(study: StudyRows) -> pd.DataFrame:
    """Milliseconds of whole passes by dtype, kind and width: median and quartiles over repeats."""
    passes = study.passes[study.passes["part"] == WHOLE]
    ms = (1000 * passes["seconds"]).groupby([passes[name] for name in PASS], sort=False)
    columns = {
        "passes": ms.size(),
        "ms_median": ms.median(),
        "ms_p25": ms.quantile(0.25),
        "ms_p75": ms.quantile(0.75),
    }
    return _sorted(pd.DataFrame(columns).reset_index())


def cost_parts(study: StudyRows) -> pd.DataFrame:
    """Milliseconds of the parts of passes, and their share of the whole pass.

    Each part is timed alone, so shares need not add up to 1.
    """
    ms = 1000 * study.passes["seconds"]
    key = [*PASS, "part"]
    medians = ms.groupby([study.passes[name] for name in key], sort=False).median()
    parts = medians.rename("ms_median").reset_index()
    whole = parts[parts["part"] == WHOLE].set_index(PASS)["ms_median"]
    parts = parts[parts["part"] != WHOLE]
    joined = parts.join(whole.rename("whole"), on=PASS)
    share = joined["ms_median"] / joined["whole"]
    return _sorted(joined.drop(columns="whole").assign(share=share))


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    """By width within each dtype and kind; whatever else distinguishes rows keeps its order."""
    return table.sort_values(["dtype", "kind", "width"], kind="stable").reset_index(drop=True)


def cost_fits(curve: pd.DataFrame) -> list[Row]:
    """Least-squares lines of the medians over width: a fixed cost and a price a row."""
    fits: list[Row] = []
    for (dtype, kind), rows in curve.groupby(["dtype", "kind"], sort=False):
        line = fit_line(rows["width"].to_numpy(), rows["ms_median"].to_numpy())
        if line is not None:
            fits.append(
                {
                    "dtype": dtype,
                    "kind": kind,
                    "fixed_ms": line.intercept,
                    "per_row_ms": line.slope,
                    "r_squared": line.r_squared,
                    "widths": [int(rows["width"].min()), int(rows["width"].max())],
                }
            )
    return fits


def cost_model(
    cells: Cells, summary: pd.DataFrame, curve: pd.DataFrame, study: StudyRows
) -> pd.DataFrame:
    """Speed-up predicted from the cost curve and the measured acceptance, beside the measured one.

    A cycle of block size K costs draft(K) + verify(K + 1) and commits E[accepted] + 2 tokens, each
    worth native(1). Prefill, commit and overhead are left out, the measured speed-up has them.
    A block for which the curve has no such width has no row.
    """
    cell = headline(cells, "ksweep", study)
    dtype = cell.generations["dtype"].iloc[0]
    ms = curve[curve["dtype"] == dtype].set_index(["kind", "width"])["ms_median"]
    measured = summary[(summary["run"] == "ksweep") & (summary["subset"] == cell.subset)]
    speedup = measured.set_index("arm")["paired_speedup"]
    rows: list[Row] = []
    for size in study.sample.block_sizes:
        arm, needed = f"uno_k{size}", [("draft", size), ("verify", size + 1), ("native", 1)]
        if all(place in ms.index for place in needed):
            draft, verify, native = (float(ms[place]) for place in needed)
            committed = float(cell.cycles_of(arm)["accepted"].mean()) + GIVEN_AND_NEXT
            predicted = committed * native / (draft + verify)
            rows.append(
                {
                    "arm": arm,
                    "block_size": size,
                    "expected_committed": committed,
                    "model_cycle_ms": draft + verify,
                    "predicted_speedup": predicted,
                    "measured_speedup": float(speedup[arm]),
                    "measured_over_predicted": float(speedup[arm]) / predicted,
                }
            )
    return pd.DataFrame(rows, columns=MODEL_COLUMNS)
