"""Named random streams: a key is a pure function of (seed, stream, step).

No generator is carried from step to step, so a resumed run, a skipped evaluation or another batch
order draws the same numbers, and two uses never share a stream by accident.
The hash is that of qwen-block-diffusion-lab: three rounds of the splitmix64 finaliser
(Steele, Lea and Flood 2014) over seed, stream and step.
"""

MASK_64 = (1 << 64) - 1
SEED_MULTIPLIER = 0x9E3779B97F4A7C15
STREAM_MULTIPLIER = 0xC2B2AE3D27D4EB4F
STEP_MULTIPLIER = 0x165667B19E3779F9

# A stream's id is its eight ASCII letters read as one big-endian integer.
STREAM_LETTERS = {
    "train_noise": "TRAIN_NZ",
    "train_corruption_rate": "TRAIN_RT",
    "eval_noise": "EVAL_NZZ",
    "eval_sampling": "EVAL_SPL",
    "data_sampling": "DATA_SPL",
    "bench_noise": "BENCH_NZ",
}
STREAMS = {name: int.from_bytes(s.encode("ascii"), "big") for name, s in STREAM_LETTERS.items()}


def splitmix64(z: int) -> int:
    """Finaliser of splitmix64, a bijection of 64-bit integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK_64
    return z ^ (z >> 31)


def stream_key(seed: int, stream: str, step: int) -> int:
    """64-bit key of one draw, for `mlx.core.random.key` or any other keyed generator.

    Raises:
        KeyError: `stream` is not one of `STREAMS`.
    """
    key = splitmix64((seed * SEED_MULTIPLIER) & MASK_64)
    key = splitmix64(key ^ ((STREAMS[stream] * STREAM_MULTIPLIER) & MASK_64))
    return splitmix64(key ^ ((step * STEP_MULTIPLIER) & MASK_64))
