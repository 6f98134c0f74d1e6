"""The measurement of the study `paired_timing`: from a plan to its two row files."""

from pathlib import Path
from typing import Any

import pandas as pd

from diffdraft import files, provenance, rows
from diffdraft.code_digest import code_digest
from diffdraft.config import load_profile
from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.decoding.trace import Trace
from diffdraft.drafters.uno import UnoDrafter
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import load_adapter, read_adapter
from diffdraft.layers.lora import Adapter
from diffdraft.layers.walk import text_model
from diffdraft.measure.planned import check_adapter, check_profile, check_target, planned_workload
from diffdraft.measure.shards import Shards
from diffdraft.measure.timing import Arm, Protocol, time_prompt
from diffdraft.measure.workloads import EncodedPrompt, encode_workload
from diffdraft.prereg.amendments import load_amended_plan
from diffdraft.prereg.schema import Plan, PromptSample
from diffdraft.targets.load import Target, load_target

NOISE_SEED = "draft_noise"
SCRIPT = Path(__file__).parents[2] / "time_paired.py"


def measure(
    profile_file: Path,
    plan_file: Path,
    workload_file: Path,
    target_folder: Path,
    adapter_file: Path,
    timing_file: Path,
    cycles_file: Path,
    meta_file: Path,
    work: Path,
) -> None:
    """Time every prompt of a workload in every arm of the plan.

    Prompts that an interrupted run left in `work` are not timed again, if plan, target, adapter,
    workload and code are still the same.

    Raises:
        UserError: a plan without this profile or with an unknown arm, a profile, workload or
            adapter other than planned, or a target or prompt that does not fit.
    """
    profile, plan = load_profile(profile_file), load_amended_plan(plan_file)
    sample = plan.sample_of(PromptSample, profile.name, plan_file)
    profile_sha256 = check_profile(plan, profile, profile_file)
    revision = check_target(plan, profile.name, target_folder)
    workload = planned_workload(workload_file, sample)
    target = load_target(target_folder)
    adapter = load_adapter(target.model, target.fingerprint, adapter_file)
    described = check_adapter(adapter_file, read_adapter(adapter_file)[1], profile, plan)
    context = text_model(target.model).args.max_position_embeddings
    prompts = encode_workload(workload, target.tokenizer, sample.tokens, context)
    arms = build_arms(plan, sample, target, adapter, plan_file)
    identity = {
        "profile": profile.name,
        "profile_sha256": profile_sha256,
        "plan_sha256": plan.sha256,
        "workload": workload.name,
        "workload_sha256": files.sha256_file(workload_file),
        "target_fingerprint": target.fingerprint,
        "target_revision": revision,
        "adapter_sha256": files.sha256_file(adapter_file),
        "samples": sample.model_dump(),
        "seeds": plan.seeds,
        "code": code_digest(SCRIPT),
        "packages": provenance.package_versions(),
    }
    shards = Shards(work, identity, plan_file)
    timing, cycles = run(
        prompts, arms, Protocol(sample.abba_blocks, sample.max_load_before), shards
    )
    target.check_unchanged()
    rows.write_rows(cycles_file, frame(cycles, "cycles"), "cycles")
    rows.write_rows(timing_file, frame(timing, "timing"), "timing")
    meta = {"study": plan.study, "arms": [arm.name for arm in arms], **identity}
    meta["adapter"] = described
    meta["rows"] = {file.name: files.sha256_file(file) for file in (timing_file, cycles_file)}
    files.write_json(meta_file, {**meta, "provenance": provenance.collect(shards.start, plan_file)})


def run(
    prompts: list[EncodedPrompt], arms: list[Arm], protocol: Protocol, shards: Shards
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Timing rows and cycle rows of all prompts, in the order of the suite."""

    def piece(place: int) -> dict[str, Any]:
        timing, cycles = time_prompt(prompts[place], place, arms, protocol)
        return {"timing": timing, "cycles": cycles}

    pieces = shards.collect([prompt.id for prompt in prompts], piece, "prompt")
    return (
        [row for piece in pieces for row in piece["timing"]],
        [row for piece in pieces for row in piece["cycles"]],
    )


def frame(records: list[dict[str, Any]], schema_name: str) -> pd.DataFrame:
    """Records as a table with the columns of a row schema, in its order."""
    return pd.DataFrame.from_records(records, columns=rows.columns(schema_name))


def build_arms(
    plan: Plan, sample: PromptSample, target: Target, adapter: Adapter, plan_file: Path
) -> list[Arm]:
    """The decoders of the plan's arms, in the plan's order.

    Each prompt has draft noise of its own, the same in every repeat.
    """

    def native(prompt: EncodedPrompt, index: int) -> Trace:
        return parts(None, prompt)

    def uno(prompt: EncodedPrompt, index: int) -> Trace:
        return parts(UnoDrafter(target, adapter, plan.seeds[NOISE_SEED] + index), prompt)

    def parts(drafter: UnoDrafter | None, prompt: EncodedPrompt) -> Trace:
        policy = FixedBlock(sample.block_size)
        return decode(target, drafter, GreedyAcceptance(), policy, prompt.ids, sample.tokens)

    known = {"ar": native, f"uno_k{sample.block_size}": uno}
    for arm in plan.arms:
        if arm.id not in known:
            raise UserError(plan_file, "arms", arm.id, f"arms out of {', '.join(known)}")
    if NOISE_SEED not in plan.seeds:
        raise UserError(plan_file, f"seeds.{NOISE_SEED}", "nothing", "a seed")
    return [Arm(arm.id, known[arm.id]) for arm in plan.arms]
