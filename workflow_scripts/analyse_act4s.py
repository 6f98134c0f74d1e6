"""Analyse the rows of study act4s by its plan: tables, figures and metrics."""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.studies.act4s.run import run


def parser() -> cli.Parser:
    out = cli.Parser(__doc__)
    out.add_argument("--plan", type=Path, required=True, help="prereg/act4s.yaml")
    out.add_argument("--rows", type=Path, required=True, help="folder with the rows of all runs")
    out.add_argument("--out-dir", type=Path, required=True, help="folder for the results")
    return out


def main(args: argparse.Namespace) -> None:
    run(args.plan, args.rows, args.out_dir)


if __name__ == "__main__":
    cli.run(parser(), main)
