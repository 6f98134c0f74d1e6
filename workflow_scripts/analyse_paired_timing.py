"""Analyse the timing rows by the plan of study paired_timing: figures and metrics."""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.studies.paired_timing.run import run


def parser() -> cli.Parser:
    out = cli.Parser(__doc__)
    out.add_argument("--plan", type=Path, required=True, help="prereg/paired_timing.yaml")
    out.add_argument("--timing", type=Path, required=True, help="one row a run (CSV)")
    out.add_argument("--cycles", type=Path, required=True, help="one row a cycle (CSV)")
    out.add_argument("--out-dir", type=Path, required=True, help="folder for the results")
    return out


def main(args: argparse.Namespace) -> None:
    run(args.plan, args.timing, args.cycles, args.out_dir)


if __name__ == "__main__":
    cli.run(parser(), main)
