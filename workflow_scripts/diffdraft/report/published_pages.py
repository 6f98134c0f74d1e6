"""Section that puts the published figures of study `rprm` beside ours."""

from collections.abc import Mapping
from typing import Any

from diffdraft.prereg.verdict import ScopeVerdict
from diffdraft.report import cells, criteria, document, figures
from diffdraft.report.cells import Cell, Table
from diffdraft.report.document import Block, Section
from diffdraft.report.inputs import Published, Rprm

Json = Mapping[str, Any]
SCORES = ("auroc", "log_loss")
KINDS = {
    "text": "Published text against published outputs",
    "plan": "Published registration against published code",
    "audit": "Published audit against other records",
}


def published_section(ours: Rprm, published: Published) -> Section:
    """Published figures through the same plan and engine, scope by scope, and what differs."""
    intro = (
        "The published figures went through the same plan and the same verdict engine as ours. "
        "They come from another target, corpus and machine, so agreement is to be expected in "
        "sign and pattern, not in digits."
    )
    blocks: list[Block] = [document.paragraph(intro), document.table(verdicts(ours, published))]
    blocks.append(document.table(replay(published.comparison)))
    for scope in ours.plan.scopes.names():
        table = criteria.beside(scope, ours.verdict.scopes[scope], published.verdict.scopes[scope])
        blocks.append(document.table(table))
    return Section("published", "Beside the published figures", blocks)


def details_section(ours: Rprm, published: Published) -> Section:
    """Model scores beside the published ones, and the defects known in the published record."""
    blocks = [
        document.table(scores(adapter.tag, stratum, analysis, published.figures))
        for adapter in ours.adapters
        for stratum, analysis in adapter.analysis.items()
    ]
    blocks.append(document.heading("Differences known within the published record"))
    for kind, caption in KINDS.items():
        blocks.append(document.table(_differences(kind, caption, published.comparison)))
    blocks.append(document.heading("Published figures recomputed from one another"))
    blocks.append(document.table(recomputed(published.comparison)))
    return Section("published-details", "Published scores and records", blocks, in_summary=False)


def verdicts(ours: Rprm, published: Published) -> Table:
    """The verdict of every scope, ours and published."""
    rows = [
        [cells.text(scope), *_same(ours.verdict.scopes[scope], published.verdict.scopes[scope])]
        for scope in ours.plan.scopes.names()
    ]
    head = ["scope", "ours", "published", "verdict", "criteria with another outcome"]
    return Table("Verdict of every scope", head, rows)


def _same(ours: ScopeVerdict, theirs: ScopeVerdict) -> list[Cell]:
    unlike = criteria.unlike(ours, theirs)
    return [
        cells.text(ours.verdict),
        cells.text(theirs.verdict),
        cells.agreement(ours.verdict == theirs.verdict),
        Cell(", ".join(unlike) or "none", cells.BAD if unlike else cells.PLAIN),
    ]


def replay(comparison: Json) -> Table:
    """Outcomes that our engine gives the published figures, against the published outcomes."""
    rows = []
    for scope, entry in comparison["scopes"].items():
        verdict, equal = entry["verdict"], [item["equal"] for item in entry["criteria"]]
        count = f"{sum(equal)} of {len(equal)}"
        row = [
            cells.text(scope),
            cells.text(verdict["replayed"]),
            cells.text(verdict["published"]),
            cells.agreement(verdict["equal"]),
            Cell(count, cells.PLAIN if all(equal) else cells.BAD, numeric=True),
        ]
        rows.append(row)
    head = ["scope", "our engine", "as published", "verdict", "criteria as published"]
    return Table("The published figures, judged here and as published", head, rows)


def recomputed(comparison: Json) -> Table:
    """Consistency checks of the published record."""
    rows = [
        [
            cells.text(entry["scope"]),
            cells.text(entry["check"]),
            cells.num(entry["figures"]),
            cells.num(entry["largest_difference"], 6),
            cells.agreement(entry["holds"]),
        ]
        for entry in comparison["checks"]
    ]
    head = ["scope", "check", "figures", "largest difference", "within rounding"]
    return Table("Consistency of the published record", head, rows)


def scores(tag: str, stratum: str, analysis: Json, published: Json) -> Table:
    """AUROC and log loss of every model in one scope, ours, published and the difference."""
    theirs = published[f"stage1_{tag}"][stratum]
    rows = [
        [cells.text("acceptance on TEST"), *_pair(analysis, theirs, "acceptance_test")]
        + [cells.text("")] * 3
    ]
    for key, label in figures.MODEL_LABELS.items():
        pair = analysis["models"][key], theirs["models"][key]
        rows.append([cells.text(label)] + [cell for s in SCORES for cell in _pair(*pair, s)])
    head = ["model", "AUROC", "published", "difference", "log loss", "published", "difference"]
    return Table(f"{tag}.{stratum}: held-out scores", head, rows)


def _pair(ours: Json, theirs: Json, key: str) -> list[Cell]:
    return [cells.num(ours[key]), cells.num(theirs[key]), cells.difference(ours[key], theirs[key])]


def _differences(kind: str, caption: str, comparison: Json) -> Table:
    rows = [
        [cells.text(entry["id"]), cells.text(entry["stated"]), cells.text(entry["found"])]
        for entry in comparison["differences"]
        if entry["kind"] == kind
    ]
    return Table(caption, ["", "stated", "found"], rows)
