"""Take a committed adapter in place of training one: the bytes of the manifest, or nothing."""

import shutil
from pathlib import Path

from diffdraft import files
from diffdraft.config import Profile
from diffdraft.errors import UserError
from diffdraft.prereg.adapter_evidence import (
    ADAPTER,
    LOG,
    RECORD,
    AdapterManifest,
    load_adapter_manifest,
)
from diffdraft.prereg.manifest import MANIFEST
from diffdraft.profile_digest import profile_digest
from diffdraft.target_record import recorded_fingerprint

RETRAIN = "--config adapter=train trains one here"


def take_adapter(profile: Profile, tag: str, evidence: Path, target: Path, out: Path) -> None:
    """Copy the files of the adapter `tag` from the folder `evidence` to `out`, the adapter last.

    Raises `UserError` for evidence without that adapter, of another profile, for another target
    than the one in the model folder `target`, and for a file that is not the manifest's.
    """
    manifest = load_adapter_manifest(evidence)
    _check(manifest, profile, tag, recorded_fingerprint(target), evidence / MANIFEST)
    for name in (LOG, RECORD, ADAPTER):
        _copy(evidence, f"{tag}/{name}", manifest, out / name)


def _check(
    manifest: AdapterManifest, profile: Profile, tag: str, fingerprint: str, path: Path
) -> None:
    if tag not in manifest.adapters:
        found = ", ".join(manifest.adapters)
        raise UserError(path, "adapters", found, f"{tag} among them", RETRAIN)
    adapter = manifest.adapters[tag]
    for field, found, expected in (
        ("profile", manifest.profile, profile.name),
        ("profile_sha256", manifest.profile_sha256, f"{profile_digest(profile)}"),
        (f"adapters.{tag}.target_fingerprint", adapter.target_fingerprint, fingerprint),
    ):
        if found != expected:
            raise UserError(path, field, found, expected, RETRAIN)


def _copy(evidence: Path, name: str, manifest: AdapterManifest, to: Path) -> None:
    source = evidence / name
    if name not in manifest.files or not source.is_file():
        raise UserError(source, "file", "nothing there", "a file of the manifest")
    with files.atomic(to) as temporary:
        shutil.copyfile(source, temporary)
        found, expected = files.sha256_file(temporary), manifest.files[name].sha256
        if found != expected:
            raise UserError(source, "sha256", found, f"{expected}, as in {MANIFEST}")
