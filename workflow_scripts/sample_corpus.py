"""Let a pretrained target write its own corpus; the same command again goes on where it stopped."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import SampledCorpus, load_profile, of_kind
from diffdraft.targets.load import load_target
from diffdraft.targets.sampled import sample_corpus


def main(args: Namespace) -> None:
    """Write it."""
    settings = of_kind(SampledCorpus, load_profile(args.profile).corpus, "corpus")
    sample_corpus(settings, load_target(args.target), args.out, args.work)


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True, help="model folder")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--work", type=Path, required=True, help="folder of the finished batches")
    cli.run(parser, main)
