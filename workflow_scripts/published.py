"""Judge the published figures of RPRM by our plan, and compare with the published outcomes."""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.studies.published.replay import run


def parser() -> cli.Parser:
    out = cli.Parser(__doc__)
    out.add_argument("--plan", type=Path, required=True, help="prereg/rprm.yaml")
    out.add_argument("--published", type=Path, required=True, help="results/published/rprm.yaml")
    out.add_argument("--out-dir", type=Path, required=True, help="folder for the results")
    return out


def main(args: argparse.Namespace) -> None:
    print(run(args.plan, args.published, args.out_dir))


if __name__ == "__main__":
    cli.run(parser(), main)
