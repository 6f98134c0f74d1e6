"""Make a measurement evidence: from build/PROFILE/measured/STUDY to results/PROFILE/STUDY."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from diffdraft import files, git
from diffdraft.errors import UserError
from diffdraft.prereg import evidence, history
from diffdraft.prereg.adapter_evidence import ADAPTERS, AdapterManifest, load_adapter_manifest
from diffdraft.prereg.evidence import Registered
from diffdraft.prereg.manifest import (
    MANIFEST,
    Manifest,
    Measurement,
    ModelRecord,
    PlanOf,
    file_records,
    load_measurements,
    measurement_record,
    span,
    verdict_record,
)
from diffdraft.prereg.used_adapters import check_used
from diffdraft.target_record import record_file, recorded_fingerprint


def promote(repo: Path, profile: str, study: str) -> Path:
    """Check a measurement, copy it with its manifest, and return the new folder.

    All or nothing: the folder appears complete, or not at all. Raises `UserError` for a dirty or
    missing repository, a plan that is not frozen or was frozen after the measurement began, rows
    measured from a dirty tree or by unknown code, a missing file, rows that are not as planned or
    do not give the verdict, another adapter than the one that was committed, and evidence that is
    already there.
    """
    source = repo / "build" / profile / "measured" / study
    destination = repo / "results" / profile / study
    check_repository(repo)
    check_absent(destination, "It stays; measure again in a study of its own")
    plan = evidence.registered(repo / "prereg", study)
    records = file_records(source, plan.study)
    measurements = load_measurements(source, plan.study)
    _check_measurements(repo, plan, measurements, source)
    evidence.check_design(plan, profile, source)
    verdict = evidence.check_verdict(plan, source)
    started, ended = span(measurements.values())
    manifest = Manifest(
        study=study,
        profile=profile,
        plan=PlanOf(file=f"prereg/{plan.entry.file}", sha256=plan.entry.sha256),
        amendments=[entry.sha256 for entry, _ in plan.in_force(started)],
        files=records,
        model=_model(repo / "build" / profile, plan, profile, measurements),
        measurements={
            name: measurement_record(m, source / name) for name, m in measurements.items()
        },
        started_utc=started.isoformat(),
        ended_utc=ended.isoformat(),
        verdict=verdict_record(verdict),
    )
    if (committed := destination.parent / ADAPTERS).is_dir():
        check_used(load_adapter_manifest(committed), manifest.model, measurements, source)
    copy_evidence(source, destination, manifest)
    return destination


def check_absent(destination: Path, action: str) -> None:
    """Evidence is never overwritten: raise `UserError` where some is."""
    if destination.exists():
        raise UserError(destination, "folder", "evidence", "none yet", action)


def check_repository(repo: Path) -> None:
    """Raise `UserError` unless it is a clean tree with its whole history."""
    try:
        changed = git.git(repo, "status", "--porcelain", "--untracked-files=normal").split("\n")[0]
        history.require_history(repo)
    except (git.GitUnavailable, history.Untold) as error:
        raise UserError(repo, "repository", error, "a clone with its history") from None
    if changed:
        raise UserError(
            repo, "working tree", f"a change ({changed.strip()})", "none", "Commit it first"
        )


def _check_measurements(
    repo: Path, plan: Registered, measurements: Mapping[str, Measurement], source: Path
) -> None:
    for name, measurement in measurements.items():
        evidence.check_clean_and_later(plan, measurement, source / name)
        try:
            history.check_code(repo, plan.entry, measurement.provenance.git_sha, source / name)
        except history.Untold as untold:
            raise UserError(plan.path, "commit", untold.why, "a committed plan") from None


def _model(
    build: Path, plan: Registered, profile: str, measurements: Mapping[str, Measurement]
) -> ModelRecord:
    """Hashes of the target and the adapters that the metadata name."""
    first = next(iter(measurements.values()))
    started, _ = span(measurements.values())
    found = recorded_fingerprint(build / "target")
    if found != first.target_fingerprint:
        expected = f"{first.target_fingerprint}, which was measured"
        raise UserError(record_file(build / "target"), "fingerprint", found, expected)
    hashes = _hashes(build, [*(build / "target").iterdir(), *build.glob("adapters/*/*")])
    for name, measurement in measurements.items():
        for used in (measurement.adapter_sha256, measurement.shuffled_adapter_sha256):
            if used is not None and used not in hashes.values():
                raise UserError(build / "adapters", name, "no adapter of that hash", used)
    return ModelRecord(
        target=plan.expected(started).models[profile].target,
        revision=first.target_revision,
        fingerprint=first.target_fingerprint,
        files=hashes,
    )


def _hashes(build: Path, paths: list[Path]) -> dict[str, str]:
    return {
        path.relative_to(build).as_posix(): files.sha256_file(path)
        for path in sorted(paths)
        if path.is_file() and not path.name.startswith(".")
    }


def copy_evidence(source: Path, destination: Path, manifest: Manifest | AdapterManifest) -> None:
    """Copy the files of a manifest and write it, all or nothing; `UserError` if one changes."""
    # Beside the source, which is no evidence: what a kill leaves there is not read as any.
    temporary = source.with_name(f".{source.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        for name, record in manifest.files.items():
            (temporary / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, temporary / name)
            if files.sha256_file(temporary / name) != record.sha256:
                raise UserError(source / name, "sha256", "a change", "a file at rest")
        files.write_json(temporary / MANIFEST, manifest.model_dump(mode="json"))
        destination.parent.mkdir(parents=True, exist_ok=True)
        temporary.rename(destination)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
