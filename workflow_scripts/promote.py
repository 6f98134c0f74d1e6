"""Promote a measurement to evidence: rows, verdict and MANIFEST.json into results/PROFILE/STUDY.

    promote.py --profile tiny --study rprm
    promote.py --profile tiny --adapters    all trained adapters, into results/PROFILE/adapters

Nothing is written unless every check holds. Commit the new folder afterwards.
"""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.prereg.promote import promote
from diffdraft.prereg.promote_adapters import promote_adapters
from diffdraft.provenance import REPOSITORY


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", required=True)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--study")
    kind.add_argument("--adapters", action="store_true", help="trained adapters, not a study")
    parser.add_argument("--repo", type=Path, default=REPOSITORY)
    return parser


def main(args: argparse.Namespace) -> None:
    if args.adapters:
        folder = promote_adapters(args.repo, args.profile)
    else:
        folder = promote(args.repo, args.profile, args.study)
    print(f"{folder} is complete; now commit it")


if __name__ == "__main__":
    cli.run(parser(), main)
