"""A report from files to files."""

from collections.abc import Sequence
from pathlib import Path

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.report import (
    act4s_inputs,
    act4s_pages,
    act4s_published_pages,
    criteria,
    document,
    inputs,
    provenance_pages,
    published_pages,
    render,
    rprm_pages,
    style,
    timing_pages,
)
from diffdraft.report.act4s_inputs import Act4s
from diffdraft.report.evidence import Evidence
from diffdraft.report.inputs import Place, Rprm, Timing

EVIDENCE_LINES = {
    "measured": "evidence: rows measured on this machine",
    "committed": "evidence: rows committed to the repository, analysed again",
}


def load(
    profile: str,
    kind: str,
    folders: dict[str, Path],
    published: dict[str, Path],
    plans: Sequence[Path],
    results: Path,
) -> Evidence:
    """Read everything a report shows.

    `folders` maps a study to its analysis folder, `published` one to the replay of its figures.

    Raises `UserError` that names the first file that is missing or does not fit.
    """
    by_study = {path.stem: path for path in plans}
    places = {}
    for study, folder in folders.items():
        if study not in by_study:
            raise UserError("--plans", "study", ", ".join(by_study), f"a plan {study}.yaml")
        committed = kind == "committed"
        rows = results / profile / study if committed else folder
        places[study] = Place(folder, rows, by_study[study], committed)
    rprm = inputs.load_rprm(places["rprm"])
    act4s = act4s_inputs.load_act4s(places["act4s"])
    figures = results / "published" / "rprm.yaml"
    return Evidence(
        profile=profile,
        kind=kind,
        rprm=rprm,
        timing=inputs.load_timing(places["paired_timing"]),
        act4s=act4s,
        published=inputs.load_published(published["rprm"], figures, rprm.plan),
        readings=act4s_inputs.load_readings(published["act4s"], act4s.plan),
    )


def compose(evidence: Evidence) -> document.Report:
    """The report as data, figures drawn."""
    rprm, timing, act4s = evidence.studies
    with style.styled():
        sections = [
            rprm_pages.criteria_section(rprm),
            rprm_pages.figures_section(rprm),
            published_pages.published_section(rprm, evidence.published),
            timing_pages.timing_section(timing),
            *act4s_pages.main_sections(act4s),
            act4s_published_pages.published_section(act4s, evidence.readings),
            provenance_pages.limits_section(evidence),
            rprm_pages.models_section(rprm),
            published_pages.details_section(rprm, evidence.published),
            *act4s_pages.detail_sections(act4s),
            act4s_published_pages.published_details(evidence.readings),
            provenance_pages.plans_section(evidence),
            provenance_pages.provenance_section(evidence),
            provenance_pages.records_section(evidence),
            provenance_pages.rerun_section(evidence.profile),
        ]
    return document.Report(
        title="What the registered experiments showed",
        profile=evidence.profile,
        evidence_line=EVIDENCE_LINES[evidence.kind],
        studies=[card(study) for study in evidence.studies],
        sections=sections,
    )


def card(study: Rprm | Timing | Act4s) -> document.Card:
    """The verdict of the scope that carries, and why."""
    verdict = study.verdict
    return document.Card(
        study=study.plan.study,
        title=study.plan.title,
        question=study.plan.question,
        scope=verdict.carried.scope,
        verdict=verdict.carried.verdict,
        stop=verdict.stop,
        failures=criteria.failures(verdict.scopes[verdict.carried.scope]),
        frozen=verdict.plan_frozen is not None,
    )


def write(report: document.Report, folder: Path) -> None:
    """Write figures/, summary.md and, last, index.html."""
    page, summary = render.html(report), render.markdown(report)
    for shown in report.pictures():
        style.write_png(folder / "figures" / f"{shown.stem}.png", shown.png)
    files.write_text(folder / "summary.md", summary)
    files.write_text(folder / "index.html", page)
