"""Freeze a plan: register its bytes in the ledger beside it. It cannot be undone.

    freeze.py prereg/rprm.yaml

Commit the plan and the ledger in a commit of their own, before the first measurement.
"""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.prereg.freezing import freeze
from diffdraft.prereg.ledger import LEDGER


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("plan", type=Path)
    return parser


def main(args: argparse.Namespace) -> None:
    entry = freeze(args.plan)
    print(f"{entry.file} frozen on {entry.date}, sha256 {entry.sha256}")
    print(f"now: git add {args.plan} {args.plan.parent / LEDGER} and commit them alone")


if __name__ == "__main__":
    cli.run(parser(), main)
