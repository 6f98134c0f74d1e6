"""The audit of committed adapters: are they what was trained, and were they left alone since?"""

from collections.abc import Iterator
from pathlib import Path

from diffdraft.prereg import adapter_evidence, evidence, history
from diffdraft.prereg.adapter_evidence import RECORD
from diffdraft.prereg.adapter_profile import check_committed_profile
from diffdraft.prereg.findings import Finding, equal, find, with_history
from diffdraft.prereg.manifest import MANIFEST


def audit_adapters(repo: Path, folder: Path) -> Iterator[Finding]:
    """Findings on `results/PROFILE/adapters`."""
    subject = folder.relative_to(repo).as_posix()
    kept = with_history(repo, lambda: _kept(repo, folder, subject))
    yield find("results only added", subject, kept)
    yield find("adapter manifest", subject, lambda: check_manifest(folder))
    yield find("trained cleanly", subject, lambda: _clean(folder))
    profile = with_history(repo, lambda: _profile(repo, folder))
    yield find("trained from the committed profile", subject, profile)


def check_manifest(folder: Path) -> str:
    """Check MANIFEST.json against the files, their records and the place where they are."""
    stated, path = adapter_evidence.load_adapter_manifest(folder), folder / MANIFEST
    found = adapter_evidence.adapter_manifest(folder)
    there = {item.relative_to(folder).as_posix() for item in folder.rglob("*") if item.is_file()}
    equal(path, "files", sorted(stated.files), sorted(there - {MANIFEST}))
    for name, record in found.files.items():
        equal(path, f"files.{name}", stated.files.get(name), record)
    equal(path, "adapters", sorted(stated.adapters), sorted(found.adapters))
    for tag, adapter in found.adapters.items():
        equal(path, f"adapters.{tag}", stated.adapters[tag], adapter)
    equal(path, "profile", stated.profile, folder.parent.name)
    equal(path, "profile of the adapters", stated.profile, found.profile)
    equal(path, "profile_sha256", stated.profile_sha256, found.profile_sha256)
    return f"{', '.join(found.adapters)}: {len(found.files)} files with their hashes and sizes"


def _kept(repo: Path, folder: Path, subject: str) -> str:
    trainings = adapter_evidence.load_trainings(folder)
    trained_by = {f"{tag}/{RECORD}": each.provenance.git_sha for tag, each in trainings.items()}
    return history.check_results_kept(repo, subject, trained_by)


def _clean(folder: Path) -> str:
    for tag, training in adapter_evidence.load_trainings(folder).items():
        evidence.check_clean(training.provenance, folder / tag / RECORD)
    return "clean tree and one commit, first step to last"


def _profile(repo: Path, folder: Path) -> str:
    details = [
        check_committed_profile(repo, training, folder / tag / RECORD)
        for tag, training in adapter_evidence.load_trainings(folder).items()
    ]
    return details[0]
