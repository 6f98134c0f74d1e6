"""The figures of the study that are no table."""

from typing import Any

import numpy as np
import pandas as pd

from diffdraft.studies.act4s.cells import (
    Cells,
    headline,
    loop_free_prompts,
)
from diffdraft.studies.act4s.comparisons import comparisons, context_trend, margin
from diffdraft.studies.act4s.confidence import spread
from diffdraft.studies.act4s.costs import cost_fits
from diffdraft.studies.act4s.design import uno_arms
from diffdraft.studies.act4s.metrics import repeat_sd_log
from diffdraft.studies.act4s.published_estimators import ESTIMATORS
from diffdraft.studies.act4s.study_rows import StudyRows

Json = dict[str, Any]
SPEEDUPS = {"paired": "paired_speedup"} | {name: f"speedup_{name}" for name in ESTIMATORS}
DECODE = ["prompt_id", "prompt_tokens", "max_tokens", "dtype", "arm"]


def figures(cells: Cells, study: StudyRows, tables: dict[str, pd.DataFrame]) -> Json:
    """Everything that `analysis.json` holds."""
    cell = headline(cells, "ksweep", study)
    timed = [run.generations for run in study.timed().values()]
    return {
        "n_prompts": int(cell.generations["prompt_id"].nunique()),
        "n_loop_free_prompts": len(loop_free_prompts(cell.generations, study)),
        "repeats": study.sample.repeats,
        "busy_rows": int(sum(rows["busy"].sum() for rows in timed)),
        "block_size": study.analysis.block_size,
        "margin": margin(cells, study),
        "comparisons": comparisons(cells, study),
        "degeneration": {"by_length": by_length(tables["degeneration"], study)},
        "cost_fits": cost_fits(tables["cost_curve"]),
        "estimators": estimators(tables["summary"], study),
        "context_trend": context_trend(cells, study),
        "confidence": {"spread": spread(tables["confidence_bins"])},
        "native": native(cells, study),
    }


def by_length(degeneration: pd.DataFrame, study: StudyRows) -> list[Json]:
    """Looped text and acceptance of the prompts at each number of tokens."""
    entries = []
    for tokens, rows in degeneration.groupby("max_tokens", sort=False):
        rate, looped = rows["acceptance_rate"], rows["looped_fraction"]
        clean = looped < study.analysis.loop_free_below
        entries.append(
            {
                "max_tokens": int(str(tokens)),
                "mean_looped_fraction": float(looped.mean()),
                "loop_free_prompts": int(clean.sum()),
                "mean_acceptance": float(rate.mean()),
                "loop_free_acceptance": _mean(rate[clean]),
                "looped_acceptance": _mean(rate[~clean]),
                "pearson_r": pearson(looped, rate),
            }
        )
    return entries


def _mean(values: pd.Series) -> float | None:
    return None if values.empty else float(values.mean())


def pearson(x: pd.Series, y: pd.Series) -> float | None:
    """Correlation of two columns; None where one of them does not vary."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def estimators(summary: pd.DataFrame, study: StudyRows) -> list[Json]:
    """Speed-ups of the block sizes of run ksweep by every estimator, and whether signs agree."""
    entries = []
    arms = uno_arms(study.sample.block_sizes)
    sweep = summary[(summary["run"] == "ksweep") & summary["arm"].isin(arms)]
    for row in sweep.to_dict("records"):
        ratios = {name: float(row[column]) for name, column in SPEEDUPS.items()}
        agree = len({ratio > 1 for ratio in ratios.values()}) == 1
        entries.append({"subset": row["subset"], "arm": row["arm"], **ratios, "signs_agree": agree})
    return entries


def native(cells: Cells, study: StudyRows) -> Json:
    """How well native decoding repeats itself, and how many decodes of any arm do not."""
    base = study.analysis.baseline_arm
    rows = pd.concat([run.generations for run in study.timed().values()], keys=study.timed())
    traces = rows.groupby([rows.index.get_level_values(0), *DECODE])["trace_sha"].nunique()
    return {
        "reproducible": float(rows.loc[rows["arm"] == base, "identical"].mean()),
        "repeat_sd_log": repeat_sd_log(headline(cells, "ksweep", study).of(base)),
        "arms_reproducible": {
            "decodes": len(traces),
            "not_reproducible": int((traces > 1).sum()),
        },
    }
