"""What makes reanalysis cheap: one core, no model, and a bootstrap without a loop."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from tests.synthetic import position_table

from bench import Measured
from bench._clock import fastest, seconds
from diffdraft.rows import write_rows
from diffdraft.stats.bootstrap import ClusterBootstrap

PLAN = "prereg/rprm.yaml"
WINDOWS, TEST_WINDOWS, RESAMPLES, LOOPED = 1280, 384, 2000, 100
SEED = 20260908


def measure() -> Iterator[Measured]:
    """Both bars, on synthetic rows of the planned size."""
    table = position_table(WINDOWS)
    yield bootstrap_against_loop(table)
    with tempfile.TemporaryDirectory() as folder:
        positions = Path(folder) / "positions.csv"
        write_rows(positions, table, "positions")
        yield Measured(
            f"reanalyse 2 x {len(table):,} rows, {RESAMPLES} resamples, one core, imports included",
            seconds(lambda: [analyse(positions, tag) for tag in ("primary", "replication")]),
            60,
            unit="s",
            at_most=True,
        )


def bootstrap_against_loop(table: object) -> Measured:
    """Time of scikit-learn over resampled rows, scaled up from LOOPED resamples, over ours.

    That both give the same numbers is a test.
    """
    rows = table[table["stratum"] == "FULL"]  # type: ignore[index]
    rows = rows.head(TEST_WINDOWS * rows["offset"].nunique())
    ids, accepted = rows["example_id"].to_numpy(str), rows["accepted"].to_numpy()
    score = -rows["normalized_entropy"].to_numpy()

    def loop() -> None:
        members = [np.flatnonzero(ids == name) for name in np.unique(ids)]
        rng = np.random.default_rng(SEED)
        for _ in range(LOOPED):
            drawn = rng.integers(0, len(members), len(members))
            row = np.concatenate([members[i] for i in drawn])
            roc_auc_score(accepted[row], score[row])

    ours = fastest(lambda: ClusterBootstrap.draw(ids, RESAMPLES, SEED).aurocs(accepted, score), 3)
    ratio = seconds(loop) * (RESAMPLES / LOOPED) / ours
    return Measured("clustered AUROC bootstrap against a loop over scikit-learn", ratio, 20)


def analyse(positions: Path, tag: str) -> None:
    """The command itself, in a process on one core."""
    command = [sys.executable, "workflow_scripts/analyse_rprm.py", "--plan", PLAN, "--tag", tag]
    subprocess.run(
        [*command, "--positions", positions, "--out-dir", positions.parent],
        check=True,
        preexec_fn=one_core if hasattr(os, "sched_setaffinity") else None,
    )


def one_core() -> None:
    """Keep this process on the first core it may use."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
