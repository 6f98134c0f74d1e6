"""Measure one run of Act IV-S as its plan says; the same command again goes on."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.measure.speculative.study import NAMES, measure_planned


def main(args: Namespace) -> None:
    """Measure and write rows and meta."""
    measure_planned(
        args.profile,
        args.plan,
        args.workload,
        args.run,
        args.target,
        args.adapter,
        args.out_dir,
        args.work,
        args.shuffled,
        args.corpus,
        args.ksweep,
    )


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--workload", type=Path, required=True, help="suite of prompts")
    parser.add_argument("--run", choices=NAMES, required=True)
    parser.add_argument("--target", type=Path, required=True, help="model folder")
    parser.add_argument("--adapter", type=Path, required=True, help="adapter.safetensors")
    parser.add_argument("--shuffled", type=Path, help="adapter of the control (run controls)")
    parser.add_argument("--corpus", type=Path, help="corpus folder (run context)")
    parser.add_argument("--ksweep", type=Path, help="row file of the run ksweep (run adaptive)")
    parser.add_argument("--out-dir", type=Path, required=True, help="folder to write")
    parser.add_argument("--work", type=Path, required=True, help="folder of finished prompts")
    cli.run(parser, main)
