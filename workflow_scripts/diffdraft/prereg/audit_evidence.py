"""The audit of one study's evidence: is it complete, as planned, and what its rows say?"""

from collections.abc import Iterator
from pathlib import Path

from diffdraft.prereg import evidence, history
from diffdraft.prereg.adapter_evidence import ADAPTERS, load_adapter_manifest
from diffdraft.prereg.evidence import Registered
from diffdraft.prereg.findings import Finding, equal, find, with_history
from diffdraft.prereg.manifest import (
    MANIFEST,
    file_records,
    load_manifest,
    load_measurements,
    measurement_record,
    span,
    verdict_record,
)
from diffdraft.prereg.used_adapters import check_used
from diffdraft.prereg.verdict import load_verdict


def audit_evidence(repo: Path, folder: Path) -> Iterator[Finding]:
    """Findings on `results/PROFILE/STUDY`."""
    subject = folder.relative_to(repo).as_posix()
    profile, study = folder.parent.name, folder.name
    registered: list[Registered] = []

    def plan_is_frozen() -> str:
        registered.append(evidence.registered(repo / "prereg", study))
        return f"frozen on {registered[0].entry.date}"

    yield find("plan frozen", subject, plan_is_frozen)
    if not registered:
        return
    plan = registered[0]
    kept = with_history(repo, lambda: _kept(repo, plan, folder, subject))
    yield find("results only added", subject, kept)
    yield find("manifest", subject, lambda: check_manifest(plan, profile, folder))
    yield find("measured as planned", subject, lambda: evidence.check_design(plan, profile, folder))
    yield find("measured cleanly, later", subject, lambda: _clean_and_later(plan, folder))
    code = with_history(repo, lambda: _code(repo, plan, folder))
    yield find("code descends from plan", subject, code)
    if (committed := folder.parent / ADAPTERS).is_dir():
        yield find("committed adapters used", subject, lambda: _adapters(plan, committed, folder))
    yield find("verdict from rows", subject, lambda: _verdict(plan, folder))


def check_manifest(plan: Registered, profile: str, folder: Path) -> str:
    """Check MANIFEST.json against the files, the plan, the metadata and the verdict."""
    manifest, path = load_manifest(folder), folder / MANIFEST
    found = sorted(item.name for item in folder.iterdir() if item.name != MANIFEST)
    equal(path, "files", sorted(manifest.files), found)
    for name, record in file_records(folder, plan.study).items():
        equal(path, f"files.{name}", manifest.files[name], record)
    equal(path, "study and profile", (manifest.study, manifest.profile), (folder.name, profile))
    equal(path, "plan.file", manifest.plan.file, f"prereg/{plan.entry.file}")
    equal(path, "plan.sha256", manifest.plan.sha256, plan.entry.sha256)
    measurements = load_measurements(folder, plan.study)
    started, ended = span(measurements.values())
    in_force = [entry.sha256 for entry, _ in plan.in_force(started)]
    equal(path, "amendments", manifest.amendments, in_force)
    equal(path, "started_utc", manifest.started_utc, started.isoformat())
    equal(path, "ended_utc", manifest.ended_utc, ended.isoformat())
    records = {name: measurement_record(item, folder / name) for name, item in measurements.items()}
    equal(path, "measurements", manifest.measurements, records)
    planned = plan.expected(started).models[profile].target
    equal(path, "model.target", manifest.model.target, planned)
    for item in measurements.values():
        equal(path, "model.revision", manifest.model.revision, item.target_revision)
        equal(path, "model.fingerprint", manifest.model.fingerprint, item.target_fingerprint)
        known = item.adapter_sha256 in manifest.model.files.values()
        equal(path, "adapter among model.files", known, True)
    stated = verdict_record(load_verdict(folder / "verdict.json"))
    equal(path, "verdict", manifest.verdict, stated)
    return f"{len(manifest.files)} files with their hashes, rows and schema"


def _adapters(plan: Registered, committed: Path, folder: Path) -> str:
    adapters = load_adapter_manifest(committed)
    measurements = load_measurements(folder, plan.study)
    return check_used(adapters, load_manifest(folder).model, measurements, folder)


def _clean_and_later(plan: Registered, folder: Path) -> str:
    details = [
        evidence.check_clean_and_later(plan, measurement, folder / name)
        for name, measurement in load_measurements(folder, plan.study).items()
    ]
    return details[0]


def _kept(repo: Path, plan: Registered, folder: Path, subject: str) -> str:
    measured_by = {
        name: measurement.provenance.git_sha
        for name, measurement in load_measurements(folder, plan.study).items()
    }
    return history.check_results_kept(repo, subject, measured_by)


def _code(repo: Path, plan: Registered, folder: Path) -> str:
    details = [
        history.check_code(repo, plan.entry, measurement.provenance.git_sha, folder / name)
        for name, measurement in load_measurements(folder, plan.study).items()
    ]
    return "; ".join(dict.fromkeys(details))


def _verdict(plan: Registered, folder: Path) -> str:
    carried = evidence.check_verdict(plan, folder).carried
    return f"{carried.verdict} ({carried.scope}), derived again from the rows"
