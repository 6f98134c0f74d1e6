"""Audit a repository: did the plans precede the results, and do the results say what they say?

Every check ends in PASS, FAIL or CANNOT TELL. One FAIL makes the audit fail; without one, a
CANNOT TELL leaves it open.
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diffdraft.errors import UserError
from diffdraft.prereg import history, ledger, registry
from diffdraft.prereg.adapter_evidence import ADAPTERS
from diffdraft.prereg.amendments import amendment_files
from diffdraft.prereg.audit_adapters import audit_adapters
from diffdraft.prereg.audit_amendments import audit_amendments
from diffdraft.prereg.audit_evidence import audit_evidence
from diffdraft.prereg.findings import (
    CANNOT_TELL,
    FAIL,
    PASS,
    Finding,
    find,
    with_history,
)
from diffdraft.prereg.schema import load_plan

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
        of_kind = audit_adapters if folder.name == ADAPTERS else audit_evidence
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
    there = [f"{folder.relative_to(repo).as_posix()}/" for folder in _evidence_folders(repo)]
    lost = with_history(repo, lambda: history.check_nothing_lost(repo, there))
    yield find("nothing lost", history.RESULTS, lost)
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


def to_json(findings: list[Finding]) -> dict[str, Any]:
    return {"outcome": overall(findings), "checks": [asdict(finding) for finding in findings]}


def table(findings: list[Finding]) -> str:
    """The findings in columns, and the outcome in the last line."""
    width = [max(len(getattr(f, name)) for f in findings) for name in ("outcome", "check")]
    lines = [
        f"{f.outcome:<{width[0]}}  {f.check:<{width[1]}}  {f.subject}: {f.detail}" for f in findings
    ]
    return "\n".join([*lines, "", overall(findings)])
