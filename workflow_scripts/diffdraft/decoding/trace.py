"""The record of one generation: its tokens, and one row a draft-verify cycle."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cycle:
    """One draft-verify cycle.

    `accepted` is what the acceptance rule granted, also where the token budget or a stop id then
    cut the commit short; `committed` is what was really added. Times in seconds.
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


@dataclass
class Trace:
    """One generation. Native decoding has no cycles.

    `forwards` counts every forward of the target that was run, prefill and replays included.
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
