"""Fetch the pinned text of a profile from the hub, or take it from a folder, and tokenise it."""

from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.config import HubCorpus, HubTarget, load_profile, of_kind
from diffdraft.hub.text import build_text


def main(args: Namespace) -> None:
    """Write its token streams."""
    profile = load_profile(args.profile)
    corpus = of_kind(HubCorpus, profile.corpus, "corpus")
    rows = of_kind(HubTarget, profile.target, "target").architecture.vocab_size
    build_text(corpus, rows, args.text, args.target, args.out)


if __name__ == "__main__":
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", type=Path, required=True)
    parser.add_argument("--text", type=Path, help="folder; without it, the hub is asked")
    parser.add_argument("--target", type=Path, required=True, help="model folder")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    cli.run(parser, main)
