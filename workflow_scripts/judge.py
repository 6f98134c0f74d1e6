"""Judge a study: compare its metrics with its plan and write verdict.json.

judge.py --plan prereg/rprm.yaml --metrics metrics_primary.json metrics_replication.json --out F
"""

import argparse
from pathlib import Path

from diffdraft import cli, files
from diffdraft.prereg.ledger import frozen_entry
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import judge, merge_metrics


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--metrics", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def main(args: argparse.Namespace) -> None:
    metrics = merge_metrics(args.metrics)
    verdict = judge(load_plan(args.plan), metrics, args.metrics[0], frozen_entry(args.plan))
    files.write_json(args.out, verdict.to_json())
    print(f"{verdict.study}: {verdict.carried.verdict} ({verdict.carried.scope})")


if __name__ == "__main__":
    cli.run(parser(), main)
