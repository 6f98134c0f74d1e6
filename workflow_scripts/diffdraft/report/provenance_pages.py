"""Sections on where the numbers come from and how to get them again."""

from collections.abc import Mapping
from typing import Any

from diffdraft.prereg.schema import Plan
from diffdraft.report import cells, document
from diffdraft.report.cells import Cell, Table
from diffdraft.report.document import Block, Section
from diffdraft.report.evidence import Evidence
from diffdraft.report.registration import Registration

Json = Mapping[str, Any]

# First what a reader asks first; other keys follow in the order of the file.
FIRST = [
    "provenance.git_sha",
    "provenance.git_dirty",
    "provenance.started_utc",
    "provenance.ended_utc",
    "provenance.plan.sha256",
    "provenance.plan.file",
    "target_fingerprint",
    "adapter_sha256",
    "provenance.cpu",
    "provenance.cores",
    "provenance.memory_bytes",
    "provenance.platform",
    "provenance.python",
]
GLANCE = {
    "provenance.git_sha": "commit",
    "provenance.git_dirty": "uncommitted changes",
    "provenance.started_utc": "started (UTC)",
    "provenance.ended_utc": "ended (UTC)",
    "provenance.cpu": "CPU",
}

SNAKEMAKE = ".venv/bin/snakemake --cores all"


def limits_section(evidence: Evidence) -> Section:
    """What the verdicts do not show, in the words of the plans."""
    blocks: list[Block] = []
    for study in evidence.studies:
        blocks.append(document.heading(study.plan.title))
        blocks.append(document.bullets(study.verdict.does_not_show))
    return Section("limits", "What the verdicts do not show", blocks)


def plans_section(evidence: Evidence) -> Section:
    """What was registered: digests, dates, hypotheses and the choices stated in advance."""
    studies = evidence.studies
    blocks = [document.table(_registrations([study.registration for study in studies]))]
    for study in studies:
        blocks += _plan_blocks(study.plan)
    return Section("plans", "What was registered in advance", blocks, in_summary=False)


def _registrations(registrations: list[Registration]) -> Table:
    rows = [
        [
            *(cells.text(entry.file), cells.text(entry.sha256), _frozen(entry)),
            *(cells.text(entry.reason), cells.text("; ".join(entry.changes))),
        ]
        for registration in registrations
        for entry in registration.files
    ]
    head = ["file", "SHA-256", "frozen", "why amended", "what is amended"]
    return Table("Plans and amendments", head, rows)


def _frozen(entry: Any) -> Cell:
    return cells.text(entry.frozen) if entry.frozen else Cell("not frozen", cells.BAD)


def _plan_blocks(plan: Plan) -> list[Block]:
    hypotheses = [
        [cells.text(entry.id), cells.text(entry.claim), cells.text(entry.falsified_by)]
        for entry in plan.hypotheses
    ]
    choices = [[cells.text(entry.choice), cells.text(entry.reason)] for entry in plan.decisions]
    head = ["id", "claim", "falsified by"]
    return [
        document.heading(plan.title),
        document.table(Table(f"Hypotheses of {plan.study}", head, hypotheses)),
        document.table(Table(f"Choices of {plan.study}", ["choice", "reason"], choices)),
        document.paragraph("Exclusions:"),
        document.bullets(plan.exclusions),
    ]


def provenance_section(evidence: Evidence) -> Section:
    """Code, machine and time of every measurement, and what all have in common."""
    metas = _metas(evidence)
    common, _ = measurements({f"{s}: {m}": e for s, by in metas.items() for m, e in by.items()})
    blocks = [document.table(glance(metas)), document.table(common)]
    return Section("provenance", "Provenance", blocks)


def records_section(evidence: Evidence) -> Section:
    """All that the measurements of each study say of themselves, and the manifests."""
    blocks: list[Block] = []
    for name, metas in _metas(evidence).items():
        blocks.append(document.heading(f"Measurements of {name}"))
        blocks += [document.table(table) for table in measurements(metas) if table.rows]
    for study in evidence.studies:
        if study.manifest is not None:
            caption = f"Manifest of {study.plan.study}"
            blocks.append(document.table(side_by_side(caption, {"value": study.manifest})))
    return Section("records", "Records of the measurements", blocks, in_summary=False)


def _metas(evidence: Evidence) -> dict[str, Mapping[str, Json]]:
    return {study.plan.study: study.metas for study in evidence.studies}


def glance(metas: Mapping[str, Mapping[str, Json]]) -> Table:
    """One row a measurement: which code, whether it had uncommitted changes, and when it ran."""
    rows = []
    for study, by_name in metas.items():
        for name, meta in by_name.items():
            flat = dict(cells.flatten(meta))
            row = [cells.text(study), cells.text(name)]
            rows.append(row + [_value(key, flat.get(key, cells.NOTHING)) for key in GLANCE])
    return Table("Measurements", ["study", "measurement", *GLANCE.values()], rows)


def measurements(metas: Mapping[str, Json]) -> tuple[Table, Table]:
    """What all measurements have in common, and where they differ."""
    table = side_by_side("Measurements", metas)
    common = [row[:2] for row in table.rows if len({cell.text for cell in row[1:]}) == 1]
    differing = [row for row in table.rows if len({cell.text for cell in row[1:]}) > 1]
    return (
        Table("The same for every measurement", ["key", "value"], common),
        Table("By measurement", table.head, differing),
    )


def side_by_side(caption: str, columns: Mapping[str, Json]) -> Table:
    """JSON objects as columns, one row a key; a key that one of them lacks is a dash there."""
    flat = {name: dict(cells.flatten(value)) for name, value in columns.items()}
    keys = list(dict.fromkeys(key for column in flat.values() for key in column))
    keys.sort(key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST))
    rows = [
        [cells.text(key), *(_value(key, column.get(key)) for column in flat.values())]
        for key in keys
    ]
    return Table(caption, ["key", *flat], rows)


def _value(key: str, value: str | None) -> Cell:
    """A value; uncommitted changes in the code are marked, since no commit has such code."""
    dirty = key.endswith("dirty") and value == str(True)
    return Cell(str(value), cells.BAD) if dirty else cells.text(value)


def rerun_section(evidence: Evidence) -> Section:
    """Commands that give these numbers again."""
    profile = evidence.profile
    targets = [*(study.plan.study for study in evidence.studies), "published"]
    blocks = [
        document.paragraph("In a clone: install, train, measure, judge, report."),
        document.commands([f"make run PROFILE={profile}"]),
        document.paragraph("Without a model: the committed rows again, and the audit."),
        document.commands([f"make reanalyse PROFILE={profile}", "make audit"]),
        document.paragraph("Single studies, and the published figures."),
        document.commands(
            [f"{SNAKEMAKE} --config profile={profile} -- {target}" for target in targets]
        ),
    ]
    return Section("rerun", "How to run it again", blocks)
