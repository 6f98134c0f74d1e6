"""Amend a frozen plan: a new file beside it that says what is done otherwise, and why.

    amend.py prereg/rprm.yaml --reason TEXT --seen TEXT --change samples.tiny.batches 256

The plan itself is not touched. Values are YAML. A criterion or a verdict cannot be amended.
"""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.prereg.amendments import Change
from diffdraft.prereg.freezing import amend
from diffdraft.prereg.ledger import LEDGER
from diffdraft.prereg.reading import fit, parse_yaml


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--reason", required=True, help="why the plan cannot be kept to")
    parser.add_argument("--seen", required=True, help="what was known of the results by then")
    parser.add_argument(
        "--change",
        nargs=2,
        action="append",
        required=True,
        metavar=("FIELD", "VALUE"),
        help="a field of the plan and what it becomes; may be repeated",
    )
    return parser


def main(args: argparse.Namespace) -> None:
    changes = [
        fit(Change, {"field": field, "becomes": parse_yaml(text.encode(), "--change")}, "--change")
        for field, text in args.change
    ]
    path = amend(args.plan, args.reason, args.seen, changes)
    print(f"{path} registered")
    print(f"now: git add {path} {path.parent / LEDGER} and commit them alone")


if __name__ == "__main__":
    cli.run(parser(), main)
