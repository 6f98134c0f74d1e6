"""What an adapter file says of itself, held to the settings that it should be of."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from diffdraft.config_adapters import AdapterSettings
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import read_spec
from diffdraft.training.adapter import adapter_spec


def check_stated(
    file: Path, metadata: Mapping[str, str], arm: str, settings: AdapterSettings
) -> dict[str, str]:
    """Arm, block size, step and seed that the file states.

    Raises `UserError` naming the first field, of these or of its shape, that is another.
    """
    if metadata["arm"] != arm:
        raise UserError(file, "metadata.arm", metadata["arm"], arm, "It is another adapter")
    described = {
        "arm": arm,
        "block_size": str(settings.block_size),
        "step": str(settings.optimiser.steps),
        "seed": str(settings.optimiser.seed),
    }
    for name, expected in described.items():
        _same(file, name, metadata[name], expected)
    found = asdict(read_spec(file, metadata))
    for name, value in asdict(adapter_spec(settings)).items():
        _same(file, f"spec.{name}", found[name], value)
    return described


def _same(file: Path, field: str, found: object, expected: object) -> None:
    if found != expected:
        raise UserError(file, f"metadata.{field}", found, f"{expected}, as in the profile")
