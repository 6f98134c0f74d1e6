"""May stage 2 run? Exit 3, with one line, when the plan stops it.

When the verdict opens it, stage 2 still needs a frozen plan of its own beside the first one.
"""

import argparse
from pathlib import Path

from diffdraft import cli, files
from diffdraft.prereg.gate import open_gate


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--verdict", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def main(args: argparse.Namespace) -> None:
    record = open_gate(args.plan, args.verdict)
    files.write_json(args.out, record)
    print(f"{record['stage']} is open, under {record['stage_plan']['file']}")


if __name__ == "__main__":
    cli.run(parser(), main)
