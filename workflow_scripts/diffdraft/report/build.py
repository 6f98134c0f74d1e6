"""A report from files to files."""

from collections.abc import Iterator, Mapping, Sequence
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
from diffdraft.report.document import Section
from diffdraft.report.evidence import Act4sEvidence, Evidence, RprmEvidence
from diffdraft.report.inputs import Place, Rprm, Timing

EVIDENCE_LINES = {
    "measured": "evidence: rows measured on this machine",
    "committed": "evidence: rows committed to the repository, analysed again",
}


def load(
    profile: str,
    kind: str,
    folders: Mapping[str, Path],
    published: Mapping[str, Path],
    plans: Sequence[Path],
    results: Path,
) -> Evidence:
    """Read everything a report shows.

    `folders` maps a study to its analysis folder, `published` one to the replay of its figures.
    A study without a folder is not shown.

    Raises `UserError` that names the first file that is missing or does not fit.
    """
    places = {
        study: _place(study, folder, profile, kind, plans, results)
        for study, folder in folders.items()
    }
    return Evidence(
        profile=profile,
        kind=kind,
        rprm=_rprm(places["rprm"], published["rprm"], results) if "rprm" in places else None,
        timing=inputs.load_timing(places["paired_timing"]) if "paired_timing" in places else None,
        act4s=_act4s(places["act4s"], published["act4s"]) if "act4s" in places else None,
    )


def _place(
    study: str, folder: Path, profile: str, kind: str, plans: Sequence[Path], results: Path
) -> Place:
    by_study = {path.stem: path for path in plans}
    if study not in by_study:
        raise UserError("--plans", "study", ", ".join(by_study), f"a plan {study}.yaml")
    committed = kind == "committed"
    rows = results / profile / study if committed else folder
    return Place(folder, rows, by_study[study], committed)


def _rprm(place: Place, published: Path, results: Path) -> RprmEvidence:
    study = inputs.load_rprm(place)
    figures = results / "published" / "rprm.yaml"
    return RprmEvidence(study, inputs.load_published(published, figures, study.plan))


def _act4s(place: Place, published: Path) -> Act4sEvidence:
    study = act4s_inputs.load_act4s(place)
    return Act4sEvidence(study, act4s_inputs.load_readings(published, study.plan))


def compose(evidence: Evidence) -> document.Report:
    """The report as data, figures drawn."""
    with style.styled():
        sections = [
            *_main_sections(evidence),
            provenance_pages.limits_section(evidence),
            *_detail_sections(evidence),
            provenance_pages.plans_section(evidence),
            provenance_pages.provenance_section(evidence),
            provenance_pages.records_section(evidence),
            provenance_pages.rerun_section(evidence),
        ]
    return document.Report(
        title="What the registered experiments showed",
        profile=evidence.profile,
        evidence_line=EVIDENCE_LINES[evidence.kind],
        studies=[card(study) for study in evidence.studies],
        sections=sections,
    )


def _main_sections(evidence: Evidence) -> Iterator[Section]:
    """What a reader comes for, study by study."""
    if rprm := evidence.rprm:
        yield rprm_pages.criteria_section(rprm.study)
        yield rprm_pages.figures_section(rprm.study)
        yield published_pages.published_section(rprm.study, rprm.published)
    if evidence.timing:
        yield timing_pages.timing_section(evidence.timing)
    if act4s := evidence.act4s:
        yield from act4s_pages.main_sections(act4s.study)
        yield act4s_published_pages.published_section(act4s.study, act4s.readings)


def _detail_sections(evidence: Evidence) -> Iterator[Section]:
    """Long tables."""
    if rprm := evidence.rprm:
        yield rprm_pages.models_section(rprm.study)
        yield published_pages.details_section(rprm.study, rprm.published)
    if act4s := evidence.act4s:
        yield from act4s_pages.detail_sections(act4s.study)
        yield act4s_published_pages.published_details(act4s.readings)


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
        files.write_bytes(folder / "figures" / f"{shown.stem}.png", shown.png)
    files.write_text(folder / "summary.md", summary)
    files.write_text(folder / "index.html", page)
