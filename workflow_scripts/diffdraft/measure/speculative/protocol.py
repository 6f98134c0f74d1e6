"""How a prompt is timed: warm-up, arms in a keyed order, every repeat against its own native run.

The order of the arms changes from round to round so that all arms run in every place and behind
every other arm about equally often; a drift of the machine is charged to none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffdraft import backend, files
from diffdraft.decoding.trace import Cycle, Trace
from diffdraft.measure.machine import busy_share
from diffdraft.measure.speculative.arms import Arm
from diffdraft.measure.timing import cycle_cells, trace_cells
from diffdraft.measure.workloads import EncodedPrompt
from diffdraft.stats.loops import distinct_ratio, looped_fraction
from diffdraft.stats.texts import first_divergence
from diffdraft.streams import stream_key

Row = dict[str, Any]
BASELINE = "ar"
STREAM = "data_sampling"
WARMUP_PROMPTS = 3
WARMUP_TOKENS = 8


@dataclass(frozen=True)
class Protocol:
    """Repeats of a prompt, discarded passes, the seed of the order of arms, and marks of a row.

    A row is busy when the share of all cores just before it (0 to 1) is above `max_load_before`;
    `loop_ngram` is the n of the repeated n-grams.
    """

    repeats: int
    warmup: int
    max_load_before: float
    order_seed: int
    loop_ngram: int
    load: Callable[[], float] = busy_share


@dataclass(frozen=True)
class Unit:
    """One prompt to one length in one precision, in all arms: what a kill can cost.

    `place` is the prompt's in its suite, and `number` the unit's in the run.
    """

    prompt: EncodedPrompt
    place: int
    number: int
    max_tokens: int
    dtype: str

    def key(self) -> Row:
        """The cells that all rows of the unit share."""
        return {
            "prompt_id": self.prompt.id,
            "category": self.prompt.category,
            "prompt_tokens": len(self.prompt.ids),
            "max_tokens": self.max_tokens,
        }


def warm_up(units: Sequence[Unit], arms: Sequence[Arm], protocol: Protocol) -> None:
    """Decode a few tokens of the first prompts in every arm; nothing of it is kept."""
    for _ in range(protocol.warmup):
        for unit in units[:WARMUP_PROMPTS]:
            for arm in arms:
                arm.decode(unit.prompt, unit.place, min(WARMUP_TOKENS, unit.max_tokens))


def arm_order(seed: int, turn: int, n: int) -> list[int]:
    """The order of `n` arms in their `turn`-th round, a function of seed and turn alone.

    A Williams square has every arm once in every place, and behind every other arm equally often
    (Williams 1949, "Experimental designs balanced for the estimation of residual effects of
    treatments"). Arms are dealt to its letters and its rows to the rounds at random, rows anew
    whenever all have been used.
    """
    square = williams(n)
    cycle, place = divmod(turn, len(square))
    letters = _permutation(seed, 0, n)
    rows = _permutation(seed, 1 + cycle, len(square))
    return [letters[letter] for letter in square[rows[place]]]


def williams(n: int) -> list[list[int]]:
    """A Williams square: n rows for even n, 2n for odd n."""
    zigzag = [(place + 1) // 2 if place % 2 else (n - place // 2) % n for place in range(n)]
    rows = [[(letter + shift) % n for letter in zigzag] for shift in range(n)]
    return rows if n % 2 == 0 else [*rows, *(row[::-1] for row in rows)]


def _permutation(seed: int, step: int, n: int) -> list[int]:
    return np.random.default_rng(stream_key(seed, STREAM, step)).permutation(n).tolist()


def time_unit(unit: Unit, arms: Sequence[Arm], protocol: Protocol) -> dict[str, list[Row]]:
    """Rows of `generations`, `draft_cycles` and `slots` of one unit.

    Repeats decode the same, as the digest of their traces shows, so cycles and slots are those of
    repeat 0. Slots are of the arms whose drafter reports its confidence.
    """
    runs: list[tuple[Arm, Row, Trace]] = []
    for repeat in range(protocol.repeats):
        turn = unit.number * protocol.repeats + repeat
        for place in arm_order(protocol.order_seed, turn, len(arms)):
            backend.barrier()
            load_before = protocol.load()
            trace = arms[place].decode(unit.prompt, unit.place, unit.max_tokens)
            run = {
                "repeat": repeat,
                "order": unit.number * protocol.repeats * len(arms) + len(runs),
                "load_before": load_before,
                "busy": int(load_before > protocol.max_load_before),
            }
            runs.append((arms[place], run, trace))
    native = {run["repeat"]: trace.tokens for arm, run, trace in runs if arm.id == BASELINE}
    loops = {
        "looped_fraction": looped_fraction(native[0], protocol.loop_ngram),
        "distinct_ratio": distinct_ratio(native[0]),
    }
    out: dict[str, list[Row]] = {"generations": [], "draft_cycles": [], "slots": []}
    for arm, run, trace in runs:
        reference = native[0 if arm.id == BASELINE else run["repeat"]]
        out["generations"].append(
            {
                **unit.key(),
                "arm": arm.id,
                "kind": arm.kind,
                "dtype": unit.dtype,
                "block_size": arm.block_size,
                **run,
                **loops,
                **measured(trace, reference),
            }
        )
        if run["repeat"] == 0:
            key = {**unit.key(), "arm": arm.id}
            out["draft_cycles"] += [
                {**key, "block_size": c.block_size, "forwards": c.forwards, **cycle_cells(c)}
                for c in trace.cycles
            ]
            out["slots"] += [{**key, **slot} for cycle in trace.cycles for slot in slots(cycle)]
    return out


def measured(trace: Trace, reference: Sequence[int]) -> Row:
    """What one generation gave, and whether it is the native text `reference`."""
    first = first_divergence(reference, trace.tokens)
    return {
        **trace_cells(trace),
        "overhead_seconds": trace.total("overhead_seconds"),
        "full_blocks": int(trace.total("full")),
        "replays": int(trace.total("replays")),
        "identical": int(first == -1),
        "first_divergence": first,
        "trace_sha": trace_sha(trace),
        "token_ids": " ".join(map(str, trace.tokens)),
    }


def trace_sha(trace: Trace) -> str:
    """SHA-256 over what was decided in every cycle and the ids, as little-endian 32-bit integers.

    Equal in all repeats of an arm that decodes the same.
    """
    decided = [
        (cycle.block_size, cycle.offered, cycle.accepted, cycle.committed) for cycle in trace.cycles
    ]
    numbers = [len(decided), *(number for cycle in decided for number in cycle), *trace.tokens]
    return files.sha256_bytes(np.array(numbers, dtype="<i4").tobytes())


def slots(cycle: Cycle) -> list[Row]:
    """One row an offered slot, from 1, where the drafter said how sure it was."""
    return [
        {
            "cycle": cycle.index,
            "slot": slot,
            "top1": sure.top1,
            "margin": sure.margin,
            "accepted": int(slot <= cycle.accepted),
        }
        for slot, sure in enumerate(cycle.confidence, start=1)
    ]
