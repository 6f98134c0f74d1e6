"""Verify a drafter given by path or URL, say what it is, and bind it to the target it is for."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import load_profile
from diffdraft.targets.published_drafter import fetch_adapter


def main(args: Namespace) -> None:
    """Verify it; with a target and a folder, write it there in the project's own format."""
    record = fetch_adapter(load_profile(args.profile), args.adapter, args.target, args.out)
    for name, value in record.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--adapter", required=True, help="file, or its https address")
    parser.add_argument("--target", type=Path, help="model folder to bind it to")
    parser.add_argument("--out", type=Path, help="folder to write; without it, only look")
    cli.run(parser, main)
