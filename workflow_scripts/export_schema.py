"""Write prereg/schema.json, the schema of plans, from the models that check them."""

import argparse
from pathlib import Path

from diffdraft import cli, files
from diffdraft.prereg.schema import export
from diffdraft.provenance import REPOSITORY


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--out", type=Path, default=REPOSITORY / "prereg" / "schema.json")
    return parser


def main(args: argparse.Namespace) -> None:
    files.write_json(args.out, export())


if __name__ == "__main__":
    cli.run(parser(), main)
