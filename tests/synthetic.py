"""Row tables made from known distributions, for tests that need rows and no model."""

import hashlib

import numpy as np
import pandas as pd

from diffdraft.rows import columns

STRATA = ("FULL", "SCHEDULE")
NATIVE_CYCLE = {"accepted": 0, "offered": 0, "committed": 1}


def position_table(
    windows: int = 64,
    *,
    block_size: int = 8,
    window_tokens: int = 128,
    vocabulary: int = 512,
    entropy_signal: float = 2.0,
    gap_signal: float = 0.5,
    offset_signal: float = 0.4,
    intercept: float = 1.0,
    seed: int = 0,
) -> pd.DataFrame:
    """A valid position table: 19 columns, both strata, `block_size` - 1 rows a window.

    The log-odds of acceptance fall with the standardised drafter entropy (`entropy_signal`),
    the gap (`gap_signal`) and the offset (`offset_signal`); 0 switches a signal off.
    """
    rng = np.random.default_rng(seed)
    shape = (windows, block_size - 1)
    shared = {
        "clean_token": rng.integers(0, vocabulary, shape),
        "verifier_token": rng.integers(0, vocabulary, shape),
        "teacher_entropy": rng.uniform(0.05, 0.8, shape) * np.log(vocabulary),
    }
    signals = (entropy_signal, gap_signal, offset_signal, intercept)
    first_row = window_tokens - block_size  # index of the query row of offset +2
    strata = [_stratum(s, shape, shared, vocabulary, signals, first_row, rng) for s in STRATA]
    return pd.concat(strata, ignore_index=True)


def _stratum(stratum, shape, shared, vocabulary, signals, first_row, rng) -> pd.DataFrame:
    windows, slots = shape
    full = stratum == "FULL"
    timestep = np.ones(windows) if full else np.round(rng.uniform(0, 1, windows), 6)
    level = np.ones(shape, int) if full else (rng.random(shape) < timestep[:, None]).astype(int)
    before = np.cumsum(level, axis=1) - level
    noise = before + level
    gap = np.where(noise > 0, 2 * (1 - 0.6 ** (noise + rng.exponential(1, shape))), 0.0)
    latent = rng.standard_normal(shape)
    normalized = 0.02 + 0.9 / (1 + np.exp(-latent))
    entropy_signal, gap_signal, offset_signal, intercept = signals
    offset = np.broadcast_to(np.arange(2, 2 + slots), shape)
    log_odds = intercept - entropy_signal * latent - gap_signal * gap - offset_signal * (offset - 2)
    accepted = (rng.random(shape) < 1 / (1 + np.exp(-log_odds))).astype(int)
    entropy = normalized * np.log(vocabulary)
    top1 = np.clip(np.exp(-entropy * rng.uniform(0.6, 1.0, shape)), 1e-6, 1.0)
    elsewhere = (shared["verifier_token"] + rng.integers(1, vocabulary, shape)) % vocabulary
    names = [f"w{i // 4:04d}r{i % 4}" for i in range(windows)]
    table = {
        "example_id": np.repeat(names, slots),
        "stratum": np.full(windows * slots, stratum),
        "position": offset + first_row - 2,
        "offset": offset,
        "timestep": np.repeat(timestep, slots),
        "corruption_level": level,
        "n_corrupted_predecessors": before,
        "clean_token": shared["clean_token"],
        "proposed_token": np.where(accepted, shared["verifier_token"], elsewhere),
        "verifier_token": shared["verifier_token"],
        "accepted": accepted,
        "entropy": entropy,
        "normalized_entropy": normalized,
        "top1_probability": top1,
        "top1_top2_margin": top1 * rng.random(shape),
        "effective_support": np.exp(entropy),
        "existing_draftability_score": gap,
        "teacher_entropy": shared["teacher_entropy"],
        "corrupt_entropy": np.where(noise > 0, 0.9 * np.log(vocabulary), shared["teacher_entropy"]),
    }
    return pd.DataFrame({name: np.ravel(values) for name, values in table.items()})


def timing_tables(
    prompts: int = 27,
    *,
    blocks: int = 1,
    tokens: int = 32,
    block_size: int = 4,
    speedup: float = 1.3,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Valid (timing, cycles) tables of arms ar and uno_k4 in ABBA blocks, outputs identical."""
    rng = np.random.default_rng(seed)
    timing, cycles = [], []
    for prompt in range(prompts):
        accepted_k = _accepted_per_cycle(rng, tokens, block_size)
        base = rng.uniform(0.5, 1.5)
        for block in range(blocks):
            for place, arm in enumerate(("ar", "uno_k4", "uno_k4", "ar")):
                repeat = 2 * block + place // 2
                key = {"prompt_id": f"p{prompt:02d}", "repeat": repeat, "arm": arm}
                spec = arm == "uno_k4"
                wall = base / (speedup if spec else 1.0) * rng.uniform(0.97, 1.03)
                timing.append(
                    {
                        **key,
                        "category": f"c{prompt % 9}",
                        "block": block,
                        "order": len(timing),
                        "prompt_tokens": 16,
                        "tokens": tokens,
                        "wall_seconds": wall,
                        "prefill_seconds": 0.1 * wall,
                        "draft_seconds": 0.3 * wall * spec,
                        "verify_seconds": 0.5 * wall * spec,
                        "commit_seconds": 0.05 * wall * spec,
                        "forwards": 2 * len(accepted_k) if spec else tokens,
                        "cycles": len(accepted_k) if spec else tokens,
                        "accepted": sum(accepted_k) if spec else 0,
                        "offered": (block_size - 1) * len(accepted_k) if spec else 0,
                        "token_ids_sha": hashlib.sha256(key["prompt_id"].encode()).hexdigest(),
                        "load_before": 0.05,
                        "busy": 0,
                    }
                )
                if spec:
                    cycles += _cycle_rows(key, accepted_k, tokens, block_size)
                else:
                    cycles += [{**key, "cycle": i, **NATIVE_CYCLE} for i in range(tokens)]
    return _ordered(timing, "timing"), _ordered(cycles, "cycles")


def _ordered(rows, schema_name) -> pd.DataFrame:
    return pd.DataFrame(rows)[columns(schema_name)]


def _accepted_per_cycle(rng, tokens, block_size) -> list[int]:
    accepted_k, left = [], tokens
    while left > 0:
        accepted_k.append(min(int(rng.integers(0, block_size)), max(left - 2, 0)))
        left -= accepted_k[-1] + 2
    return accepted_k


def _cycle_rows(key, accepted_k, tokens, block_size) -> list[dict]:
    rows, left = [], tokens
    for cycle, accepted in enumerate(accepted_k):
        committed = min(accepted + 2, left)
        left -= committed
        offered = block_size - 1
        rows.append(
            {
                **key,
                "cycle": cycle,
                "accepted": accepted,
                "offered": offered,
                "committed": committed,
            }
        )
    return rows
