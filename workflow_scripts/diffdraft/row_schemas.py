"""The columns of every row file, and what its cells may hold.

The position table has the layout of qwen-block-diffusion-lab (RPRM stage 1), so that the
published file can be read in place of ours. The tables of Act IV-S are one generation, one
draft-verify cycle, one draft slot, one divergence, one tie candidate or one timed pass a row.
"""

import math

import pandera.pandas as pa

from diffdraft.row_rules import (
    CYCLE_RULES,
    DIVERGENCE_RULES,
    DRAFT_CYCLE_RULES,
    GENERATION_RULES,
    PASS_RULES,
    POSITION_RULES,
    ROUNDING,
    SLOT_RULES,
    TIE_RULES,
    TIMING_RULES,
    Rule,
)

SHA256 = r"[0-9a-f]{64}"
DTYPE = "(float32|bfloat16)"
IDS = r"\d+( \d+)*"


def _text(pattern: str = r"\S(.*\S)?") -> pa.Column:
    return pa.Column(str, pa.Check.str_matches(f"^{pattern}$", error=f"text like {pattern}"))


def _number(kind: type, low: float, high: float, open_low: bool = False) -> pa.Column:
    least = f"above {low:g}" if open_low else f"at least {low:g}"
    expected = f"a number {least}" + ("" if math.isinf(high) else f" and at most {high:g}")
    check = pa.Check.in_range(
        low, high + (ROUNDING if kind is float else 0), include_min=not open_low, error=expected
    )
    return pa.Column(kind, check)


def _count(least: int = 0) -> pa.Column:
    return _number(int, least, math.inf)


def _real(low: float = 0.0, high: float = math.inf, open_low: bool = False) -> pa.Column:
    return _number(float, low, high, open_low)


def _flag() -> pa.Column:
    return _number(int, 0, 1)


def _schema(
    name: str, columns: dict[str, pa.Column], rules: list[Rule], may_be_empty: bool = False
) -> pa.DataFrameSchema:
    checks = [
        pa.Check(rule.passes, name=str(i), error=rule.expected) for i, rule in enumerate(rules)
    ]
    metadata = {"rules": rules, "may_be_empty": may_be_empty}
    return pa.DataFrameSchema(
        columns, checks=checks, strict=True, ordered=True, name=name, metadata=metadata
    )


POSITIONS = _schema(
    "positions",
    {
        "example_id": _text(r"w\d{4,}r\d+"),
        "stratum": _text("(FULL|SCHEDULE)"),
        "position": _count(),
        "offset": _count(2),
        "timestep": _real(0, 1),
        "corruption_level": _flag(),
        "n_corrupted_predecessors": _count(),
        "clean_token": _count(),
        "proposed_token": _count(),
        "verifier_token": _count(),
        "accepted": _flag(),
        "entropy": _real(),
        "normalized_entropy": _real(0, 1),
        "top1_probability": _real(0, 1, open_low=True),
        "top1_top2_margin": _real(0, 1),
        "effective_support": _real(1 - ROUNDING),
        "existing_draftability_score": _real(0, 2),
        "teacher_entropy": _real(),
        "corrupt_entropy": _real(),
    },
    POSITION_RULES,
)

TIMING = _schema(
    "timing",
    {
        "prompt_id": _text(),
        "category": _text(),
        "repeat": _count(),
        "arm": _text(),
        "block": _count(),
        "order": _count(),
        "prompt_tokens": _count(1),
        "tokens": _count(1),
        "wall_seconds": _real(open_low=True),
        "prefill_seconds": _real(),
        "draft_seconds": _real(),
        "verify_seconds": _real(),
        "commit_seconds": _real(),
        "forwards": _count(1),
        "cycles": _count(),
        "accepted": _count(),
        "offered": _count(),
        "token_ids_sha": _text(SHA256),
        "load_before": _real(0, 1),
        "busy": _flag(),
    },
    TIMING_RULES,
)

