"""Section on the published figures of Act IV-S: what they give under each way to read them."""

from collections.abc import Mapping
from typing import Any

from diffdraft.report import cells, document, published_pages
from diffdraft.report.act4s_inputs import Act4s
from diffdraft.report.cells import Cell, Table
from diffdraft.report.document import Section

Json = Mapping[str, Any]


def published_section(study: Act4s, readings: Json) -> Section:
    """The published verdict, and the one of every reading of the published figures."""
    carried = study.verdict.carried
    verdicts = [
        f"published verdict: {readings['published_verdict']}",
        f"ours, by scope {carried.scope}: {carried.verdict}",
    ]
    intro = (
        "The published figures went through the criteria of the same plan, once for each "
        "estimator, subset of prompts and rule of correctness. They are of another target and "
        "machine, so digits are not comparable."
    )
    basis = [line for line in readings["basis"].values() if isinstance(line, str)]
    blocks = [
        document.bullets(verdicts),
        document.paragraph(intro),
        document.bullets(basis),
        document.table(gates_table(readings["as_published"]["gates"])),
        document.table(readings_table(readings["readings"])),
    ]
    return Section("act4s-published", "Act IV-S: the published figures, read anew", blocks)


def published_details(readings: Json) -> Section:
    """What hangs on the reading, each criterion under each, and checks of the published record."""
    blocks = [
        document.table(depends_table(readings["depends_on"])),
        document.table(outcome_table(readings["readings"])),
        document.table(misses_table(readings["checks"])),
        document.table(published_pages.recomputed(readings)),
    ]
    title = "Act IV-S: published criteria and checks"
    return Section("act4s-published-details", title, blocks, in_summary=False)


def gates_table(gates: list[Json]) -> Table:
    """Gate by gate what was published, and what its own reading gives by our plan."""
    rows = [
        [
            cells.num(gate["gate"]),
            cells.text(gate["result"]),
            cells.text(_each(gate["criteria"])),
            cells.text(_told(gate["replayed"])),
            cells.agreement(gate["equal"]),
        ]
        for gate in gates
    ]
    head = ["gate", "as published", "our criteria", "our engine", "outcome"]
    return Table("The published gates, judged by our plan", head, rows)


def _told(value: bool | str | None) -> str | None:
    return ("met" if value else "not met") if isinstance(value, bool) else value


def _each(values: Json) -> str:
    """Names with what came out of each, on one line."""
    return "; ".join(f"{name}: {_told(value)}" for name, value in values.items())


def readings_table(readings: list[Json]) -> Table:
    """One row a reading, with its verdict and the criteria that it does not meet."""
    rows = [
        [*_names(reading), cells.text(reading["verdict"]), cells.text(_unmet(reading))]
        for reading in readings
    ]
    head = ["estimator", "prompts", "rule of correctness", "verdict", "criteria not met"]
    return Table("Verdict of the published figures by reading", head, rows)


def _names(reading: Json) -> list[Cell]:
    return [cells.text(reading[name]) for name in ("estimator", "subset", "correctness_rule")]


def _unmet(reading: Json) -> str:
    ids = [entry["id"] for entry in reading["criteria"] if entry["outcome"] is False]
    return ", ".join(ids) or "none"


def depends_table(entries: list[Json]) -> Table:
    """What each choice of reading changes."""
    rows = [
        [
            cells.text(entry["what"]),
            cells.text(entry["by"]),
            cells.text(_each(entry["readings"])),
            cells.text(entry["says"]),
        ]
        for entry in entries
    ]
    return Table("What depends on the reading", ["what", "by", "readings", "so"], rows)


def outcome_table(readings: list[Json]) -> Table:
    """Criteria across, readings down; a criterion that cannot be told is a dash."""
    ids = list(dict.fromkeys(entry["id"] for reading in readings for entry in reading["criteria"]))
    rows = []
    for reading in readings:
        outcomes = {entry["id"]: entry["outcome"] for entry in reading["criteria"]}
        rows.append([*_names(reading), *(_outcome(outcomes.get(name)) for name in ids)])
    head = ["estimator", "prompts", "rule of correctness", *ids]
    return Table("Every criterion under every reading", head, rows)


def misses_table(checks: list[Json]) -> Table:
    """Printed figures that other printed figures contradict."""
    rows = [
        [
            cells.text(miss["figure"]),
            cells.text(check["check"]),
            cells.num(miss["printed"], 6),
            cells.num(miss["recomputed"], 6),
        ]
        for check in checks
        for miss in check["misses"]
    ]
    head = ["figure", "check", "printed", "recomputed"]
    return Table("Published figures that others contradict", head, rows)


def _outcome(value: bool | None) -> Cell:
    return cells.text(None) if value is None else cells.outcome(value)
