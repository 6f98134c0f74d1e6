"""Trained adapters as evidence: `results/PROFILE/adapters/TAG`, and the manifest beside them.

They are committed so that decoding is measured again without training again. No plan stands over
them: what a study used is in its own manifest, by hash. Promotion and audit share what is here.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from diffdraft import files
from diffdraft.config import TAGS
from diffdraft.errors import UserError
from diffdraft.prereg.criteria import Strict
from diffdraft.prereg.ledger import Digest
from diffdraft.prereg.manifest import MANIFEST, MeasurementRecord, Origin, origin_record
from diffdraft.prereg.reading import fit
from diffdraft.weight_files import read_header, read_metadata

ADAPTERS = "adapters"  # the folder, in build/PROFILE and in results/PROFILE
SHUFFLED = "primary_shuffled"  # the control of act4s
ADAPTER_TAGS = (*TAGS, SHUFFLED)
ADAPTER, LOG, RECORD = "adapter.safetensors", "training.csv", "training.json"
MAX_BYTES = 16_000_000  # of a file: every clone carries it for ever
IN_THE_FILE = ("arm", "block_size", "step", "seed", "config_hash", "target_fingerprint")


class Training(BaseModel):
    """`training.json` of an adapter. It may say more than what is checked."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    arm: str
    block_size: int
    step: int
    seed: int
    config_hash: Digest
    target_fingerprint: Digest
    sha256: Digest
    profile: str
    profile_sha256: Digest
    provenance: Origin


class StoredFile(Strict):
    sha256: Digest
    bytes: int


class AdapterRecord(Strict):
    """One adapter: what it is, what it belongs to, and how it was trained."""

    block_size: int
    steps: int
    seed: int
    config_hash: Digest
    target_fingerprint: Digest
    training: MeasurementRecord


class AdapterManifest(Strict):
    """Files by their path in the folder, adapters by tag."""

    profile: str
    profile_sha256: Digest
    files: dict[str, StoredFile]
    adapters: dict[str, AdapterRecord]


def load_adapter_manifest(folder: Path) -> AdapterManifest:
    """The manifest of a folder of adapters. Raises `UserError` if it is none."""
    return fit(AdapterManifest, files.read_json(folder / MANIFEST), folder / MANIFEST)


def load_trainings(folder: Path) -> dict[str, Training]:
    """`training.json` of every adapter in a folder, by tag.

    Raises `UserError` unless all are there, since none can be added later; for a file that is
    missing, cut, too large or not the one that was trained; and for adapters of two profiles,
    targets or commits.
    """
    if missing := [tag for tag in ADAPTER_TAGS if not (folder / tag).is_dir()]:
        every = f"all of {', '.join(ADAPTER_TAGS)}"
        raise UserError(folder, "adapters", f"no {', no '.join(missing)}", every)
    trainings = {tag: _training(folder / tag, tag) for tag in ADAPTER_TAGS}
    first = trainings[ADAPTER_TAGS[0]]
    for tag, training in trainings.items():
        for field in ("profile", "profile_sha256", "target_fingerprint"):
            _same(folder / tag, field, getattr(training, field), getattr(first, field), first.arm)
        commit, expected = training.provenance.git_sha, first.provenance.git_sha
        _same(folder / tag, "provenance.git_sha", commit, expected, first.arm)
    return trainings


def adapter_manifest(folder: Path) -> AdapterManifest:
    """What the manifest of a folder has to say. Raises `UserError` as `load_trainings` does."""
    trainings = load_trainings(folder)
    first = next(iter(trainings.values()))
    names = [f"{tag}/{name}" for tag in trainings for name in (ADAPTER, LOG, RECORD)]
    return AdapterManifest(
        profile=first.profile,
        profile_sha256=first.profile_sha256,
        files={name: _stored(folder / name) for name in names},
        adapters={
            tag: AdapterRecord(
                block_size=training.block_size,
                steps=training.step,
                seed=training.seed,
                config_hash=training.config_hash,
                target_fingerprint=training.target_fingerprint,
                training=origin_record(training.provenance, folder / tag / RECORD),
            )
            for tag, training in trainings.items()
        },
    )


def _training(folder: Path, tag: str) -> Training:
    for name in (ADAPTER, LOG, RECORD):
        _stored(folder / name)
    training = fit(Training, files.read_json(folder / RECORD), folder / RECORD)
    if training.arm != tag:
        raise UserError(folder / RECORD, "arm", training.arm, f"{tag}, as the folder is called")
    _check_adapter(folder / ADAPTER, training)
    steps = len(files.read_text(folder / LOG).splitlines()) - 1
    if steps != training.step:
        raise UserError(folder / LOG, "rows", steps, f"{training.step}, one a step")
    return training


def _check_adapter(path: Path, training: Training) -> None:
    """A whole file, with the bytes that were written and the words of its record."""
    read_header(path)
    if (found := files.sha256_file(path)) != training.sha256:
        raise UserError(path, "sha256", found, f"{training.sha256}, as trained ({RECORD})")
    stated = read_metadata(path)
    for field in IN_THE_FILE:
        recorded = str(getattr(training, field))
        if stated.get(field) != recorded:
            raise UserError(path, f"metadata.{field}", stated.get(field), f"{recorded} ({RECORD})")


def _stored(path: Path) -> StoredFile:
    if not path.is_file():
        raise UserError(path, "file", "nothing there", f"{ADAPTER}, {LOG} and {RECORD}")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise UserError(path, "bytes", size, f"at most {MAX_BYTES}, which a repository can carry")
    return StoredFile(sha256=files.sha256_file(path), bytes=size)


def _same(folder: Path, field: str, found: object, first: object, tag: str) -> None:
    if found != first:
        raise UserError(folder / RECORD, field, found, f"{first}, as in {tag}")
