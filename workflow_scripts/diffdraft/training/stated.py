"""What an adapter file says of itself, held to the settings that it should be of."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diffdraft.config_adapters import AdapterSettings
from diffdraft.errors import UserError
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
    spec = {**asdict(adapter_spec(settings)), "placement": list(settings.placement)}
    found = json.loads(metadata["spec"])
    pairs: list[tuple[str, Any, Any]] = [
        (name, metadata[name], value) for name, value in described.items()
    ]
    pairs += [(f"spec.{name}", found.get(name), value) for name, value in spec.items()]
    pairs += [(f"spec.{name}", value, None) for name, value in found.items() if name not in spec]
    for name, value, expected in pairs:
        if value != expected:
            raise UserError(file, f"metadata.{name}", value, f"{expected}, as in the profile")
    return described
