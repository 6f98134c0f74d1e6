"""What can be recomputed from the published figures alone, and whether it comes out as printed.

Figures are printed with 5 decimals (log-loss reductions with 6); a figure agrees when it is
within half a unit of the last digit, differences of two printed figures within one unit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from diffdraft.stats.auroc import auroc
from diffdraft.stats.intervals import wilson
from diffdraft.studies.rprm.settings import RprmAnalysis
from diffdraft.studies.rprm.strata import split_windows
from diffdraft.studies.rprm.tables import PREDICTORS, differences

HALF_UNIT = 0.5e-5 + 1e-12
UNIT = 1e-5 + 1e-12
Json = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """One group of recomputed figures: how many, how far off at most, and whether that is near."""

    scope: str
    check: str
    figures: int
    largest_difference: float
    holds: bool

    def to_json(self) -> Json:
        return asdict(self)


def _check(
    scope: str, name: str, pairs: Sequence[tuple[float, float]], tolerance: float = HALF_UNIT
) -> Check:
    largest = max(abs(printed - recomputed) for printed, recomputed in pairs)
    return Check(scope, name, len(pairs), largest, largest <= tolerance)


def scope_checks(
    scope: str, figures: Json, accepted_by_offset: list[int], analysis: RprmAnalysis
) -> Iterator[Check]:
    """Checks of one adapter and stratum; `accepted_by_offset` counts TEST rows from +2 on."""
    bounds = list(_wilson_pairs(figures, analysis.wilson_z))
    yield _check(scope, "Wilson intervals from n and acceptance", bounds)
    steps = differences(figures["quintiles_entropy"])
    printed = figures["verdict"]["quintile_inversions"]
    yield _check(
        scope, "steps between entropy quintiles", list(zip(printed, steps, strict=True)), UNIT
    )
    yield _check(scope, "AUROC differences from AUROCs", list(_delta_pairs(figures)), UNIT)
    n_TEST, accepted = figures["n_test"], sum(accepted_by_offset)
    shares = [(figures["acceptance_test"], accepted / n_TEST)]
    for cell, count in zip(figures["within_offset"], accepted_by_offset, strict=True):
        shares.append((cell["acceptance"], count / cell["n"]))
    yield _check(scope, "acceptance from counts by offset", shares)
    yield _check(scope, "counts of the quintile tables", list(_count_pairs(figures, accepted)), 0)
    yield _check(scope, "offsets adequate and signed", list(_cell_pairs(figures, analysis)), 0)
    if figures["stratum"] == "FULL":
        recomputed = progress_auroc(accepted_by_offset, figures["within_offset"][0]["n"])
        printed_auroc = figures["models"]["1_progress_only"]["auroc"]
        yield _check(scope, "AUROC of model 1 from counts", [(printed_auroc, recomputed)])


def _wilson_pairs(figures: Json, z: float) -> Iterator[tuple[float, float]]:
    for name in PREDICTORS:
        for row in figures[f"quintiles_{name}"]:
            if row["n"]:
                low, high = wilson(round(row["acceptance"] * row["n"]), row["n"], z)
                yield row["ci_low"], low
                yield row["ci_high"], high


def _delta_pairs(figures: Json) -> Iterator[tuple[float, float]]:
    by_number = {key[0]: scores["auroc"] for key, scores in figures["models"].items()}
    for better, worse in (("4", "1"), ("6", "5")):
        printed = figures["comparisons"][f"{better}_vs_{worse}_auroc_delta"]
        yield printed, by_number[better] - by_number[worse]
    for entry in figures["diagnostic_alternatives"].values():
        yield entry["delta_vs_progress"], entry["auroc"] - by_number["1"]


def _count_pairs(figures: Json, accepted: int) -> Iterator[tuple[float, float]]:
    for name in PREDICTORS:
        rows = [row for row in figures[f"quintiles_{name}"] if row["n"]]
        yield figures["n_test"], sum(row["n"] for row in rows)
        yield accepted, sum(round(row["acceptance"] * row["n"]) for row in rows)


def _cell_pairs(figures: Json, analysis: RprmAnalysis) -> Iterator[tuple[float, float]]:
    printed, adequate = figures["verdict"], []
    for cell in figures["within_offset"]:
        enough = min(cell["n_low"], cell["n_high"]) >= analysis.adequate_bucket_n
        if enough and cell["n"] >= analysis.adequate_cell_n:
            adequate.append(cell["auroc_neg_entropy"])
    yield printed["n_adequate_cells"], len(adequate)
    yield printed["n_cells_signed"], sum(a > analysis.cell_auroc_above for a in adequate)


def progress_auroc(accepted_by_offset: list[int], rows_an_offset: int) -> float:
    """AUROC of a model that knows the offset only, nearer offsets ranked higher."""
    accepted = [
        np.arange(rows_an_offset) < count for count in accepted_by_offset
    ]  # within an offset all scores tie, so the order of its rows is free
    score = np.repeat(-np.arange(len(accepted_by_offset), dtype=np.float64), rows_an_offset)
    return auroc(np.concatenate(accepted).astype(np.int64), score)


def split_check(published: Json, analysis: RprmAnalysis, seed: int) -> Check:
    """Sizes of FIT, VAL and TEST from the plan's shares and the published number of windows."""
    windows = published["positions_meta_primary"]["windows"]
    names = [f"{i:06d}" for i in range(windows)]
    split = split_windows(names, analysis.fit_share, analysis.validation_share, seed)
    printed = published["seeds"]["split_windows"]
    pairs = [(printed[part], len(members)) for part, members in split.items()]
    return _check("all", "windows in FIT, VAL and TEST", pairs, 0)
