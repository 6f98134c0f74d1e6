"""Time native and drafted decoding on the same prompts; the same command again goes on."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.measure.paired_timing import measure


def main(args: Namespace) -> None:
    """Measure and write rows and meta."""
    measure(
        args.profile,
        args.plan,
        args.workload,
        args.target,
        args.adapter,
        args.timing,
        args.cycles,
        args.meta,
        args.work,
    )


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--workload", type=Path, required=True, help="suite of prompts")
    parser.add_argument("--target", type=Path, required=True, help="model folder")
    parser.add_argument("--adapter", type=Path, required=True, help="adapter.safetensors")
    parser.add_argument("--timing", type=Path, required=True, help="row file to write")
    parser.add_argument("--cycles", type=Path, required=True, help="row file to write")
    parser.add_argument("--meta", type=Path, required=True, help="JSON to write")
    parser.add_argument("--work", type=Path, required=True, help="folder of finished prompts")
    cli.run(parser, main)
