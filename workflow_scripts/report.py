"""Write a report on one or more studies of one evidence root: index.html, summary.md, figures/.

report.py --profile tiny --evidence measured --rprm DIR --timing DIR --published DIR
          --plans prereg/*.yaml --out-dir DIR
report.py --profile tiny --evidence measured --act4s DIR --published-act4s DIR
          --plans prereg/*.yaml --out-dir DIR

The page needs no other file and no network. Metadata of committed rows and the published figures
are read from --results.
"""

import argparse
from pathlib import Path

from diffdraft import cli
from diffdraft.errors import UserError
from diffdraft.report import build

STUDIES = {"rprm": "rprm", "paired_timing": "timing", "act4s": "act4s"}
REPLAYS = {"rprm": "published", "act4s": "published_act4s"}


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--profile", required=True)
    parser.add_argument("--evidence", choices=sorted(build.EVIDENCE_LINES), required=True)
    parser.add_argument("--rprm", type=Path, help="analysis of rprm; needs --published")
    parser.add_argument("--timing", type=Path, help="analysis of paired_timing")
    parser.add_argument("--act4s", type=Path, help="analysis of act4s; needs --published-act4s")
    parser.add_argument("--published", type=Path, help="replay of the published RPRM")
    parser.add_argument("--published-act4s", type=Path, help="readings of the published Act IV-S")
    parser.add_argument("--plans", type=Path, nargs="+", required=True)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out-dir", type=Path, required=True)
    return parser


def main(args: argparse.Namespace) -> None:
    folders = given(args, STUDIES)
    published = given(args, REPLAYS)
    if not folders:
        raise UserError("report.py", "studies", "none", "--rprm, --timing or --act4s")
    for study, option in REPLAYS.items():
        if study in folders and study not in published:
            raise UserError("report.py", f"--{option.replace('_', '-')}", "nothing", "a folder")
    evidence = build.load(args.profile, args.evidence, folders, published, args.plans, args.results)
    report = build.compose(evidence)
    build.write(report, args.out_dir)
    verdicts = ", ".join(f"{card.study} {card.verdict}" for card in report.studies)
    print(f"{args.out_dir / 'index.html'}: {verdicts}")


def given(args: argparse.Namespace, options: dict[str, str]) -> dict[str, Path]:
    """The folders that were given, by study."""
    found = {study: getattr(args, option) for study, option in options.items()}
    return {study: folder for study, folder in found.items() if folder is not None}


if __name__ == "__main__":
    cli.run(parser(), main)
