"""The estimators of the published act: rows as units, no interval, no pairing.

(qwen-block-diffusion-lab, Act IV-S.) They are computed and judged beside the paired one, since a
result that hangs on the estimator should be seen to.
"""

import math

import numpy as np
import pandas as pd

STAGES = ("draft", "verify", "commit", "overhead")
ESTIMATORS = ("median_ratio", "mean_ratio", "cycle_ratio")


def quartiles(values: pd.Series) -> tuple[float, float]:
    """The published p25 and p75: order statistics, the lower one stepped down where 4 divides n."""
    ordered, n = np.sort(values.to_numpy(dtype=np.float64)), len(values)
    low = max(0, math.floor(0.25 * n) - (n % 4 == 0))
    high = min(n - 1, math.floor(0.75 * n))
    return float(ordered[low]), float(ordered[high])


def speeds(rows: pd.DataFrame) -> pd.Series:
    """Tokens a second of each generation, prefill included."""
    return rows["tokens"] / rows["wall_seconds"]


def decode_speeds(rows: pd.DataFrame) -> pd.Series:
    """Tokens a second of each generation, prefill left out."""
    return rows["tokens"] / (rows["wall_seconds"] - rows["prefill_seconds"])


def acceptance_rates(rows: pd.DataFrame) -> pd.Series:
    """Accepted over offered of each generation, 0 where nothing was offered."""
    return (rows["accepted"] / rows["offered"].where(rows["offered"] > 0)).fillna(0.0)


def stage_ms(rows: pd.DataFrame) -> dict[str, float]:
    """Median over generations of the milliseconds of each stage a cycle, 0 without cycles."""
    cycles_N = np.maximum(rows["cycles"].to_numpy(), 1)  # without cycles all stages are 0
    return {
        stage: float(np.median(1000 * rows[f"{stage}_seconds"].to_numpy() / cycles_N))
        for stage in STAGES
    }


def per_cycle(rows: pd.DataFrame, column: str) -> float:
    """Sum of a column over all cycles of all generations, a cycle; 0 without cycles."""
    cycles = int(rows["cycles"].sum())
    return float(rows[column].sum()) / cycles if cycles else 0.0


def summarise(rows: pd.DataFrame, native: pd.DataFrame) -> dict[str, float]:
    """The published columns of one arm's generations, beside the native ones of the same cell."""
    speed, decode = speeds(rows), decode_speeds(rows)
    p25, p75 = quartiles(speed)
    stages = stage_ms(rows)
    return {
        "rows": len(rows),
        "prompts": int(rows["prompt_id"].nunique()),
        "tok_s_median": float(speed.median()),
        "tok_s_mean": float(speed.mean()),
        "tok_s_sd": float(speed.std()),
        "tok_s_p25": p25,
        "tok_s_p75": p75,
        "decode_tok_s_median": float(decode.median()),
        **{f"speedup_{name}": value for name, value in speedups(rows, native).items()},
        "decode_speedup": float(decode.median() / decode_speeds(native).median()),
        "tpf_median": float((rows["tokens"] / rows["forwards"]).median()),
        "ms_per_token_median": float((1000 * rows["wall_seconds"] / rows["tokens"]).median()),
        "prefill_ms_median": float(1000 * rows["prefill_seconds"].median()),
        "acceptance_rate_median": float(acceptance_rates(rows).median()),
        "mean_accepted_prefix": per_cycle(rows, "accepted"),
        "mean_committed_per_cycle": per_cycle(rows, "tokens") if rows["cycles"].any() else 0.0,
        "cycles": int(rows["cycles"].sum()),
        **{f"{stage}_ms": stages[stage] for stage in STAGES},
        "identical_share": float(rows["identical"].mean()),
    }


def speedups(rows: pd.DataFrame, native: pd.DataFrame) -> dict[str, float]:
    """Ratio to native decoding by each published estimator."""
    speed, native_speed = speeds(rows), speeds(native)
    return {
        "median_ratio": float(speed.median() / native_speed.median()),
        "mean_ratio": float(speed.mean() / native_speed.mean()),
        "cycle_ratio": cycle_ratio(rows, native),
    }


def cycle_ratio(rows: pd.DataFrame, native: pd.DataFrame) -> float:
    """Committed tokens a cycle over the sum of stage medians, over native decode-only speed.

    1 for an arm without cycles, which is native decoding itself.
    """
    if not rows["cycles"].any():
        return 1.0
    tokens_per_ms = per_cycle(rows, "tokens") / sum(stage_ms(rows).values())
    return float(1000 * tokens_per_ms / decode_speeds(native).median())
