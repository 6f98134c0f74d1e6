"""Audit plans, ledger, history and committed evidence.

Exit 0 is PASS, 1 is FAIL, 2 is CANNOT TELL (with the command that would settle it).
"""

import argparse
from pathlib import Path

from diffdraft import cli, files
from diffdraft.prereg import audit


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--json", type=Path, help="also write the findings here")
    parser.add_argument("--repo", type=Path, default=Path(), help="the repository to audit")
    return parser


def main(args: argparse.Namespace) -> int:
    findings = audit.audit(args.repo)
    if args.json:
        files.write_json(args.json, audit.to_json(findings))
    print(audit.table(findings))
    return audit.EXIT_CODES[audit.overall(findings)]


if __name__ == "__main__":
    cli.run(parser(), main)
