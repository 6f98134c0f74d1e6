"""Tables of generations: by arm, by category, by prompt."""

import math
from typing import Any

import pandas as pd

from diffdraft.stats.paired import log_times
from diffdraft.studies.act4s.cells import (
    POOLED,
    Cell,
    Cells,
    native_texts,
    paired_logs,
)
from diffdraft.studies.act4s.published_estimators import (
    acceptance_rates,
    per_cycle,
    speeds,
    summarise,
)
from diffdraft.studies.act4s.study_rows import StudyRows

Row = dict[str, Any]


def summary(cells: Cells, study: StudyRows) -> pd.DataFrame:
    """One row for every run, length, subset and arm; none where the subset has no prompt."""
    return pd.DataFrame(
        [row for cell in cells.values() if not cell.empty for row in _summary(cell, study)]
    )


def _summary(cell: Cell, study: StudyRows) -> list[Row]:
    base = study.analysis.baseline_arm
    logs, native = paired_logs(cell, study), cell.of(base)
    rows = []
    for arm in cell.arms:
        found = logs.log_ratio(arm, base)
        paired = {
            "paired_speedup": math.exp(found.value),
            "paired_ci_low": math.exp(found.low),
            "paired_ci_high": math.exp(found.high),
        }
        key = {**cell.place, "subset": cell.subset, "arm": arm}
        rows.append({**key, **summarise(cell.of(arm), native), **paired})
    return rows


def by_category(cells: Cells, study: StudyRows) -> pd.DataFrame:
    """One row for every run of prompts, length, category and arm."""
    rows = []
    for cell in cells.values():
        if cell.run != "context" and cell.subset == POOLED:
            for category, part in cell.generations.groupby("category", sort=False):
                rows += _category(cell, str(category), part, study)
    return pd.DataFrame(rows)


def _category(cell: Cell, category: str, part: pd.DataFrame, study: StudyRows) -> list[Row]:
    base = study.analysis.baseline_arm
    looped = float(native_texts(part, study)["looped_fraction"].mean())
    native = part[part["arm"] == base]
    logs = log_times(part)
    rows = []
    for arm in cell.arms:
        own = part[part["arm"] == arm]
        rows.append(
            {
                "run": cell.run,
                "max_tokens": cell.max_tokens,
                "category": category,
                "arm": arm,
                "rows": len(own),
                "tok_s_median": float(speeds(own).median()),
                "speedup_median_ratio": float(speeds(own).median() / speeds(native).median()),
                "paired_speedup": math.exp(float((logs[base] - logs[arm]).mean())),
                "mean_accepted_prefix": per_cycle(own, "accepted"),
                "tpf_median": float((own["tokens"] / own["forwards"]).median()),
                "looped_fraction": looped,
            }
        )
    return rows


def degeneration(cells: Cells, study: StudyRows) -> pd.DataFrame:
    """One row a length and prompt of run baseline: repetition of its native text, and acceptance.

    Acceptance is that of repeat 0, the speed the median over repeats.
    """
    rows = []
    for tokens in study.runs["baseline"].design.max_tokens:
        cell = cells["baseline", tokens, 0, POOLED]
        native = native_texts(cell.generations, study)
        for prompt, own in cell.of(study.analysis.arm).groupby("prompt_id", sort=False):
            first = own[own["repeat"] == 0]
            rows.append(
                {
                    "max_tokens": tokens,
                    "category": native["category"][prompt],
                    "prompt_id": prompt,
                    "looped_fraction": float(native["looped_fraction"][prompt]),
                    "distinct_ratio": float(native["distinct_ratio"][prompt]),
                    "acceptance_rate": float(acceptance_rates(first).iloc[0]),
                    "tokens_per_second": float(speeds(own).median()),
                    "mean_accepted": per_cycle(first, "accepted"),
                }
            )
    return pd.DataFrame(rows)
