"""Judge the published figures of a study by our plan, and compare with the published outcomes."""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.studies.published import act4s_replay, replay

REPLAYS = {"rprm": replay.run, "act4s": act4s_replay.run}


def parser() -> cli.Parser:
    out = cli.Parser(__doc__)
    out.add_argument("--study", choices=REPLAYS, default="rprm", help="whose figures (rprm)")
    out.add_argument("--plan", type=Path, required=True, help="prereg/STUDY.yaml")
    out.add_argument("--published", type=Path, required=True, help="results/published/STUDY.yaml")
    out.add_argument("--out-dir", type=Path, required=True, help="folder for the results")
    return out


def main(args: argparse.Namespace) -> None:
    print(REPLAYS[args.study](args.plan, args.published, args.out_dir))


if __name__ == "__main__":
    cli.run(parser(), main)
