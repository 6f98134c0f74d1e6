"""Promote a measurement to evidence: rows, verdict and MANIFEST.json into results/PROFILE/STUDY.

    promote.py --profile tiny --study rprm

Nothing is written unless every check holds. Commit the new folder afterwards.
"""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.prereg.promote import promote
from diffdraft.provenance import REPOSITORY


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--study", required=True)
    parser.add_argument("--repo", type=Path, default=REPOSITORY)
    return parser


def main(args: argparse.Namespace) -> None:
    folder = promote(args.repo, args.profile, args.study)
    print(f"{folder} is complete; now commit it")


if __name__ == "__main__":
    cli.run(parser(), main)
