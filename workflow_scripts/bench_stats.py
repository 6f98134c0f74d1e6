"""Measure the analysis: one JSON line a measurement, {"name", "ratio" or "seconds", "bar"}.

Rows come from `tests/synthetic.py`, so run it in a checkout. Nothing here is a test: numbers vary
with the machine; that both bootstraps give the same numbers is tested.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from diffdraft import cli
from diffdraft.rows import read_rows, write_rows
from diffdraft.stats.bootstrap import ClusterBootstrap
from diffdraft.studies.rprm.run import run

ROOT = Path(__file__).parents[1]
WINDOWS, TEST_WINDOWS, RESAMPLES, LOOPED = 1280, 384, 2000, 100
SEED = 20260908


def parser() -> cli.Parser:
    out = cli.Parser(__doc__)
    out.add_argument("--plan", type=Path, default=ROOT / "prereg" / "rprm.yaml")
    return out


def main(args: argparse.Namespace) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.synthetic import position_table

    with tempfile.TemporaryDirectory() as folder:
        positions = Path(folder) / "positions.csv"
        write_rows(positions, position_table(WINDOWS), "positions")
        ratio = bootstrap_ratio(positions)
        tell(name="clustered AUROC bootstrap against scikit-learn loop", ratio=ratio, bar=20)
        # Two adapters, each 17,920 rows, one after the other, as on one core.
        seconds = timed(lambda: run(args.plan, "primary", positions, Path(folder)))
        seconds += timed(lambda: run(args.plan, "replication", positions, Path(folder)))
        tell(name="reanalyse 2 x 17,920 rows, full bootstrap", seconds=seconds, bar=60)


def bootstrap_ratio(positions: Path) -> float:
    """Time of the loop over resampled rows, scaled up from LOOPED resamples, over ours."""
    rows = read_rows(positions, "positions")
    rows = rows[rows["stratum"] == "FULL"].head(TEST_WINDOWS * rows["offset"].nunique())
    ids, accepted = rows["example_id"].to_numpy(str), rows["accepted"].to_numpy()
    score = -rows["normalized_entropy"].to_numpy()

    def ours() -> None:
        ClusterBootstrap.draw(ids, RESAMPLES, SEED).aurocs(accepted, score)

    def loop() -> None:
        members = [np.flatnonzero(ids == name) for name in np.unique(ids)]
        rng = np.random.default_rng(SEED)
        for _ in range(LOOPED):
            drawn = rng.integers(0, len(members), len(members))
            row = np.concatenate([members[i] for i in drawn])
            roc_auc_score(accepted[row], score[row])

    return timed(loop) * (RESAMPLES / LOOPED) / min(timed(ours) for _ in range(3))


def timed(work: Callable[[], None]) -> float:
    """Seconds that `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def tell(name: str, bar: float, **measured: float) -> None:
    figures = {key: round(value, 2) for key, value in measured.items()}
    print(json.dumps({"name": name, **figures, "bar": bar}), flush=True)


if __name__ == "__main__":
    cli.run(parser(), main)
