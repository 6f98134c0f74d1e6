"""`MANIFEST.json`: what every file of a study's evidence is, and how it was measured."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.criteria import Strict
from diffdraft.prereg.ledger import Digest
from diffdraft.prereg.reading import fit
from diffdraft.prereg.registry import Study
from diffdraft.prereg.verdict import Carried, Verdict
from diffdraft.rows import read_rows

MANIFEST = "MANIFEST.json"
VERDICT = "verdict.json"
ENVIRONMENT = ("python", "packages", "blas", "blas_threads")

Time = Annotated[AwareDatetime, Field(strict=False)]
Commit = Annotated[str, Field(pattern="^[0-9a-f]{40,64}$")]


class PlanOf(Strict):
    file: str
    sha256: Digest


class Start(Strict):
    """Code and plan when the first row was measured."""

    git_sha: Commit | None
    git_dirty: bool | None
    plan_sha256: Digest | None


class Origin(BaseModel):
    """What `diffdraft.provenance.collect` gives, as far as evidence depends on it."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    git_sha: Commit | None
    git_dirty: bool | None
    started_utc: Time
    ended_utc: Time
    start: Start


class Provenance(Origin):
    """That of a measurement, which keeps to a plan."""

    plan: PlanOf


class AdapterOf(Strict):
    """What an adapter file says of itself, in its words."""

    arm: str
    block_size: str
    step: str
    seed: str


class Measurement(BaseModel):
    """The metadata file of a measurement. It may say more than what is checked."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    study: str
    profile: str
    plan_sha256: Digest
    target_fingerprint: str
    target_revision: str | None = None
    adapter_sha256: Digest
    adapter: AdapterOf
    shuffled_adapter_sha256: Digest | None = None
    tag: str | None = None
    profile_sha256: Digest
    workload_sha256: Digest | None = None
    rows: dict[str, Digest]
    student_ids_sha256: Digest | None = None
    seeds: dict[str, int]
    samples: dict[str, Any]
    provenance: Provenance


class FileRecord(Strict):
    """`rows` and `schema_name` are null for a file that is no table."""

    sha256: Digest
    bytes: int
    rows: int | None
    schema_name: str | None


class Code(Strict):
    commit: Commit
    dirty: bool


class MeasurementRecord(Strict):
    """One metadata file in the manifest: code, environment, hardware, times."""

    code: Code
    environment: dict[str, Any]
    hardware: dict[str, Any]
    started_utc: str
    ended_utc: str


class ModelRecord(Strict):
    """The target, and the hashes of its files and of the adapters, by path under build/PROFILE."""

    target: str
    revision: str | None
    fingerprint: str
    files: dict[str, Digest]


class VerdictRecord(Strict):
    carried: Carried
    scopes: dict[str, str]


class Manifest(Strict):
    study: str
    profile: str
    plan: PlanOf
    amendments: list[Digest]
    files: dict[str, FileRecord]
    model: ModelRecord
    measurements: dict[str, MeasurementRecord]
    started_utc: str
    ended_utc: str
    verdict: VerdictRecord


def load_manifest(folder: Path) -> Manifest:
    """The manifest of a folder of evidence. Raises `UserError` if it is none."""
    path = folder / MANIFEST
    return fit(Manifest, files.read_json(path), path)


def load_measurements(folder: Path, study: Study) -> dict[str, Measurement]:
    """The metadata files of a study by name. Raises `UserError` at one that says too little."""
    names = sorted(set(study.metas.values()))
    return {name: fit(Measurement, files.read_json(folder / name), folder / name) for name in names}


def file_record(path: Path, schema: str | None) -> FileRecord:
    """Hash, size and rows of a file; a table that does not fit its schema is a `UserError`."""
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "a complete set of files")
    rows = len(read_rows(path, schema)) if schema else None
    digest, size = files.sha256_file(path), path.stat().st_size
    return FileRecord(sha256=digest, bytes=size, rows=rows, schema_name=schema)


def file_records(folder: Path, study: Study) -> dict[str, FileRecord]:
    """Records of all measured files and of the verdict."""
    return {
        name: file_record(folder / name, study.rows.get(name)) for name in [*study.files(), VERDICT]
    }


def measurement_record(measurement: Measurement, file: object) -> MeasurementRecord:
    """What the manifest takes over from a metadata file, which must name its code."""
    return origin_record(measurement.provenance, file)


def origin_record(origin: Origin, file: object) -> MeasurementRecord:
    """Code, environment, hardware and times. Raises `UserError` where the code is not named."""
    source = origin.model_dump(mode="json")
    for name in ("git_sha", "git_dirty"):
        if source[name] is None:
            raise UserError(file, f"provenance.{name}", "null", "code in a repository")
    return MeasurementRecord(
        code=Code(commit=source["git_sha"], dirty=source["git_dirty"]),
        environment={key: source.get(key) for key in ENVIRONMENT},
        hardware={key: source.get(key) for key in ("platform", "cpu", "cores", "memory_bytes")},
        started_utc=source["started_utc"],
        ended_utc=source["ended_utc"],
    )


def span(measurements: Iterable[Measurement]) -> tuple[datetime, datetime]:
    """When the first measurement began and the last one ended."""
    provenances = [measurement.provenance for measurement in measurements]
    return (
        min(provenance.started_utc for provenance in provenances),
        max(provenance.ended_utc for provenance in provenances),
    )


def verdict_record(verdict: Verdict) -> VerdictRecord:
    scopes = {name: scope.verdict for name, scope in verdict.scopes.items()}
    return VerdictRecord(carried=verdict.carried, scopes=scopes)
