"""What must hold between the columns and the rows of a row file."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

ROUNDING = 1e-6
"""The last digit of the published tables; float32 rounding near 1 is below it too."""

SUPPORT_TOLERANCE = 1e-4  # effective_support is published with 4 decimals and is at least 1
FIRST_OFFSET = 2  # offset +1 is the seed row, where the adapter is off
STRATA = ("FULL", "SCHEDULE")
KEY = ["stratum", "example_id", "offset"]


@dataclass(frozen=True)
class Rule:
    """A check of a whole frame: which column it blames, what is expected, which rows pass.

    `passes` gives one boolean a row, or one for the frame. `describe` says what was found at a
    failing row; without it the row's value of `field` is told.
    """

    field: str
    expected: str
    passes: Callable[[pd.DataFrame], pd.Series | bool]
    describe: Callable[[pd.DataFrame, int], str] | None = None

    def found(self, frame: pd.DataFrame, row: int) -> str:
        """Text for the `found` part of the error."""
        return self.describe(frame, row) if self.describe else str(frame[self.field].iloc[row])


def unique(key: list[str]) -> Rule:
    """No two rows share `key`."""

    def describe(frame: pd.DataFrame, row: int) -> str:
        values = ", ".join(str(frame[name].iloc[row]) for name in key)
        return f"({values}) a second time"

    expected = f"each ({', '.join(key)}) once"
    return Rule(key[-1], expected, lambda frame: ~frame.duplicated(key), describe)


def at_most(small: str, large: str, slack: float = 0.0) -> Rule:
    """Column `small` nowhere exceeds column `large`."""
    return Rule(small, f"at most {large}", lambda frame: frame[small] <= frame[large] + slack)


def _both_strata(frame: pd.DataFrame) -> bool:
    return set(STRATA) <= set(frame["stratum"])


def _has_every_offset(frame: pd.DataFrame) -> pd.Series:
    """Each window has, in each stratum, one row at every offset from +2 to the largest."""
    counts = frame.groupby(["example_id", "stratum"])["offset"].transform("nunique")
    strata = frame.groupby("example_id")["stratum"].transform("nunique")
    return (counts == _n_offsets(frame)) & (strata == len(STRATA))


def _n_offsets(frame: pd.DataFrame) -> int:
    return int(frame["offset"].max()) - FIRST_OFFSET + 1


def _missing_offset(frame: pd.DataFrame, row: int) -> str:
    window = frame["example_id"].iloc[row]
    rows = frame[frame["example_id"] == window]
    wanted = range(FIRST_OFFSET, FIRST_OFFSET + _n_offsets(frame))
    for stratum in STRATA:
        present = set(rows.loc[rows["stratum"] == stratum, "offset"])
        absent = [offset for offset in wanted if offset not in present]
        if absent:
            return f"no offset {absent[0]} of window {window} in {stratum}"
    raise AssertionError("called for a complete window")


def _position_follows_offset(frame: pd.DataFrame) -> pd.Series:
    start = frame["position"] - frame["offset"]
    return start == start.mode()[0]


def _accepted_is_agreement(frame: pd.DataFrame) -> pd.Series:
    return (frame["accepted"] == 1) == (frame["proposed_token"] == frame["verifier_token"])


def _predecessors_are_counted(frame: pd.DataFrame) -> pd.Series:
    """`n_corrupted_predecessors` is the sum of the flags at smaller offsets of the window."""
    ordered = frame.sort_values(KEY)
    flags = ordered.groupby(["stratum", "example_id"])["corruption_level"]
    before = flags.cumsum() - ordered["corruption_level"]
    return frame["n_corrupted_predecessors"] == before.reindex(frame.index)


def _full(frame: pd.DataFrame) -> pd.Series:
    return frame["stratum"] == "FULL"


def _uncorrupted(frame: pd.DataFrame) -> pd.Series:
    return (frame["n_corrupted_predecessors"] == 0) & (frame["corruption_level"] == 0)


def _one_timestep(frame: pd.DataFrame) -> pd.Series:
    grouped = frame.groupby(["stratum", "example_id"])["timestep"]
    return frame["timestep"] == grouped.transform("first")


def _support_is_exp_entropy(frame: pd.DataFrame) -> pd.Series:
    ratio = frame["effective_support"] / np.exp(frame["entropy"])
    return (ratio - 1).abs() <= SUPPORT_TOLERANCE


def _normalized_by_one_constant(frame: pd.DataFrame) -> pd.Series:
    """entropy = c x normalized_entropy, with c = log(vocabulary size) taken from the widest row."""
    widest = int(frame["normalized_entropy"].argmax())
    if frame["normalized_entropy"].iloc[widest] == 0:
        return frame["entropy"] <= ROUNDING
    scale = frame["entropy"].iloc[widest] / frame["normalized_entropy"].iloc[widest]
    error = (frame["entropy"] - scale * frame["normalized_entropy"]).abs()
    return error <= 4 * ROUNDING * max(scale, 1.0)


def _same_in_strata(column: str, tolerance: float = 0.0) -> Rule:
    """A property of the frozen model and the clean text cannot depend on the corruption."""

    def passes(frame: pd.DataFrame) -> pd.Series:
        grouped = frame.groupby(["example_id", "offset"])[column]
        return grouped.transform("max") - grouped.transform("min") <= tolerance

    return Rule(column, "the same value in FULL and SCHEDULE", passes)


POSITION_RULES = [
    Rule(
        "stratum",
        "rows of both FULL and SCHEDULE",
        _both_strata,
        lambda frame, row: f"only {frame['stratum'].iloc[row]}",
    ),
    unique(KEY),
    Rule("offset", "every offset of every window", _has_every_offset, _missing_offset),
    Rule("position", "the same position - offset in every row", _position_follows_offset),
    Rule("accepted", "1 exactly where proposed_token = verifier_token", _accepted_is_agreement),
    Rule("timestep", "1 in FULL", lambda f: ~_full(f) | (f["timestep"] == 1)),
    Rule("timestep", "one value for a window and stratum", _one_timestep),
    Rule("corruption_level", "1 in FULL", lambda f: ~_full(f) | (f["corruption_level"] == 1)),
    Rule(
        "n_corrupted_predecessors",
        "the sum of corruption_level at smaller offsets of the window",
        _predecessors_are_counted,
    ),
    Rule(
        "existing_draftability_score",
        "0 where no row is corrupted",
        lambda f: ~_uncorrupted(f) | (f["existing_draftability_score"] <= ROUNDING),
    ),
    Rule(
        "corrupt_entropy",
        "teacher_entropy where no row is corrupted",
        lambda f: (
            ~_uncorrupted(f) | ((f["corrupt_entropy"] - f["teacher_entropy"]).abs() <= ROUNDING)
        ),
    ),
    at_most("top1_top2_margin", "top1_probability", ROUNDING),
    Rule("effective_support", "exp(entropy)", _support_is_exp_entropy),
    Rule(
        "normalized_entropy",
        "entropy / log(vocabulary size) in every row",
        _normalized_by_one_constant,
    ),
    _same_in_strata("clean_token"),
    _same_in_strata("verifier_token"),
    _same_in_strata("teacher_entropy", ROUNDING),
]

TIMING_RULES = [
    unique(["prompt_id", "repeat", "arm"]),
    unique(["order"]),
    at_most("accepted", "offered"),
]

CYCLE_RULES = [
    unique(["prompt_id", "repeat", "arm", "cycle"]),
    at_most("accepted", "offered"),
]

GENERATION_KEY = ["prompt_id", "prompt_tokens", "max_tokens", "arm"]


def _a_forward_each_cycle(frame: pd.DataFrame) -> pd.Series:
    return frame["forwards"] >= frame["cycles"]


def _stages_fit(frame: pd.DataFrame) -> pd.Series:
    """Prefill and the stages of the cycles are parts of the wall time (the clock's sums round)."""
    stages = ("prefill", "draft", "verify", "commit", "overhead")
    parts = frame[[f"{stage}_seconds" for stage in stages]].sum(axis=1)
    return parts <= frame["wall_seconds"] * (1 + ROUNDING)


def _ids_are_counted(frame: pd.DataFrame) -> pd.Series:
    return frame["token_ids"].str.count(" ") + 1 == frame["tokens"]


def _identical_has_no_divergence(frame: pd.DataFrame) -> pd.Series:
    return (frame["identical"] == 1) == (frame["first_divergence"] == -1)


def _cycles_without_gap(frame: pd.DataFrame) -> pd.Series:
    """The cycles of a generation are numbered 1, 2, ... in the order of the rows."""
    return frame["cycle"] == frame.groupby(GENERATION_KEY).cumcount() + 1


GENERATION_RULES = [
    unique([*GENERATION_KEY, "dtype", "repeat"]),
    unique(["order"]),
    at_most("tokens", "max_tokens"),
    at_most("accepted", "offered"),
    at_most("full_blocks", "cycles"),
    Rule("forwards", "at least one a cycle", _a_forward_each_cycle),
    Rule("wall_seconds", "at least the sum of its stages", _stages_fit),
    Rule("token_ids", "as many ids as tokens", _ids_are_counted),
    Rule("first_divergence", "-1 exactly where identical = 1", _identical_has_no_divergence),
]

DRAFT_CYCLE_RULES = [
    unique([*GENERATION_KEY, "cycle"]),
    Rule("cycle", "1, 2, ... without a gap", _cycles_without_gap),
    at_most("accepted", "offered"),
    at_most("offered", "block_size"),
]

SLOT_RULES = [unique([*GENERATION_KEY, "cycle", "slot"]), at_most("margin", "top1", ROUNDING)]

DIVERGENCE_RULES = [
    unique([*GENERATION_KEY, "dtype", "repeat"]),
    Rule("spec_token", "another token than ar_token", lambda f: f["spec_token"] != f["ar_token"]),
    Rule(
        "gap",
        "|ar_logit - spec_logit|",
        lambda f: (f["ar_logit"] - f["spec_logit"]).abs() == f["gap"],
    ),
    Rule(
        "exact_tie", "1 exactly where gap = 0", lambda f: (f["exact_tie"] == 1) == (f["gap"] == 0)
    ),
    at_most("exact_tie", "within_one_ulp"),
]

TIE_RULES = [
    unique(["prompt_id", "dtype", "position"]),
    Rule(
        "exact_tie",
        "1 exactly where top2_gap = 0",
        lambda f: (f["exact_tie"] == 1) == (f["top2_gap"] == 0),
    ),
]

PASS_RULES = [unique(["dtype", "kind", "part", "width", "repeat"])]
