"""From an arm's name to the decoder that it stands for.

| name | decoder |
|---|---|
| ar | native greedy decoding |
| uno_k4, uno_k4_again | the trained drafter, block size 4 |
| refine2_k4 | the same in two draft passes |
| ngram3_k4 | lookup of the last three tokens |
| untrained_k4, shuffled_k4 | the drafter with weights that have learned nothing of use |
| random_k4 | random proposals |
| conf_k4 | the trained drafter, its confidence recorded |
| adapt_entropy, adapt_survival, adapt_survival_repaired, adapt_ev | widths chosen before a draft |
| adapt_confidence | a wide draft, and as much of it verified as it is sure of |
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.adaptive import EntropyPolicy, ExpectedValuePolicy, SurvivalPolicy
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock, Policy
from diffdraft.decoding.search import ConfidentPrefix, Search, WholeBlock
from diffdraft.decoding.trace import Trace
from diffdraft.drafters.base import Drafter
from diffdraft.drafters.controls import RandomDrafter
from diffdraft.drafters.ngram import NgramDrafter
from diffdraft.drafters.uno import UnoDrafter
from diffdraft.errors import UserError
from diffdraft.measure.speculative.bench import Bench, Weights
from diffdraft.measure.workloads import EncodedPrompt
from diffdraft.prereg.schema import WidthPolicies

FIXED = re.compile(
    r"(?P<family>uno|refine|ngram|untrained|shuffled|random|conf)(?P<number>\d*)"
    r"_k(?P<size>\d+)(_again)?"
)
NUMBERED = ("refine", "ngram")
KINDS = {"conf": "confidence"}
ADAPTIVE = ("adapt_entropy", "adapt_survival", "adapt_survival_repaired", "adapt_ev")
CONFIDENT = "adapt_confidence"


@dataclass(frozen=True)
class Arm:
    """A decoder under a name. `decode(prompt, its place in the suite, new tokens)` runs it once.

    `block_size` is 0 for native decoding, and the largest allowed where it is chosen on the way.
    """

    id: str
    kind: str
    block_size: int
    decode: Callable[[EncodedPrompt, int, int], Trace]


@dataclass(frozen=True)
class Settings:
    """Seeds and constants of the arms. Each prompt has noise of its own, the same in all arms."""

    policies: WidthPolicies
    noise_seed: int
    random_seed: int
    cost_ms: Mapping[int, float] = field(default_factory=dict)


class Parts(NamedTuple):
    """What one generation is decoded with; drafters and policies serve one generation only."""

    drafter: Drafter | None
    policy: Policy
    search: Search = WholeBlock()


def block_size_of(name: str, policies: WidthPolicies) -> int:
    """The largest block of an arm; 0 for native decoding."""
    if name in ADAPTIVE:
        return max(policies.allowed)
    if name == CONFIDENT:
        return policies.confidence_block
    found = FIXED.fullmatch(name)
    return int(found["size"]) if found else 0


def build_arm(name: str, bench: Bench, settings: Settings) -> Arm:
    """The decoder of this name on a bench.

    Raises `UserError` for a name that is not in the table above.
    """
    if name == "ar":
        return _arm(name, "ar", 0, bench, lambda place: Parts(None, FixedBlock(1)))
    if name in ADAPTIVE:
        return _adaptive(name, bench, settings)
    if name == CONFIDENT:
        return _confident(bench, settings)
    found = FIXED.fullmatch(name)
    if found is None or bool(found["number"]) != (found["family"] in NUMBERED):
        raise UserError("arms", name, "an unknown arm", "ar, a name such as uno_k4, or adapt_ev")
    return _fixed(name, found["family"], found["number"], int(found["size"]), bench, settings)


def _fixed(name: str, family: str, number: str, size: int, bench: Bench, settings: Settings) -> Arm:
    policy = FixedBlock(size)
    drafters: dict[str, Callable[[int], Drafter]] = {
        "refine": lambda place: _uno(bench, settings, place, passes=int(number)),
        "ngram": lambda place: NgramDrafter(int(number)),
        "random": lambda place: RandomDrafter(
            bench.target.noise_high, settings.random_seed + place
        ),
        "conf": lambda place: _uno(bench, settings, place, confidence=True),
    }
    make = drafters.get(family, lambda place: _uno(bench, settings, place))
    weights: dict[str, Weights] = {"untrained": "untrained", "shuffled": "shuffled"}
    return _arm(
        name,
        KINDS.get(family, family),
        size,
        bench,
        lambda place: Parts(make(place), policy),
        weights.get(family, "trained"),
    )


def _adaptive(name: str, bench: Bench, settings: Settings) -> Arm:
    own = settings.policies

    def survival(repaired: bool) -> Policy:
        return SurvivalPolicy(own.allowed, own.survival_decay, own.survival_start, repaired)

    policies: dict[str, Callable[[], Policy]] = {
        "adapt_entropy": lambda: EntropyPolicy(
            own.allowed, own.default, own.entropy_low, own.entropy_high
        ),
        "adapt_survival": lambda: survival(repaired=False),
        "adapt_survival_repaired": lambda: survival(repaired=True),
        "adapt_ev": lambda: ExpectedValuePolicy(
            own.allowed,
            own.default,
            own.value_decay,
            own.value_min_samples,
            own.value_explore_every,
            settings.cost_ms,
        ),
    }
    make = policies[name]
    return _arm(
        name,
        "adaptive",
        max(own.allowed),
        bench,
        lambda place: Parts(_uno(bench, settings, place), make()),
    )


def _confident(bench: Bench, settings: Settings) -> Arm:
    size = settings.policies.confidence_block
    policy, search = FixedBlock(size), ConfidentPrefix(settings.policies.confidence_floor)

    def parts(place: int) -> Parts:
        return Parts(_uno(bench, settings, place, confidence=True), policy, search)

    return _arm(CONFIDENT, "confidence", size, bench, parts)


def _uno(
    bench: Bench, settings: Settings, place: int, passes: int = 1, confidence: bool = False
) -> UnoDrafter:
    seed = settings.noise_seed + place
    return UnoDrafter(bench.target, bench.adapter, seed, passes, confidence)


def _arm(
    name: str,
    kind: str,
    size: int,
    bench: Bench,
    parts: Callable[[int], Parts],
    weights: Weights = "trained",
) -> Arm:
    def run(prompt: EncodedPrompt, place: int, max_tokens: int) -> Trace:
        bench.put(weights)
        drafter, policy, search = parts(place)
        return decode(
            bench.target,
            drafter,
            GreedyAcceptance(),
            policy,
            prompt.ids,
            max_tokens,
            search=search,
        )

    return Arm(name, kind, size, run)