CYCLES = _schema(
    "cycles",
    {
        "prompt_id": _text(),
        "repeat": _count(),
        "arm": _text(),
        "cycle": _count(),
        "accepted": _count(),
        "offered": _count(),
        "committed": _count(1),
    },
    CYCLE_RULES,
)

# A generation is one decode of one prompt by one arm. `max_tokens` is what was asked for;
# `block_size` is 0 for native decoding and the largest allowed one under a policy.
GENERATION = {
    "prompt_id": _text(),
    "category": _text(),
    "prompt_tokens": _count(1),
    "max_tokens": _count(1),
}

GENERATIONS = _schema(
    "generations",
    {
        **GENERATION,
        "arm": _text(),
        "kind": _text(),
        "dtype": _text(DTYPE),
        "repeat": _count(),
        "order": _count(),
        "block_size": _count(),
        "tokens": _count(1),
        "wall_seconds": _real(open_low=True),
        "prefill_seconds": _real(),
        "draft_seconds": _real(),
        "verify_seconds": _real(),
        "commit_seconds": _real(),
        "overhead_seconds": _real(),
        "forwards": _count(1),
        "cycles": _count(),
        "accepted": _count(),
        "offered": _count(),
        "full_blocks": _count(),
        "replays": _count(),
        "load_before": _real(0, 1),
        "busy": _flag(),
        "identical": _flag(),
        "first_divergence": _number(int, -1, math.inf),
        "looped_fraction": _real(0, 1),
        "distinct_ratio": _real(0, 1, open_low=True),
        "trace_sha": _text(SHA256),
        "token_ids": _text(IDS),
    },
    GENERATION_RULES,
)

DRAFT_CYCLES = _schema(
    "draft_cycles",
    {
        **GENERATION,
        "arm": _text(),
        "cycle": _count(1),
        "block_size": _count(1),
        "offered": _count(),
        "accepted": _count(),
        "committed": _count(1),
        "forwards": _count(1),
    },
    DRAFT_CYCLE_RULES,
)

SLOTS = _schema(
    "slots",
    {
        **GENERATION,
        "arm": _text(),
        "cycle": _count(1),
        "slot": _count(1),
        "top1": _real(0, 1, open_low=True),
        "margin": _real(0, 1),
        "accepted": _flag(),
    },
    SLOT_RULES,
)

DIVERGENCES = _schema(
    "divergences",
    {
        **GENERATION,
        "arm": _text(),
        "dtype": _text(DTYPE),
        "repeat": _count(),
        "position": _count(),
        "ar_token": _count(),
        "spec_token": _count(),
        "ar_logit": _real(-math.inf),
        "spec_logit": _real(-math.inf),
        "max_logit": _real(-math.inf),
        "gap": _real(),
        "ulp": _real(open_low=True),
        "gap_in_ulps": _real(),
        "exact_tie": _flag(),
        "within_one_ulp": _flag(),
        "near_maximum": _flag(),
    },
    DIVERGENCE_RULES,
    may_be_empty=True,
)

TIES = _schema(
    "ties",
    {
        "prompt_id": _text(),
        "dtype": _text(DTYPE),
        "position": _count(),
        "top2_gap": _real(),
        "exact_tie": _flag(),
    },
    TIE_RULES,
)

PASSES = _schema(
    "passes",
    {
        "dtype": _text(DTYPE),
        "kind": _text("(native|draft|verify)"),
        "part": _text(),
        "width": _count(1),
        "repeat": _count(),
        "seconds": _real(open_low=True),
    },
    PASS_RULES,
)

SCHEMAS = {
    schema.name: schema
    for schema in (
        POSITIONS,
        TIMING,
        CYCLES,
        GENERATIONS,
        DRAFT_CYCLES,
        SLOTS,
        DIVERGENCES,
        TIES,
        PASSES,
    )
}
