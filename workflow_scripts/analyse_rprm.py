"""Analyse the positions of one adapter by the plan of study rprm: figures, tables, metrics."""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.studies.rprm.run import run


def parser() -> cli.Parser:
    out = cli.Parser(__doc__)
    out.add_argument("--plan", type=Path, required=True, help="prereg/rprm.yaml")
    out.add_argument("--tag", required=True, help="the adapter: primary or replication")
    out.add_argument("--positions", type=Path, required=True, help="its position table (CSV)")
    out.add_argument("--out-dir", type=Path, required=True, help="folder for the results")
    return out


def main(args: argparse.Namespace) -> None:
    run(args.plan, args.tag, args.positions, args.out_dir)


if __name__ == "__main__":
    cli.run(parser(), main)
