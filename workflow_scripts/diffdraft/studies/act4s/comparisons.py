"""Paired log ratios between arms, by prompt: every comparison of the study, and its margin."""

import math
from typing import Any

import numpy as np

from diffdraft.stats.paired import Estimate, PairedLogs
from diffdraft.studies.act4s.cells import POOLED, Cell, Cells, headline, paired_logs
from diffdraft.studies.act4s.study_rows import StudyRows

Json = dict[str, Any]
NOTHING = {"value": None, "ci_low": None, "ci_high": None}


def as_json(found: Estimate) -> Json:
    """An estimate as the files of the study write it."""
    return {"value": found.value, "ci_low": found.low, "ci_high": found.high}


def comparisons(cells: Cells, study: StudyRows) -> list[Json]:
    """Every arm against native decoding, and every other drafted arm against the primary one."""
    return [
        _comparison(cell, logs, arm, against)
        for cell in cells.values()
        for logs in [None if cell.empty else paired_logs(cell, study)]
        for arm, against in _pairs(cell, study)
    ]


def _pairs(cell: Cell, study: StudyRows) -> list[tuple[str, str]]:
    base, primary = study.analysis.baseline_arm, study.analysis.arm
    pairs = [(arm, base) for arm in cell.arms if arm != base]
    if primary in cell.arms:
        pairs += [(arm, primary) for arm in cell.arms if arm not in (base, primary)]
    return pairs


def _comparison(cell: Cell, logs: PairedLogs | None, arm: str, against: str) -> Json:
    place = {**cell.place, "subset": cell.subset, "arm": arm, "against": against}
    if logs is None:
        nothing = {"log_ratio": NOTHING, "speedup": NOTHING, "wins": 0, "losses": 0}
        return {**place, "n_prompts": 0, **nothing}
    ratio = as_json(logs.log_ratio(arm, against))
    per_prompt = logs.per_cluster(arm, against)
    return {
        **place,
        "n_prompts": len(logs),
        "log_ratio": ratio,
        "speedup": {name: math.exp(number) for name, number in ratio.items()},
        "wins": int(np.count_nonzero(per_prompt > 0)),
        "losses": int(np.count_nonzero(per_prompt < 0)),
    }


def margin(cells: Cells, study: StudyRows) -> Json:
    """What a difference must exceed: the larger end of the A/A interval, and at least the floor."""
    logs = paired_logs(headline(cells, "ksweep", study), study)
    ratio = logs.log_ratio(study.analysis.arm, f"{study.analysis.arm}_again")
    floor = study.analysis.margin_floor
    largest = max(floor, abs(ratio.low), abs(ratio.high))
    return {"log_ratio": as_json(ratio), "margin": largest, "floor": floor}


def context_trend(cells: Cells, study: StudyRows) -> list[Json]:
    """Log ratio to native decoding by arm and length of context, all passages."""
    base = study.analysis.baseline_arm
    context = [c for c in cells.values() if c.run == "context" and c.subset == POOLED]
    logs = {cell.prompt_tokens: paired_logs(cell, study) for cell in context}
    return [
        {"arm": arm, "length": length, "log_ratio": as_json(found.log_ratio(arm, base))}
        for arm in study.runs["context"].design.arms
        if arm != base
        for length, found in logs.items()
    ]
