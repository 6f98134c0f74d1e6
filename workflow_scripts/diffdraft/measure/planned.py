"""Before a measurement: are profile, workload and adapter those of the plan?"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from diffdraft import files
from diffdraft.config import Profile
from diffdraft.errors import UserError
from diffdraft.measure.workloads import Workload, load_workload
from diffdraft.prereg.schema import DecodingSample, Plan, PromptSample
from diffdraft.profile_digest import profile_digest
from diffdraft.training.adapter import adapter_spec

OTHER = "What changed needs a plan of its own or an amendment"


def check_profile(plan: Plan, profile: Profile, file: Path) -> str:
    """The profile's digest; `UserError` if the plan pins another."""
    found = profile_digest(profile)
    model = plan.models.get(profile.name)
    check_pin(file, "profile_sha256", found, model.profile_sha256 if model else None)
    return found


def check_pin(file: Path, field: str, found: str, planned: str | None) -> None:
    """Refuse what differs from a digest that the plan gives."""
    if planned is not None and found != planned:
        raise UserError(file, field, found, f"{planned}, as planned", OTHER)


def planned_workload(file: Path, sample: PromptSample | DecodingSample) -> Workload:
    """The suite of prompts; `UserError` if it is not the planned one."""
    workload = load_workload(file)
    check_pin(file, "workload_sha256", files.sha256_file(file), sample.workload_sha256)
    found = (len(workload.prompts), len({prompt.category for prompt in workload.prompts}))
    planned = (sample.prompts, sample.categories)
    if found != planned:
        words = "{} prompts in {} categories"
        expected = f"{words.format(*planned)}, as planned"
        raise UserError(file, "prompts", words.format(*found), expected)
    return workload


def check_adapter(
    file: Path, metadata: Mapping[str, str], profile: Profile, plan: Plan, arm: str | None = None
) -> dict[str, str]:
    """What an adapter file says of itself: arm, block size, step and seed.

    Raises `UserError` naming the first field that is not what the profile's adapter of this arm
    has, or the plan's arm; without `arm` it is the one that the file names.
    """
    adapters = {str(name): settings for name, settings in profile.adapters.items()}
    stated = metadata["arm"]
    if stated not in adapters or (arm is not None and stated != arm):
        expected = arm or " or ".join(adapters)
        raise UserError(file, "metadata.arm", stated, expected, "It is another adapter")
    settings = adapters[stated]
    described = {
        "arm": stated,
        "block_size": str(settings.block_size),
        "step": str(settings.optimiser.steps),
        "seed": str(settings.optimiser.seed),
    }
    for name, value in described.items():
        _same(file, f"metadata.{name}", metadata[name], value)
    spec = {**asdict(adapter_spec(settings)), "placement": list(settings.placement)}
    found = json.loads(metadata["spec"])
    for name in (*spec, *(key for key in found if key not in spec)):
        _same(file, f"metadata.spec.{name}", found.get(name), spec.get(name))
    for planned in plan.arms:
        if planned.id == stated and planned.trained_block_size is not None:
            _same(file, "metadata.block_size", settings.block_size, planned.trained_block_size)
    return described


def _same(file: Path, field: str, found: object, expected: object) -> None:
    if found != expected:
        raise UserError(file, field, found, f"{expected}, as in the profile and plan")
