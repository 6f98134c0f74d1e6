"""Go on from one prompt: watch drafted tokens being accepted, and see what drafting is worth.

    generate.py --model build/tiny/target \\
        --adapter build/tiny/adapters/primary/adapter.safetensors "And the king said"

Tokens that the drafter guessed and the target accepted are underlined on a terminal, and in
brackets elsewhere. The same text is then decoded natively and drafted again, in turns, for the
speeds. Without --adapter the model goes on alone. "-" reads the prompt from standard input.
"""

import io
import os
import sys
from argparse import Namespace
from pathlib import Path

from diffdraft import cli
from diffdraft.measure.trial.run import run


def make_parser() -> cli.Parser:
    """All options. Numbers stay text: `trial.request` reads them."""
    parser = cli.Parser(__doc__)
    add = parser.add_argument
    add("prompt", help='text to go on from; "-" is standard input')
    add("--model", type=Path, required=True, help="model folder")
    add("--adapter", type=Path, help="adapter file of the drafter, trained on this model")
    add("--block-size", help="the given token and the offered ones (as the adapter was trained)")
    add("--max-tokens", default="64", help="new tokens (%(default)s)")
    add("--dtype", help="float32 or bfloat16 (what suits the device)")
    add("--seed", default="20260905", help="seed of the draft noise (%(default)s)")
    add("--plain", action="store_true", help="do not mark drafted tokens")
    no_compare = "do not decode natively too"
    add("--no-compare", dest="compare", action="store_false", help=no_compare)
    return parser


def main(args: Namespace) -> None:
    """Run it. A reader who closes the pipe early has seen enough."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that is not UTF-8
    try:
        run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    cli.run(make_parser(), main)
