"""Extract the position table of one adapter; the same command again goes on."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import TAGS
from diffdraft.measure.extraction import extract


def main(args: Namespace) -> None:
    """Measure and write rows and meta."""
    extract(
        args.profile,
        args.plan,
        args.tag,
        args.corpus,
        args.target,
        args.adapter,
        args.stage0,
        args.out,
        args.meta,
        args.work,
    )


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--tag", choices=TAGS, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True, help="model folder")
    parser.add_argument("--adapter", type=Path, required=True, help="adapter.safetensors")
    parser.add_argument("--stage0", type=Path, required=True, help="what stage 0 wrote")
    parser.add_argument("--out", type=Path, required=True, help="row file to write")
    parser.add_argument("--meta", type=Path, required=True, help="JSON to write")
    parser.add_argument("--work", type=Path, required=True, help="folder of finished pieces")
    cli.run(parser, main)
