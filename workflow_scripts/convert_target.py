"""Convert the target that installed packages carry into a model folder, whole or not at all."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import PackagedTarget, load_profile, of_kind
from diffdraft.targets.packaged.convert import convert_target


def main(args: Namespace) -> None:
    """Convert it."""
    target = load_profile(args.profile).target
    convert_target(of_kind(PackagedTarget, target, "target"), args.out)


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="model folder to write")
    cli.run(parser, main)
