"""Take an adapter from committed evidence, if it is of this profile and for this target."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import load_profile
from diffdraft.prereg.adapter_evidence import ADAPTER_TAGS
from diffdraft.prereg.take_adapter import take_adapter


def main(args: Namespace) -> None:
    """Check it and copy it."""
    take_adapter(load_profile(args.profile), args.tag, args.evidence, args.target, args.out)


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--tag", choices=ADAPTER_TAGS, required=True)
    parser.add_argument("--evidence", type=Path, required=True, help="results/PROFILE/adapters")
    parser.add_argument("--target", type=Path, required=True, help="model folder")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    cli.run(parser, main)
