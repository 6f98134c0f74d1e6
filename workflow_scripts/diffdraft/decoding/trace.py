"""The record of one generation: its tokens, and one row a draft-verify cycle."""

from collections.abc import Callable
from dataclasses import dataclass, field

from diffdraft.drafters.base import SlotConfidence


@dataclass(frozen=True)
class Cycle:
    """One draft-verify cycle.

    `block_size` is what the policy asked for (less at the end of the context) and `offered` what
    the target had to judge.
    `accepted` is what the acceptance rule granted, also where the token budget or a stop id then
    cut the commit short; `committed` is what was really added. `confidence` has one entry an
    offered token, where the drafter reports it. Times in seconds, with the same boundaries for
    every drafter, policy and commit mode.
    """

    index: int
    block_size: int
    offered: int
    accepted: int
    committed: int
    forwards: int
    replays: int
    draft_seconds: float
    verify_seconds: float
    commit_seconds: float
    cycle_seconds: float
    confidence: tuple[SlotConfidence, ...] = ()

    @property
    def overhead_seconds(self) -> float:
        """All of the cycle that is neither draft, nor verify, nor commit."""
        stages = self.draft_seconds + self.verify_seconds + self.commit_seconds
        return max(0.0, self.cycle_seconds - stages)

    @property
    def full(self) -> bool:
        """Whether everything that was offered was accepted, and something was offered."""
        return 0 < self.offered == self.accepted


@dataclass
class Trace:
    """One generation. Native decoding has no cycles.

    `forwards` counts every forward of the target that was run, prefill and replays included:
    1 + 2C for C cycles of one draft forward, 1 + (s + 1)C for s refinement passes, 1 + C where
    drafting takes none, and one a token for native decoding.
    `wall_seconds` runs from before the cache is made until the last token is on the host.
    """

    prompt_tokens: int
    tokens: list[int] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    prefill_forwards: int = 0
    native_forwards: int = 0
    prefill_seconds: float = 0.0
    wall_seconds: float = 0.0

    @property
    def forwards(self) -> int:
        """All forwards of the generation."""
        in_cycles = sum(cycle.forwards for cycle in self.cycles)
        return self.prefill_forwards + self.native_forwards + in_cycles

    def total(self, name: str) -> float:
        """Sum of one field of the cycles, such as "accepted" or "draft_seconds"."""
        return sum(getattr(cycle, name) for cycle in self.cycles)


# Called after every commit with the generation so far, within its wall time; it changes nothing.
OnCommit = Callable[[Trace], None]
