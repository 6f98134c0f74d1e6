"""How much of a draft is accepted: prefixes, slots, choices of width, and loops."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from diffdraft.stats.lines import fit_line
from diffdraft.stats.loops import loop_onset
from diffdraft.studies.act4s.cells import POOLED, Cell, Cells, headline, native_texts
from diffdraft.studies.act4s.design import POLICY_ARMS, uno_arms
from diffdraft.studies.act4s.published_estimators import stage_ms
from diffdraft.studies.act4s.study_rows import StudyRows

Array = npt.NDArray[np.float64]
Row = dict[str, Any]
GIVEN_AND_NEXT = 2  # tokens of a cycle that accepts nothing: the clean one and the target's own
BEFORE, INSIDE = "before", "inside"
SLOT_COLUMNS = [
    "arm",
    "j",
    "p_survive",
    "slot_ms",
    "cycle_ms",
    "committed_per_cycle",
    "break_even",
    "pays",
]


def shares(accepted_N: npt.ArrayLike) -> Array:
    """Share of the cycles that accepted 0, 1, ... tokens."""
    counts = np.bincount(np.asarray(accepted_N, dtype=np.int64))
    return np.asarray(counts / counts.sum())


def survival_of(share_A: Array) -> Array:
    """P(accepted >= j) for j = 1 to one more than the largest prefix, where it is 0."""
    tail_A = np.cumsum(share_A[::-1])[::-1]
    return np.append(tail_A[1:], 0.0)


def histogram(cells: Cells) -> pd.DataFrame:
    """How many cycles accepted 0, 1, ... tokens, for every run, length and drafted arm."""
    rows: list[Row] = []
    for cell, arm, accepted in _drafted(cells):
        counts = np.bincount(accepted)
        rows += [
            {**cell.place, "arm": arm, "accepted": i, "cycles": int(n), "probability": float(p)}
            for i, (n, p) in enumerate(zip(counts, shares(accepted), strict=True))
        ]
    return pd.DataFrame(rows)


def survival(cells: Cells) -> pd.DataFrame:
    """P(accepted >= j); over j it sums to the mean accepted prefix."""
    rows: list[Row] = []
    for cell, arm, accepted in _drafted(cells):
        rows += [
            {**cell.place, "arm": arm, "j": j, "p_survive": float(p)}
            for j, p in enumerate(survival_of(shares(accepted)), start=1)
        ]
    return pd.DataFrame(rows)


def _drafted(cells: Cells) -> list[tuple[Cell, str, npt.NDArray[np.int64]]]:
    return [
        (cell, arm, cell.cycles_of(arm)["accepted"].to_numpy(dtype=np.int64))
        for cell in cells.values()
        if cell.subset == POOLED
        for arm in cell.arms
        if not cell.cycles_of(arm).empty
    ]


def slot_break_even(cells: Cells, study: StudyRows) -> pd.DataFrame:
    """Does slot j of a block pay, against the block that has not yet got it?

    It pays where P(accepted >= j) is above slot_ms x committed per cycle / cycle_ms. slot_ms is
    the slope of the least-squares line of cycle time over K in the sweep; cycle_ms and committed
    per cycle are those of a block that stops before slot j: T - (K - j) slot_ms and 2 + the sum of
    the survivals before j. (qwen-block-diffusion-lab, Act IV-U4, cost model.)
    """
    cell = headline(cells, "ksweep", study)
    sizes = study.sample.block_sizes
    cycle_ms = {
        size: sum(stage_ms(cell.of(arm)).values())
        for size, arm in zip(sizes, uno_arms(sizes), strict=True)
    }
    line = fit_line(list(cycle_ms), list(cycle_ms.values()))
    rows: list[Row] = []
    for size in sizes if line else []:
        assert line is not None
        arm = f"uno_k{size}"
        survive = survival_of(shares(cell.cycles_of(arm)["accepted"].to_numpy()))
        padded = np.zeros(size - 1)
        padded[: min(len(survive), size - 1)] = survive[: size - 1]
        rows += [{"arm": arm, **row} for row in _slots(padded, size, cycle_ms[size], line.slope)]
    return pd.DataFrame(rows, columns=SLOT_COLUMNS)


def _slots(survive_J: Array, size: int, cycle_ms: float, slot_ms: float) -> list[Row]:
    rows = []
    for j, gain in enumerate(survive_J.tolist(), start=1):
        committed = GIVEN_AND_NEXT + float(survive_J[: j - 1].sum())
        before_ms = cycle_ms - (size - j) * slot_ms
        break_even = slot_ms * committed / before_ms
        rows.append(
            {
                "j": j,
                "p_survive": gain,
                "slot_ms": slot_ms,
                "cycle_ms": before_ms,
                "committed_per_cycle": committed,
                "break_even": break_even,
                "pays": int(gain > break_even),
            }
        )
    return rows


def policy_choices(cells: Cells, study: StudyRows) -> pd.DataFrame:
    """How often an adaptive arm chose each block size, the clean row counted.

    It is the offered tokens and one: for the confidence-driven arm, which drafts one size and
    verifies what it is confident of, that is what it chose.
    """
    cell = headline(cells, "adaptive", study)
    rows: list[Row] = []
    for arm in POLICY_ARMS:
        chosen = (cell.cycles_of(arm)["offered"] + 1).value_counts().sort_index()
        rows += [
            {"arm": arm, "block_size": size, "cycles": n, "share": n / int(chosen.sum())}
            for size, n in zip(chosen.index.tolist(), chosen.tolist(), strict=True)
        ]
    return pd.DataFrame(rows)


def loop_phases(cells: Cells, study: StudyRows) -> pd.DataFrame:
    """Acceptance before the native text first repeats an n-gram, and after.

    A cycle is before if its commit ends before that n-gram is complete. An arm of both runs,
    which decodes alike in both, is that of ksweep.
    """
    rows: list[Row] = []
    for run in ("ksweep", "controls"):
        cell = headline(cells, run, study)
        phased = _phases(cell, study)
        for arm in cell.arms:
            for phase in (BEFORE, INSIDE):
                own = phased[(phased["arm"] == arm) & (phased["phase"] == phase)]
                if len(own) and (arm, phase) not in {(row["arm"], row["phase"]) for row in rows}:
                    prompts = int(own["prompt_id"].nunique())
                    mean = float(own["accepted"].mean())
                    row = {"arm": arm, "phase": phase, "prompts": prompts, "cycles": len(own)}
                    rows.append({**row, "mean_accepted": mean})
    return pd.DataFrame(rows)


def _phases(cell: Cell, study: StudyRows) -> pd.DataFrame:
    texts = native_texts(cell.generations, study)["token_ids"]
    onsets = {
        prompt: loop_onset([int(i) for i in ids.split()], study.analysis.loop_ngram)
        for prompt, ids in texts.items()
    }
    end = cell.cycles.groupby(["prompt_id", "arm"])["committed"].cumsum()
    onset = cell.cycles["prompt_id"].map(lambda prompt: onsets[prompt] or np.inf)
    return cell.cycles.assign(phase=np.where(end < onset, BEFORE, INSIDE))
