"""How much memory and time the steps of a hub profile take, from published figures."""

from collections.abc import Collection, Iterator
from pathlib import Path

from diffdraft.config import HubTarget, Profile, of_kind
from diffdraft.config_adapters import AdapterSettings
from diffdraft.config_hub import BYTES
from diffdraft.errors import UserError
from diffdraft.prereg.adapter_evidence import SHUFFLED
from diffdraft.prereg.amendments import load_amended_plan
from diffdraft.prereg.schema import DecodingSample, Plan
from diffdraft.studies.act4s.design import designs

GB = 1e9
# Whose sample an estimate takes where a plan has none of the profile.
PLANNED = "tiny"


def memory(target: HubTarget) -> Iterator[str]:
    """What each kind of step takes; where nothing is published, what it holds at least."""
    published, both = target.published, target.parameters * sum(BYTES.values())
    peak = f"{published.peak_bytes / GB:.1f} GB at the peak"
    yield f"decoding in {target.dtype}: {peak}, as published ({published.machine})"
    said = f"of weights in {' and '.join(BYTES)}, loaded together, and what decoding adds"
    yield f"runs precision and cost of act4s: {both / GB:.1f} GB {said}"
    # The drafter in float32, its gradient and two moments are as large as its file each.
    least = target.weight_bytes + 4 * target.drafter.bytes
    said = "of weights, drafter, gradient and moments, and the activations of a step"
    yield f"training: {least / GB:.1f} GB {said}; no peak is published"


def times(profile: Profile, prereg: Path, trained: Collection[str]) -> Iterator[str]:
    """What each long step takes; `trained` are the adapters that are not given."""
    rates = of_kind(HubTarget, profile.target, "target").published
    speed = f"{rates.native_tokens_per_second} tokens/s, {rates.drafted_tokens_per_second} drafted"
    yield f"estimated from the published rates ({rates.machine}: {speed}); here it may differ much"
    for tag, settings in profile.adapters.items():
        if tag in trained:
            yield f"training {tag}: {_training(settings, rates.training_seconds_per_step)}"
    if SHUFFLED in trained:
        control = _training(profile.adapters["primary"], rates.training_seconds_per_step)
        yield f"training the shuffled control of act4s: {control}"
    yield f"position tables of rprm: {_hours(rates.extraction_seconds)} an adapter"
    try:
        plan = load_amended_plan(prereg / "act4s.yaml")
        told = _decoding(profile.name, plan, rates.native_tokens_per_second)
    except UserError as error:
        told = f"not estimated: {error}"
    yield f"decoding of act4s: {told}"


def _training(settings: AdapterSettings, seconds: float) -> str:
    steps = settings.optimiser.steps
    return f"{_hours(steps * seconds)} ({steps:,} steps of {seconds} s)"


def _decoding(profile: str, plan: Plan, rate: float) -> str:
    name = profile if profile in plan.samples else PLANNED
    tokens = generated(plan.sample_of(DecodingSample, name, "act4s"))
    assumed = "" if name == profile else f", were its sample that of {name}"
    return f"{_hours(tokens / rate)} ({tokens:,} tokens at {rate} a second{assumed})"


def generated(sample: DecodingSample) -> int:
    """Tokens that all runs of Act IV-S generate, warm-ups left out."""
    total = 0
    for name, run in designs(sample).items():
        prompts = sample.context.passages if name == "context" else sample.prompts
        rounds = prompts * run.repeats * len(run.contexts) * max(len(run.dtypes), 1)
        total += rounds * len(run.arms) * sum(run.max_tokens)
    return total


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
