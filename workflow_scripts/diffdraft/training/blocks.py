"""Draft blocks inside a training window: where they start, what is noise, what is supervised.

A block of size L is a seed row and L - 1 draft rows; slot k (the k-th row after the seed) predicts
the token k + 1 places after the seed. In a window x[0..W-1] the published layout has one block, the
suffix, with its seed at W - L - 1. The layout `every_block` has n of them, L rows apart, the last
one being that suffix.

Shapes: B windows, n blocks a window, L block size, W window.
"""

from typing import NamedTuple

import mlx.core as mx

from diffdraft.drafters.noise import noise_ids
from diffdraft.errors import UserError


def suffix_seed(window: int, block: int) -> int:
    """Row of the seed of the last block; a window needs at least L + 2 tokens."""
    if window < block + 2:
        raise UserError("profile", "window", window, f"at least block_size + 2 = {block + 2}")
    return window - block - 1


def block_seeds(window: int, block: int, layout: str) -> list[int]:
    """Rows of the seeds of all supervised blocks, ascending; the last is `suffix_seed`.

    Raises `UserError` when `every_block` does not tile the window.
    """
    last = suffix_seed(window, block)
    if layout == "suffix":
        return [last]
    if window % block:
        found, expected = f"{window} with block_size {block}", "a multiple of block_size"
        raise UserError("profile", "window", found, expected, "Or take the layout suffix")
    return list(range(block - 1, last + 1, block))


class Corruption(NamedTuple):
    """Draft rows [.., L - 1]: their ids, which of them are noise (0/1), and the rate t [.., 1]."""

    ids: mx.array
    level: mx.array
    rate: mx.array


def corrupt(clean: mx.array, mode: str, key: mx.array, noise_high: int) -> Corruption:
    """Replace draft rows by noise ids: all of them (`full`), or each with the block's rate t.

    One key serves a batch: split in three, for noise ids, rate and row draws in that order
    (qwen-block-diffusion-lab, training batch). `uniform` draws t from U(0, 1) per block.
    """
    noise_key, rate_key, row_key = mx.random.split(key, 3)
    noise = noise_ids(noise_key, clean.shape, noise_high)
    one_rate = (*clean.shape[:-1], 1)
    if mode == "full":
        return Corruption(noise, mx.ones(clean.shape, dtype=mx.int32), mx.ones(one_rate))
    rate = mx.random.uniform(shape=one_rate, key=rate_key)
    is_noise = mx.random.uniform(shape=clean.shape, key=row_key) < rate
    return Corruption(mx.where(is_noise, noise, clean), is_noise.astype(mx.int32), rate)


def draft_rows(windows_BW: mx.array, seeds: list[int], block: int) -> mx.array:
    """The true tokens of all draft rows, [B, n, L - 1]."""
    rows_nL = mx.array(seeds)[:, None] + mx.arange(1, block)[None, :]
    return windows_BW[:, rows_nL]
