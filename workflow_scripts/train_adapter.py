"""Train a drafter adapter; the same command again goes on where it stopped."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import TAGS, load_profile
from diffdraft.training.drafter import train_adapter


def main(args: Namespace) -> None:
    """Train it."""
    profile = load_profile(args.profile)
    train_adapter(
        profile, args.tag, args.corpus, args.target, args.out, args.work, args.shuffle_targets
    )


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--tag", choices=TAGS, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True, help="model folder")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--work", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument(
        "--shuffle-targets",
        action="store_true",
        help="train the control: teachers of other windows",
    )
    cli.run(parser, main)
