"""Audit a repository: did the plans precede the results, and do the results say what they say?

Every check ends in PASS, FAIL or CANNOT TELL. One FAIL makes the audit fail; without one, a
CANNOT TELL leaves it open.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diffdraft.errors import UserError
from diffdraft.prereg import evidence, history, ledger, registry
from diffdraft.prereg.adapter_evidence import ADAPTERS
from diffdraft.prereg.amendments import amendment_files
from diffdraft.prereg.audit_adapters import audit_adapters
from diffdraft.prereg.audit_amendments import audit_amendments
from diffdraft.prereg.evidence import Registered
from diffdraft.prereg.findings import (
    CANNOT_TELL,
    FAIL,
    PASS,
    Finding,
    equal,
    find,
    with_history,
)
from diffdraft.prereg.manifest import (
    MANIFEST,
    file_records,
    load_manifest,
    load_measurements,
    measurement_record,
    span,
    verdict_record,
)
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import load_verdict

EXIT_CODES = {PASS: 0, FAIL: 1, CANNOT_TELL: 2}


def audit(repo: Path) -> list[Finding]:
    """All findings: the ledger, each plan with its amendments, each folder of evidence.

    Raises `UserError` if `repo` has no plans: an audit of nothing must not pass.
    """
    prereg = repo / "prereg"
    findings = [*_audit_ledger(repo)]
    plans = [path for path in sorted(prereg.glob("*.yaml")) if ".amendment-" not in path.name]
    if not plans:
        raise UserError(prereg, "plans", "none", "a repository with prereg/STUDY.yaml")
    for path in plans:
        findings += _audit_plan(repo, path)
    for folder in _evidence_folders(repo):
        of_kind = audit_adapters if folder.name == ADAPTERS else _audit_evidence
        findings += of_kind(repo, folder)
    return findings


def overall(findings: list[Finding]) -> str:
    outcomes = {finding.outcome for finding in findings}
    return FAIL if FAIL in outcomes else CANNOT_TELL if CANNOT_TELL in outcomes else PASS


def _audit_ledger(repo: Path) -> Iterator[Finding]:
    subject = history.LEDGER_PATH

    def bytes_agree() -> str:
        entries = ledger.read(repo / "prereg")
        for entry in entries:
            ledger.require_frozen(repo / "prereg" / entry.file)
        return f"{len(entries)} files with the bytes they were registered with"

    yield find("ledger chain", subject, lambda: _chain_length(repo))
    yield find("bytes against the ledger", subject, bytes_agree)
    append_only = with_history(repo, lambda: history.check_append_only(repo))
    yield find("ledger only added to", subject, append_only)
    yield find("as committed", "results, prereg", lambda: history.check_as_committed(repo))


def _chain_length(repo: Path) -> str:
    return f"{len(ledger.read(repo / 'prereg'))} lines, each with the hash of the one before"


def _audit_plan(repo: Path, path: Path) -> Iterator[Finding]:
    subject = f"prereg/{path.name}"

    def schema() -> str:
        plan = load_plan(path)
        registry.check_settings(plan, path)
        return f"{len(plan.criteria)} criteria, {len(plan.verdicts)} verdicts"

    yield find("plan schema", subject, schema)
    try:
        entry = ledger.find(ledger.read(path.parent), path.name)
    except Exception:
        return  # the ledger's own finding says it
    if entry is None:
        yield find("frozen", subject, lambda: _draft(repo, path.stem))
        return
    unchanged = with_history(repo, lambda: history.check_unchanged_since(repo, entry))
    yield find("unchanged since frozen", subject, unchanged)
    before = with_history(repo, lambda: history.check_frozen_before_results(repo, entry, path.stem))
    yield find("frozen before results", subject, before)
    if amendment_files(path.parent, path.stem):
        yield from audit_amendments(repo, path.parent, path.stem)


def _draft(repo: Path, study: str) -> str:
    if results := [folder for folder in _evidence_folders(repo) if folder.name == study]:
        raise UserError(f"prereg/{study}.yaml", "ledger", "no line", f"one before {results[0]}")
    if (repo / ".git").exists() and (commits := history.result_commits(repo, study)):
        first = f"one before the results in {commits[0][:12]}"
        raise UserError(f"prereg/{study}.yaml", "ledger", "no line", first)
    return "a draft, not frozen; no results rest on it"


def _evidence_folders(repo: Path) -> list[Path]:
    """results/PROFILE/STUDY, without the figures published by others."""
    folders = sorted((repo / "results").glob("*/*"))
    return [
        path
        for path in folders
        if path.is_dir()
        and path.parent.name != history.PUBLISHED
        and not any(part.startswith(".") for part in (path.name, path.parent.name))
    ]


def _audit_evidence(repo: Path, folder: Path) -> Iterator[Finding]:
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


def to_json(findings: list[Finding]) -> dict[str, Any]:
    return {"outcome": overall(findings), "checks": [asdict(finding) for finding in findings]}


def table(findings: list[Finding]) -> str:
    """The findings in columns, and the outcome in the last line."""
    width = [max(len(getattr(f, name)) for f in findings) for name in ("outcome", "check")]
    lines = [
        f"{f.outcome:<{width[0]}}  {f.check:<{width[1]}}  {f.subject}: {f.detail}" for f in findings
    ]
    return "\n".join([*lines, "", overall(findings)])
