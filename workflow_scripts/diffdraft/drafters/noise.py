"""Noise ids from a keyed stream; MLX's global generator is neither read nor moved."""

import mlx.core as mx

from diffdraft.streams import stream_key


def random_key(seed: int, stream: str, step: int) -> mx.array:
    """The MLX key of one draw of a named stream (see `diffdraft.streams`)."""
    return mx.random.key(stream_key(seed, stream, step))


def noise_ids(key: mx.array, shape: tuple[int, ...], noise_high: int) -> mx.array:
    """Independent token ids, uniform in [1, `noise_high`), int32 of the shape given."""
    return mx.random.randint(1, noise_high, shape, key=key)
