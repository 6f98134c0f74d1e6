"""Paired timing of decoding arms: interleaved in A B B A order, warmed up, prompt by prompt.

Within a block the arms run forwards and then backwards, so that a drift of the machine that is
linear in time adds the same to every arm.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffdraft import backend, files
from diffdraft.decoding.trace import Cycle, Trace
from diffdraft.measure.machine import busy_share
from diffdraft.measure.workloads import EncodedPrompt

Row = dict[str, Any]
STAGES = ("draft_seconds", "verify_seconds", "commit_seconds")


@dataclass(frozen=True)
class Arm:
    """A decoder under a name. `decode` gets a prompt and the prompt's place in the suite."""

    name: str
    decode: Callable[[EncodedPrompt, int], Trace]


@dataclass(frozen=True)
class Protocol:
    """How often, and above which busy share of all cores (0 to 1) a row is marked busy."""

    abba_blocks: int
    max_load_before: float
    load: Callable[[], float] = busy_share


def time_prompt(
    prompt: EncodedPrompt, index: int, arms: Sequence[Arm], protocol: Protocol
) -> tuple[list[Row], list[Row]]:
    """Rows of `timing` and of `cycles` for one prompt, the `index`-th of the suite.

    Every arm first decodes the prompt once unrecorded. The timed runs repeat that very decode, so
    no shape, compiled kernel or buffer is new to them.
    """
    for arm in arms:
        arm.decode(prompt, index)
    turns = [*arms, *reversed(arms)]
    timing: list[Row] = []
    cycles: list[Row] = []
    for place in range(protocol.abba_blocks * len(turns)):
        block, turn = divmod(place, len(turns))
        arm, repeat = turns[turn], 2 * block + turn // len(arms)
        backend.barrier()
        load_before = protocol.load()
        trace = arm.decode(prompt, index)
        key = {"prompt_id": prompt.id, "repeat": repeat, "arm": arm.name}
        run = {
            **key,
            "category": prompt.category,
            "block": block,
            "order": index * protocol.abba_blocks * len(turns) + place,
            "load_before": load_before,
            "busy": int(load_before > protocol.max_load_before),
        }
        sha = token_ids_sha(trace.tokens)
        timing.append({**run, **trace_cells(trace), "token_ids_sha": sha})
        cycles += [{**key, **cycle_cells(cycle)} for cycle in trace.cycles]
    return timing, cycles


def trace_cells(trace: Trace) -> Row:
    """What a row tells of a generation, whatever it was timed for."""
    return {
        "prompt_tokens": trace.prompt_tokens,
        "tokens": len(trace.tokens),
        "wall_seconds": trace.wall_seconds,
        "prefill_seconds": trace.prefill_seconds,
        **{stage: float(trace.total(stage)) for stage in STAGES},
        "forwards": trace.forwards,
        "cycles": len(trace.cycles),
        "accepted": int(trace.total("accepted")),
        "offered": int(trace.total("offered")),
    }


def cycle_cells(cycle: Cycle) -> Row:
    """What a row tells of a cycle."""
    return {
        "cycle": cycle.index,
        "accepted": cycle.accepted,
        "offered": cycle.offered,
        "committed": cycle.committed,
    }


def token_ids_sha(tokens: Sequence[int]) -> str:
    """SHA-256 of the ids as little-endian 32-bit integers."""
    return files.sha256_bytes(np.array(tokens, dtype="<i4").tobytes())
