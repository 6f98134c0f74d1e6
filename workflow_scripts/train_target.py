"""Train the embedded target from scratch; the same command again goes on where it stopped."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import load_profile
from diffdraft.training.target import train_target


def main(args: Namespace) -> None:
    """Train it."""
    train_target(load_profile(args.profile), args.corpus, args.out, args.work)


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="model folder to write")
    parser.add_argument("--work", type=Path, required=True, help="folder of the checkpoint")
    cli.run(parser, main)
