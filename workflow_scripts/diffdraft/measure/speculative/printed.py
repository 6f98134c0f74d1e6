"""What the command by hand prints of a run."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from diffdraft.measure.speculative.passages import CATEGORY
from diffdraft.measure.speculative.protocol import BASELINE
from diffdraft.stats.paired import log_times
from diffdraft.studies.act4s.analysis import pearson
from diffdraft.studies.act4s.published_estimators import STAGES, acceptance_rates, summarise

HEADER = (
    *("arm", "tok/s", "x AR", "prefix", "committed/cycle", "TPF"),
    *("draft ms", "verify ms", "cycle ms", "identical", "busy"),
)
NONE = "-"


def run_tables(generations: pd.DataFrame) -> str:
    """One table for every precision, length and, where prompts are passages, length of context.

    tok/s and TPF (tokens a forward) are medians over generations. "x AR" is paired: the mean over
    prompts of the mean over repeats of log(native wall / arm wall), as a ratio. A cycle's
    milliseconds are the sum of the medians of its stages, as `adaptive --cost-ms` takes them.
    """
    in_context = (generations["category"] == CATEGORY).all()
    keys = ["dtype", "max_tokens", *(["prompt_tokens"] if in_context else [])]
    parts = []
    for values, part in generations.groupby(keys, sort=False):
        said = dict(zip(keys, values, strict=True))
        title = f"{said['max_tokens']} tokens, {said['dtype']}"
        if in_context:
            title += f", context of {said['prompt_tokens']}"
        parts.append(f"{title}\n{arms_table(part)}")
    return "\n\n".join(parts)


def arms_table(part: pd.DataFrame) -> str:
    """One line an arm, native decoding first."""
    logs = log_times(part)
    native = part[part["arm"] == BASELINE]
    arms = sorted(part["arm"].unique(), key=lambda arm: (arm != BASELINE, arm))
    lines: list[Sequence[str]] = [HEADER]
    for arm in arms:
        own = part[part["arm"] == arm]
        found = summarise(own, native)
        drafted = arm != BASELINE
        lines.append(
            (
                arm,
                f"{found['tok_s_median']:.2f}",
                f"{math.exp(float((logs[BASELINE] - logs[arm]).mean())):.3f}",
                f"{found['mean_accepted_prefix']:.3f}" if drafted else NONE,
                f"{found['mean_committed_per_cycle']:.3f}" if drafted else NONE,
                f"{found['tpf_median']:.3f}",
                f"{found['draft_ms']:.2f}" if drafted else NONE,
                f"{found['verify_ms']:.2f}" if drafted else NONE,
                f"{sum(found[f'{stage}_ms'] for stage in STAGES):.2f}" if drafted else NONE,
                f"{int(own['identical'].sum())}/{len(own)}",
                str(int(own["busy"].sum())),
            )
        )
    return aligned(lines)


def loops_table(generations: pd.DataFrame, loop_free_below: float) -> str:
    """How much of the native text repeats itself at each length, and how that drafts."""
    names = ("tokens", "looped fraction", "loop-free prompts", "acceptance", "loop-free", "looped")
    lines: list[Sequence[str]] = [(*names, "r")]
    drafted = generations[generations["arm"] != BASELINE]
    for tokens, part in drafted.groupby("max_tokens"):
        looped, rate = part["looped_fraction"], acceptance_rates(part)
        clean = looped < loop_free_below
        lines.append(
            (
                str(tokens),
                f"{looped.mean():.3f}",
                f"{int(clean.sum())}/{len(part)}",
                f"{rate.mean():.3f}",
                number(rate[clean].mean()),
                number(rate[~clean].mean()),
                number(pearson(looped, rate)),
            )
        )
    return aligned(lines)


def ties_line(ties: pd.DataFrame) -> str:
    """How often the two best logits of the target are equal, by precision."""
    counts = ties.groupby("dtype", sort=False)["exact_tie"].agg(["sum", "size"])
    return "\n".join(
        f"exact ties of the two best logits, {dtype}: {row['sum']} of {row['size']} positions"
        for dtype, row in counts.iterrows()
    )


def number(value: Any) -> str:
    """Three decimals; a dash for what there is none of."""
    return NONE if value is None or math.isnan(value) else f"{value:.3f}"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells in columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
