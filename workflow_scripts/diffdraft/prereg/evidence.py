"""Checks of one folder of evidence, shared by promotion and audit: what fails one fails both."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from diffdraft.errors import UserError
from diffdraft.prereg import binding, design, ledger, registry
from diffdraft.prereg.amendments import Amendment, amendment_name, check_chain, effective
from diffdraft.prereg.ledger import Entry
from diffdraft.prereg.manifest import VERDICT, Measurement, Origin, load_measurements, span
from diffdraft.prereg.registry import Study
from diffdraft.prereg.reproduce import compare, differences, rederive
from diffdraft.prereg.schema import Plan, load_plan
from diffdraft.prereg.verdict import Frozen, Verdict, load_verdict


@dataclass(frozen=True)
class Registered:
    """A frozen plan with its ledger line, its amendments and theirs, and the code of its study."""

    path: Path
    entry: Entry
    plan: Plan
    amendments: list[tuple[Entry, Amendment]]
    study: Study

    def in_force(self, when: datetime) -> list[tuple[Entry, Amendment]]:
        """The amendments registered by then. A later one cannot change what was measured."""
        return [(entry, amendment) for entry, amendment in self.amendments if entry.when <= when]

    def expected(self, when: datetime) -> Plan:
        """The plan with what the amendments in force changed."""
        chain = [amendment for _, amendment in self.in_force(when)]
        return effective(self.plan, chain, self.path)


def registered(prereg: Path, study: str) -> Registered:
    """Raises `UserError` if the plan or an amendment is not frozen, changed or out of order."""
    path = prereg / f"{study}.yaml"
    entry = ledger.require_frozen(path)
    plan = load_plan(path)
    entries = {line.file: line for line in ledger.read(prereg)}
    chain = [
        (entries[amendment_name(study, amendment.amendment)], amendment)
        for amendment in check_chain(prereg, study)
    ]
    return Registered(path, entry, plan, chain, registry.study_of(study, path))


def check_design(plan: Registered, profile: str, folder: Path) -> str:
    """Sizes from the rows; study, seeds, sample and model from the metadata."""
    measurements = load_measurements(folder, plan.study)
    started, _ = span(measurements.values())
    expected = plan.expected(started)
    design.check_samples(expected, profile, folder, plan.study)
    design.check_measurements(expected, profile, measurements, folder)
    binding.check_rows(plan.study, measurements, folder)
    if plan.study.arms:
        binding.check_arms(expected, plan.study, measurements, folder)
        binding.check_shared_columns(plan.study, folder)
    return "sizes, seeds and models as planned"


def check_clean_and_later(plan: Registered, measurement: Measurement, file: Path) -> str:
    """Measured from one clean tree, first row to last, not begun before the plan was frozen."""
    provenance, start = measurement.provenance, measurement.provenance.start
    check_clean(provenance, file)
    _same_at_the_end(file, "start.plan_sha256", start.plan_sha256, provenance.plan.sha256)
    if provenance.started_utc < plan.entry.when:
        raise UserError(
            file, "started_utc", provenance.started_utc.isoformat(), f"after {plan.entry.date}"
        )
    return "clean tree at start and end, begun after the freezing"


def check_clean(origin: Origin, file: Path) -> None:
    """Raise `UserError` unless it was made from one clean tree, from its beginning to its end."""
    for field, dirty in (
        ("git_dirty", origin.git_dirty),
        ("start.git_dirty", origin.start.git_dirty),
    ):
        if dirty is not False:
            found = "null" if dirty is None else "true"
            raise UserError(file, field, found, "false: made from a committed tree")
    _same_at_the_end(file, "start.git_sha", origin.start.git_sha, origin.git_sha)
    if origin.ended_utc < origin.started_utc:
        raise UserError(file, "ended_utc", origin.ended_utc.isoformat(), "after the start")


def _same_at_the_end(file: Path, field: str, begun: str | None, ended: str | None) -> None:
    if begun is None or begun != ended:
        raise UserError(file, field, begun, f"{ended}, as at the end", "Make it again")


def check_verdict(plan: Registered, folder: Path) -> Verdict:
    """The verdict in `folder`. Raises `UserError` unless its rows give it again."""
    stated = load_verdict(folder / VERDICT)
    if stated.plan_sha256 != plan.plan.sha256:
        raise UserError(
            folder / VERDICT, "plan_sha256", stated.plan_sha256[:12], plan.plan.sha256[:12]
        )
    entry = plan.entry
    frozen = Frozen(sha256=entry.sha256, date=entry.date)
    if stated.plan_frozen != frozen:
        found = stated.plan_frozen.date if stated.plan_frozen else "null"
        raise UserError(
            folder / VERDICT, "plan_frozen", found, f"{frozen.date}, the ledger's", "Judge again"
        )
    again = rederive(plan.path, folder, plan.study)
    if different := differences(compare(again, stated)):
        raise UserError(folder / VERDICT, "verdict", different[0], "what the rows give")
    if (stated.stop, stated.does_not_show) != (again.stop, again.does_not_show):
        raise UserError(folder / VERDICT, "stop, does_not_show", "other words", "the plan's")
    return stated
