"""Speculative decoding by hand: time the arms of Act IV-S on a target, and print what came out.

Options come before the subcommand, its own behind it:

    spec_decode.py --tokens 64 ksweep --block-sizes 1,2,4,8
    spec_decode.py --target MODEL --adapter "" --rank 16 controls --k 4
    spec_decode.py audit --file build/speculative/main_ksweep.csv

Without --target and --adapter they are those that `make run` leaves; `context` needs --corpus,
such as build/tiny/corpus. The same command again goes on where it was stopped. Each run writes
OUT_DIR/TAG_RUN.csv with its cycles, divergences and meta file (`confidence` also its slots, and
`audit` a run `precision` and TAG_ties.csv). --tokens and --repeats do not concern a run that has
lengths or one repeat of its own.
"""

import argparse
from argparse import Namespace
from pathlib import Path
from typing import Any

from diffdraft import cli
from diffdraft.measure.speculative import by_hand

# Each option with its default; a run that lacks one uses the default, so that all have one shape.
OWN: dict[str, str] = {
    "token-counts": "128,256,512",
    "block-sizes": "1,2,4,8,16",
    "lengths": "64,256,1024",
    "passages": "10",
    "k": "4",
    "allowed": "2,4,8",
    "default-k": "4",
    "entropy-low": "0.5",
    "entropy-high": "2.0",
    "confidence-floor": "0.3",
    "cost-ms": "",
    "ngram": "8",
    "loop-free": "0.05",
    "ulp-tolerance": "1.0001",
}
HELP = {
    "token-counts": "numbers of new tokens, with commas",
    "block-sizes": "block sizes K, with commas",
    "lengths": "lengths of text, with commas",
    "passages": "passages of the corpus",
    "k": "block size K: the given token and K - 1 offered ones",
    "allowed": "block sizes that a policy may choose",
    "default-k": "the one it takes when it does not know",
    "entropy-low": "nats; at most so much: the largest block",
    "entropy-high": "nats; at least so much: the smallest block",
    "confidence-floor": "product of top-1 probabilities that is still verified",
    "cost-ms": 'milliseconds of a cycle by block size, such as {"2": 46.7, "4": 49.8}',
    "ngram": "n of the n-grams whose repetition is a loop",
    "loop-free": "looped fraction below which a text counts as free of loops",
    "ulp-tolerance": "units in the last place that one such unit may measure",
}
RUNS: dict[str, tuple[str, dict[str, str]]] = {
    "baseline": ("native and K = 4, at several lengths", {"token-counts": ""}),
    "ksweep": ("native and fixed block sizes", {"block-sizes": ""}),
    "context": (
        "behind contexts of several lengths",
        {"lengths": "", "block-sizes": "2,4,8", "passages": ""},
    ),
    "controls": ("refinement, lookup, and drafters that learned nothing", {"k": ""}),
    "adaptive": (
        "block sizes chosen on the way",
        dict.fromkeys(
            ("allowed", "default-k", "entropy-low", "entropy-high", "confidence-floor", "cost-ms"),
            "",
        ),
    ),
    "confidence": ("the drafter's confidence in every slot", {"k": ""}),
    "audit": ("where texts leave the native one", {"block-sizes": "", "ulp-tolerance": ""}),
    "degeneration": (
        "how much of the native text repeats itself",
        {"lengths": "128,512", "ngram": "", "k": "", "loop-free": ""},
    ),
}


class Subcommand(cli.Parser):
    """A parser of one subcommand: the exit codes of `cli`, and no second --debug."""

    def __init__(self, **settings: Any) -> None:
        argparse.ArgumentParser.__init__(self, **settings)


def make_parser() -> cli.Parser:
    """All options, those of a run behind its name. Numbers stay text: `by_hand` reads them."""
    parser = cli.Parser(__doc__)
    add = parser.add_argument
    adapter = "build/tiny/adapters/primary/adapter.safetensors"
    add("--adapter", default=adapter, help=f'adapter file; "" is an untrained one ({adapter})')
    add("--target", type=Path, default=Path("build/tiny/target"), help="model folder (%(default)s)")
    add("--rank", help="rank of an untrained adapter (16); an adapter file must have it")
    add("--tokens", default="128", help="new tokens a prompt (128)")
    add("--repeats", default="3", help="timed repeats of a prompt (3)")
    add("--warmup", default="1", help="discarded passes (1)")
    add("--tag", default="main", help="what file names begin with (main)")
    suite = Path("config/workloads/tiny.yaml")
    add("--workload", type=Path, default=suite, help="prompts (%(default)s)")
    add("--out-dir", type=Path, default=Path("build/speculative"), help="folder (%(default)s)")
    add("--seed", default="20260905", help="seed of noise, order and passages (20260905)")
    add("--corpus", type=Path, help="corpus folder, for passages")
    add("--shuffled", type=Path, help="adapter of the shuffled control")
    add("--max-load-before", default="0.25", help="busy share above which a row is marked (0.25)")
    commands = parser.add_subparsers(
        dest="run", required=True, metavar="RUN", parser_class=Subcommand
    )
    for name, (said, own) in RUNS.items():
        command = commands.add_parser(name, help=said, description=said)
        command.set_defaults(**{key.replace("-", "_"): value for key, value in OWN.items()})
        for option, default in own.items():
            value = default or OWN[option]
            command.add_argument(
                f"--{option}", default=value, help=f"{HELP[option]} ({value or 'none'})"
            )
        command.set_defaults(file=None)
    commands.choices["audit"].add_argument(
        "--file", type=Path, help="row file of a run; without it a run in both precisions is made"
    )
    return parser


def main(args: Namespace) -> None:
    """Run it and print."""
    by_hand.run(args)


if __name__ == "__main__":
    cli.run(make_parser(), main)
