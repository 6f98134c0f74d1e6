"""Does the drafter know how much of its draft will be accepted?"""

from typing import Any

import pandas as pd

from diffdraft.studies.act4s.cells import POOLED, SUBSETS, Cells, headline
from diffdraft.studies.act4s.study_rows import StudyRows

CYCLE = ["prompt_id", "cycle"]


def confidence_bins(cells: Cells, study: StudyRows) -> pd.DataFrame:
    """Mean confidence and mean accepted prefix of cycles in bins of rising confidence.

    x is the mean top-1 probability over the offered slots of a cycle and y what was accepted.
    Cycles are sorted by (x, y) and cut into bins [floor(b n / B), floor((b + 1) n / B)).
    (qwen-block-diffusion-lab, Act IV-S, decile bins.)
    """
    arm = f"conf_k{study.analysis.block_size}"
    top1 = study.slots.groupby(CYCLE)["top1"].mean()
    rows: list[dict[str, Any]] = []
    for subset in SUBSETS:
        cycles = headline(cells, "confidence", study, subset).cycles_of(arm)
        points = cycles.join(top1, on=CYCLE, how="inner")[["top1", "accepted"]]
        rows += [{"subset": subset, **row} for row in bins(points, study.analysis.confidence_bins)]
    return pd.DataFrame(rows, columns=["subset", "bin", "mean_top1", "mean_accepted", "n"])


def bins(points: pd.DataFrame, count: int) -> list[dict[str, float]]:
    """Equal-count bins of (top1, accepted) pairs; a bin without a pair has no row."""
    ordered, n = points.sort_values(["top1", "accepted"]), len(points)
    rows = []
    for index in range(count):
        part = ordered.iloc[index * n // count : (index + 1) * n // count]
        if len(part):
            means = {"mean_top1": part["top1"].mean(), "mean_accepted": part["accepted"].mean()}
            rows.append({"bin": index, **{k: float(v) for k, v in means.items()}, "n": len(part)})
    return rows


def spread(table: pd.DataFrame) -> float | None:
    """Mean accepted in the highest bin over that in the lowest, all prompts; None over nothing."""
    accepted = table.loc[table["subset"] == POOLED, "mean_accepted"]
    if accepted.empty or accepted.iloc[0] == 0:
        return None
    return float(accepted.iloc[-1] / accepted.iloc[0])
