"""Make trained adapters evidence: from build/PROFILE/adapters to results/PROFILE/adapters."""

from pathlib import Path

from diffdraft import git
from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.prereg import adapter_evidence, evidence, history
from diffdraft.prereg.adapter_evidence import ADAPTERS, RECORD, AdapterManifest, Training
from diffdraft.prereg.adapter_profile import check_committed_profile
from diffdraft.prereg.manifest import load_manifest, load_measurements
from diffdraft.prereg.promote import check_absent, check_repository, copy_evidence
from diffdraft.prereg.registry import STUDIES
from diffdraft.prereg.used_adapters import check_used
from diffdraft.profile_digest import profile_digest
from diffdraft.target_record import recorded_fingerprint


def promote_adapters(repo: Path, profile: str) -> Path:
    """Check all adapters of a profile, copy them with a manifest, and return the new folder.

    All or nothing. Raises `UserError` for a dirty or missing repository, adapters trained from a
    dirty tree, by several commits or unknown code, from another profile or for another target than
    those that are there, what `adapter_evidence.load_trainings` refuses, others than those that a
    study in results was measured with, and evidence that is already there.
    """
    build, destination = repo / "build" / profile, repo / "results" / profile / ADAPTERS
    source = build / ADAPTERS
    check_repository(repo)
    check_absent(destination, "Committed adapters are never replaced")
    manifest = adapter_evidence.adapter_manifest(source)
    _check_profile(repo, profile, manifest, source)
    _check_target(build, manifest, source)
    for tag, training in adapter_evidence.load_trainings(source).items():
        file = source / tag / RECORD
        evidence.check_clean(training.provenance, file)
        _check_committed_profile(repo, training, file)
        _check_ancestor(repo, str(training.provenance.git_sha), file)
    _check_studies(destination.parent, manifest)
    copy_evidence(source, destination, manifest)
    return destination


def _check_profile(repo: Path, profile: str, manifest: AdapterManifest, source: Path) -> None:
    if manifest.profile != profile:
        raise UserError(source, "profile", manifest.profile, profile)
    digest = profile_digest(load_profile(repo / "config" / "profiles" / f"{profile}.yaml"))
    if manifest.profile_sha256 != digest:
        expected = f"{digest}, of the profile as it is"
        raise UserError(source, "profile_sha256", manifest.profile_sha256, expected, "Train again")


def _check_target(build: Path, manifest: AdapterManifest, source: Path) -> None:
    target = recorded_fingerprint(build / "target")
    for tag, adapter in manifest.adapters.items():
        if adapter.target_fingerprint != target:
            expected = f"{target}, of {build.name}/target"
            raise UserError(
                source / tag, "target_fingerprint", adapter.target_fingerprint, expected
            )


def _check_committed_profile(repo: Path, training: Training, file: Path) -> None:
    try:
        check_committed_profile(repo, training, file)
    except history.Untold as untold:
        raise UserError(file, "profile", untold.why, "one that can be compared") from None


def _check_studies(results: Path, manifest: AdapterManifest) -> None:
    """Evidence that is there already stays: it must not be of other adapters than these."""
    for name, study in STUDIES.items():
        if (folder := results / name).is_dir():
            model, measurements = load_manifest(folder).model, load_measurements(folder, study)
            check_used(manifest, model, measurements, folder)


def _check_ancestor(repo: Path, commit: str, file: Path) -> None:
    """What is committed next has to come after the code."""
    if not git.is_ancestor(repo, commit, "HEAD"):
        raise UserError(file, "git_sha", commit[:12], "an ancestor of HEAD")
