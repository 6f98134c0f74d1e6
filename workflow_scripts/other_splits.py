"""What the gains of rprm would be under other splits of the windows. Decides nothing.

    other_splits.py --positions results/gemma3_270m/rprm/positions_primary.csv

The plan's own split is `registered`; the others have the seeds 0, 1, 2 and so on.
"""

import argparse
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from diffdraft import cli
from diffdraft.errors import UserError
from diffdraft.prereg.amendments import load_amended_plan
from diffdraft.prereg.schema import load_plan
from diffdraft.rows import read_rows
from diffdraft.studies.rprm.run import check_offsets, settings_of
from diffdraft.studies.rprm.splits import over_splits, summary


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--positions", type=Path, required=True, help="rows of one adapter")
    parser.add_argument("--plan", type=Path, default=Path("prereg/rprm.yaml"))
    parser.add_argument("--splits", type=int, default=150, help="how many others (default 150)")
    return parser


def main(args: argparse.Namespace) -> None:
    """Print one line for each stratum and comparison."""
    if args.splits < 2:
        raise UserError("--splits", "splits", args.splits, "at least 2")
    plan = load_plan(args.plan)
    analysis, seeds = settings_of(plan, args.plan)
    frame = read_rows(args.positions, "positions")
    check_offsets(frame, [plan, load_amended_plan(args.plan)], args.positions)
    others = [seed for seed in range(args.splits + 1) if seed != seeds.split][: args.splits]
    order = tqdm([seeds.split, *others], disable=None, unit="split")
    records = pd.DataFrame(over_splits(frame, analysis, order, args.positions))
    print(summary(records, seeds.split).to_string(index=False, float_format="%.4f"))


if __name__ == "__main__":
    cli.run(parser(), main)
