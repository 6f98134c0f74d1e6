"""Before a measurement: are profile, target, workload and adapter those of the plan?"""

from collections.abc import Mapping
from pathlib import Path

from diffdraft import files
from diffdraft.config import Profile
from diffdraft.errors import UserError
from diffdraft.measure.workloads import Workload, load_workload
from diffdraft.prereg.schema import DecodingSample, Plan, PromptSample
from diffdraft.profile_digest import profile_digest
from diffdraft.target_record import recorded_fingerprint, recorded_revision
from diffdraft.training.stated import check_stated

OTHER = "What changed needs a plan of its own or an amendment"


def check_profile(plan: Plan, profile: Profile, file: Path) -> str:
    """The profile's digest; `UserError` if the plan pins another."""
    found = profile_digest(profile)
    model = plan.models.get(profile.name)
    check_pin(file, "profile_sha256", found, model.profile_sha256 if model else None)
    return found


def check_target(plan: Plan, profile: str, folder: Path) -> str | None:
    """The target's revision, if known; `UserError` if its record is not what the plan pins."""
    model, found = plan.models.get(profile), recorded_revision(folder)
    if model is not None and model.fingerprint is not None:
        check_pin(folder, "fingerprint", recorded_fingerprint(folder), model.fingerprint)
    check_pin(folder, "revision", found, model.revision if model else None)
    return found


def check_pin(file: Path, field: str, found: str | None, planned: str | None) -> None:
    """Refuse what differs from what the plan pins, if it does."""
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
    if stated not in adapters:
        expected = arm or " or ".join(adapters)
        raise UserError(file, "metadata.arm", stated, expected, "It is another adapter")
    described = check_stated(file, metadata, arm or stated, adapters[stated])
    size = adapters[stated].block_size
    for planned in plan.arms:
        if planned.id == stated and planned.trained_block_size not in (None, size):
            expected = f"{planned.trained_block_size}, as in the plan"
            raise UserError(file, "metadata.block_size", size, expected)
    return described
