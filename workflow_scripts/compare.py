"""Compare two verdicts of a study. Exit 0: they are equal; 1: they differ.

compare.py --ours build/tiny/measured/rprm/verdict.json --theirs results/tiny/rprm --out F
"""

import argparse
from pathlib import Path

from diffdraft import cli, files
from diffdraft.prereg.manifest import VERDICT
from diffdraft.prereg.reproduce import compare, differences
from diffdraft.prereg.verdict import Verdict, load_verdict

EXIT_DIFFERENT = 1


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--ours", type=Path, required=True, help="verdict.json, or its folder")
    parser.add_argument("--theirs", type=Path, required=True, help="verdict.json, or its folder")
    parser.add_argument("--out", type=Path, required=True)
    return parser


def read(path: Path) -> Verdict:
    return load_verdict(path / VERDICT if path.is_dir() else path)


def main(args: argparse.Namespace) -> int:
    comparison = compare(read(args.ours), read(args.theirs))
    files.write_json(args.out, comparison)
    print(f"{comparison['study']}: {'equal' if comparison['equal'] else 'DIFFERENT'}")
    for line in differences(comparison):
        print(f"  {line}")
    return cli.EXIT_OK if comparison["equal"] else EXIT_DIFFERENT


if __name__ == "__main__":
    cli.run(parser(), main)
