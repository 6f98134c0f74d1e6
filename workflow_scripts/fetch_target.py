"""Fetch the pinned target of a profile from the hub, or take it from a folder, and link to it."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import HubTarget, load_profile, of_kind
from diffdraft.hub.target import make_target


def main(args: Namespace) -> None:
    """Check it and link to it."""
    target = of_kind(HubTarget, load_profile(args.profile).target, "target")
    make_target(target, args.model, args.out)


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="model folder; without it, the hub is asked")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    cli.run(parser, main)
