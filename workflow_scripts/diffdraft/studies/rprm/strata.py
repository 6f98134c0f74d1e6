"""Which rows fit the models and which test them: strata, window split, shuffle cells."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from diffdraft.errors import UserError
from diffdraft.studies.rprm.settings import RprmAnalysis

NAMES = ("FULL", "SCHEDULE")
CORRUPTION_COLUMNS = ("timestep", "corruption_level", "n_corrupted_predecessors")

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """FIT or TEST rows of a stratum, in file order, and what the models read from them.

    `progress_NF` is the distance ahead as one column for each offset but the first, in SCHEDULE
    followed by the corruption of the window and the row; `cell_N` groups rows that are equally
    far along.
    """

    rows: pd.DataFrame
    progress_NF: Array
    cell_N: npt.NDArray[np.int64]

    @property
    def accepted_N(self) -> npt.NDArray[np.int64]:
        return self.rows["accepted"].to_numpy()

    @property
    def windows(self) -> list[str]:
        return self.rows["example_id"].tolist()

    def column(self, name: str) -> Array:
        return self.rows[name].to_numpy(dtype=np.float64)


@dataclass(frozen=True)
class Stratum:
    name: str
    fit: Part
    test: Part


def split_windows(
    names: list[str], fit_share: float, validation_share: float, seed: int
) -> dict[str, list[str]]:
    """Partition the sorted window names into FIT, VAL and TEST by one seeded permutation."""
    ordered = sorted(names)
    permuted = np.random.default_rng(seed).permutation(len(ordered))
    n_fit = round(fit_share * len(ordered))
    n_validation = round(validation_share * len(ordered))
    parts = np.split(permuted, [n_fit, n_fit + n_validation])
    return {
        name: [ordered[i] for i in part]
        for name, part in zip(("FIT", "VAL", "TEST"), parts, strict=True)
    }


def load_strata(
    frame: pd.DataFrame, analysis: RprmAnalysis, split_seed: int, file: object
) -> list[Stratum]:
    """Split a checked position table.

    Raises:
        UserError: fewer windows than the plan's floor, or one class only in FIT or TEST.
    """
    windows = frame["example_id"].unique().tolist()
    if len(windows) < analysis.floor_windows:
        expected = f"at least {analysis.floor_windows}, the floor_windows of the plan"
        raise UserError(file, "example_id", f"{len(windows)} windows", expected)
    split = split_windows(windows, analysis.fit_share, analysis.validation_share, split_seed)
    frame = frame.assign(bucket=timestep_buckets(frame["timestep"], analysis.timestep_bins))
    strata = []
    for name in NAMES:
        rows = frame[frame["stratum"] == name]
        fit, test = (
            _part(name, rows[rows["example_id"].isin(split[part])], part, file)
            for part in ("FIT", "TEST")
        )
        strata.append(Stratum(name, fit, test))
    return strata


def timestep_buckets(timestep: pd.Series, bins: int) -> pd.Series:
    """Quantile buckets of the corruption rate over all rows of both strata, equal edges merged.

    Half of the rows have rate 1, so fewer buckets than `bins` remain: 3 of 5 in the published
    table. The original's code did so, and its shuffled control depends on it.
    """
    return pd.qcut(timestep, bins, labels=False, duplicates="drop")


def _part(stratum: str, rows: pd.DataFrame, part: str, file: object) -> Part:
    if rows["accepted"].nunique() < 2:
        found = f"only {rows['accepted'].iloc[0]}" if len(rows) else "no rows"
        raise UserError(file, f"accepted, {stratum} {part}", found, "both 0 and 1")
    offsets = sorted(rows["offset"].unique())
    columns = [rows["offset"] == offset for offset in offsets[1:]]
    cell_N = rows["offset"].to_numpy()
    if stratum == "SCHEDULE":
        columns += [rows[name] for name in CORRUPTION_COLUMNS]
        buckets = int(rows["bucket"].max()) + 1
        cell_N = cell_N * buckets + rows["bucket"].to_numpy()
    progress_NF = np.column_stack(columns).astype(np.float64)
    return Part(rows, progress_NF, cell_N)
