"""Committed adapters and the studies of their profile: none was measured with another adapter."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from diffdraft.errors import UserError
from diffdraft.prereg.adapter_evidence import ADAPTER, ADAPTERS, SHUFFLED, AdapterManifest
from diffdraft.prereg.manifest import Measurement, ModelRecord


def check_used(
    adapters: AdapterManifest,
    model: ModelRecord,
    measurements: Mapping[str, Measurement],
    folder: Path,
) -> str:
    """Check the adapters that a study names, by tag and hash, against the committed ones.

    `folder` has the study's metadata. Raises `UserError` for a measurement with another adapter
    than that of its tag, and for another one among the files of the model that lay there.
    """
    names = {tag: f"{tag}/{ADAPTER}" for tag in adapters.adapters}
    stored = adapters.files
    committed = {tag: stored[name].sha256 for tag, name in names.items() if name in stored}
    used: dict[str, None] = {}
    for name, measurement in measurements.items():
        for field, tag, digest in _named(measurement):
            _same(folder / name, field, digest, tag, committed)
            used[tag] = None
    for tag in committed:
        path = f"{ADAPTERS}/{tag}/{ADAPTER}"
        if path in model.files:
            _same(folder, f"model.files.{path}", model.files[path], tag, committed)
    return f"{', '.join(used)}: those of results/{folder.parent.name}/{ADAPTERS}"


def _named(measurement: Measurement) -> Iterator[tuple[str, str, str]]:
    """Field, tag and hash of each adapter that the metadata names."""
    yield "adapter_sha256", measurement.adapter.arm, measurement.adapter_sha256
    if measurement.shuffled_adapter_sha256 is not None:
        yield "shuffled_adapter_sha256", SHUFFLED, measurement.shuffled_adapter_sha256


def _same(file: Path, field: str, found: str, tag: str, committed: Mapping[str, str]) -> None:
    if tag not in committed:
        raise UserError(file, field, f"an adapter {tag}", f"one of {', '.join(committed)}")
    if found != committed[tag]:
        expected = f"{committed[tag]}, the committed {tag}"
        raise UserError(file, field, found, expected)
