"""RPRM stage 0: the checks that must hold before any position is extracted."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import load_profile
from diffdraft.measure.stage0 import run_stage0
from diffdraft.prereg.amendments import load_amended_plan


def main(args: Namespace) -> None:
    """Run the checks."""
    profile, plan = load_profile(args.profile), load_amended_plan(args.plan)
    run_stage0(profile, plan, args.corpus, args.target, args.adapters, args.out)


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True, help="model folder")
    parser.add_argument(
        "--adapters", type=Path, nargs="+", required=True, help="adapter folders, named by tag"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON to write")
    cli.run(parser, main)
