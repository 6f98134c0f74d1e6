"""Build the corpus of a profile: splits, tokenizer, token streams."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import CorpusSettings, load_profile, of_kind
from diffdraft.targets.corpus import build_corpus


def main(args: Namespace) -> None:
    """Build it."""
    corpus = load_profile(args.profile).corpus
    build_corpus(of_kind(CorpusSettings, corpus, "corpus"), args.out)


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    cli.run(parser, main)
