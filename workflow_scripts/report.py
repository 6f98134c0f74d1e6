"""Write the report of one evidence root: index.html, summary.md and figures/.

report.py --profile tiny --evidence measured --rprm DIR --timing DIR --act4s DIR
          --published DIR --published-act4s DIR --plans prereg/*.yaml --out-dir DIR

The page needs no other file and no network. Metadata of committed rows and the published figures
are read from --results.
"""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.report import build


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--evidence", choices=sorted(build.EVIDENCE_LINES), required=True)
    parser.add_argument("--rprm", type=Path, required=True, help="analysis of rprm")
    parser.add_argument("--timing", type=Path, required=True, help="analysis of paired_timing")
    parser.add_argument("--act4s", type=Path, required=True, help="analysis of act4s")
    parser.add_argument("--published", type=Path, required=True, help="replay of published figures")
    parser.add_argument(
        "--published-act4s", type=Path, required=True, help="readings of the published Act IV-S"
    )
    parser.add_argument("--plans", type=Path, nargs="+", required=True)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out-dir", type=Path, required=True)
    return parser


def main(args: argparse.Namespace) -> None:
    folders = {"rprm": args.rprm, "paired_timing": args.timing, "act4s": args.act4s}
    published = {"rprm": args.published, "act4s": args.published_act4s}
    evidence = build.load(args.profile, args.evidence, folders, published, args.plans, args.results)
    report = build.compose(evidence)
    build.write(report, args.out_dir)
    verdicts = ", ".join(f"{card.study} {card.verdict}" for card in report.studies)
    print(f"{args.out_dir / 'index.html'}: {verdicts}")


if __name__ == "__main__":
    cli.run(parser(), main)
