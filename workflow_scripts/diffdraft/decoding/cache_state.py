"""What a decoder must be able to take back: rows of attention, contents of recurrent caches.

A `KVCache` is append-only, so its offset says it all, and holding no reference to its arrays lets
MLX write new rows in place. A linear layer's `ArraysCache` replaces its arrays at every forward,
so keeping references to the old ones is a snapshot that costs nothing. A `RotatingKVCache` does
both: a forward over several rows makes new arrays, one over a single row overwrites the oldest row
of the arrays it has. Its snapshot holds a handle of its own, from which MLX copies before it
writes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache

from diffdraft.errors import UserError
from diffdraft.layers.walk import text_model

CANNOT = "Speculative decoding cannot take this cache back"


def check_supported(model: Any, cache: list[Any]) -> None:
    """Raise `UserError` for a cache that cannot be cut back exactly (quantized, chunked, ...)."""
    layers = text_model(model).layers
    if len(layers) != len(cache):
        found = f"{len(cache)} caches"
        raise UserError("target", "cache", found, f"one for each of {len(layers)} layers", CANNOT)
    for index, (layer, entry) in enumerate(zip(layers, cache, strict=True)):
        if getattr(layer, "is_linear", False):
            _check_linear(index, layer, entry)
        else:
            _check_attention(index, entry)


def _check_linear(index: int, layer: Any, entry: Any) -> None:
    field = f"cache of layer {index}"
    if type(entry) is not ArraysCache:
        expected = "ArraysCache on a gated delta layer"
        raise UserError("target", field, type(entry).__name__, expected, CANNOT)
    mixer = getattr(layer, "linear_attn", None)
    if not hasattr(mixer, "in_proj_qkv"):
        found, expected = type(mixer).__name__, "the gated delta layer of Qwen3.5"
        raise UserError("target", f"layer {index}", found, expected, CANNOT)
    if entry.lengths is not None or entry.left_padding is not None:
        raise UserError("target", field, "a padded batch", "one unpadded sequence")


def _check_attention(index: int, entry: Any) -> None:
    field, found = f"cache of layer {index}", type(entry).__name__
    if type(entry) not in (KVCache, RotatingKVCache):
        expected = "KVCache or RotatingKVCache on an attention layer"
        raise UserError("target", field, found, expected, CANNOT)
    if type(entry) is RotatingKVCache and entry.keep != 0:
        # `mlx_lm` masks a block as if the kept rows had slid out of the window.
        found = f"{found} with keep={entry.keep}"
        raise UserError("target", field, found, "RotatingKVCache with keep=0", CANNOT)


class _Rotating(NamedTuple):
    """What a rotating cache holds: arrays [B, N, R, H] (None when empty) and its two pointers."""

    keys_BNRH: mx.array | None
    values_BNRH: mx.array | None
    offset: int
    next_row: int

    @classmethod
    def of(cls, entry: Any) -> "_Rotating":
        return cls(_handle(entry.keys), _handle(entry.values), entry.offset, entry._idx)

    def restore(self, entry: Any) -> None:
        # The handles stay here: the entry may write into its own before the next restore.
        entry.keys, entry.values = _handle(self.keys_BNRH), _handle(self.values_BNRH)
        entry.offset, entry._idx = self.offset, self.next_row


def _handle(array: mx.array | None) -> mx.array | None:
    """A second Python object for the same data: assigning to a slice changes one object only."""
    return None if array is None else array[...]


@dataclass(frozen=True)
class CacheSnapshot:
    """The state of all layers at one moment."""

    cache: list[Any]
    saved: list[Any]

    @classmethod
    def take(cls, cache: list[Any]) -> "CacheSnapshot":
        """Remember the cache as it is now."""
        return cls(cache, [_save(entry) for entry in cache])

    def restore(self) -> None:
        """Put the cache back, as often as wanted.

        Rows that a `KVCache` got since lie beyond its offset and are overwritten.
        """
        for entry, saved in zip(self.cache, self.saved, strict=True):
            if isinstance(entry, KVCache):
                entry.offset = saved
            elif isinstance(entry, RotatingKVCache):
                saved.restore(entry)
            else:
                entry.cache = list(saved)

    def move_attention(self, rows: int) -> None:
        """Set every attention layer to `rows` tokens after the snapshot.

        The cache has been through one forward since, over at least `rows` tokens.
        """
        for entry, saved in zip(self.cache, self.saved, strict=True):
            if isinstance(entry, KVCache):
                entry.offset = saved + rows
            elif isinstance(entry, RotatingKVCache):
                if rows == 0:
                    saved.restore(entry)
                else:
                    _cut_to(entry, saved.offset + rows)

    def check_length(self, rows: int) -> None:
        """Raise if an attention layer does not hold exactly `rows` tokens more than then."""
        for entry, saved in zip(self.cache, self.saved, strict=True):
            if isinstance(entry, ArraysCache):
                continue
            expected = rows + (saved if isinstance(entry, KVCache) else saved.offset)
            if entry.offset != expected:
                raise RuntimeError(f"cache holds {entry.offset} tokens, not {expected}")


def _save(entry: Any) -> Any:
    if isinstance(entry, KVCache):
        return entry.offset
    return _Rotating.of(entry) if isinstance(entry, RotatingKVCache) else list(entry.cache)


def _cut_to(entry: Any, offset: int) -> None:
    """Drop the newest rows of a rotating cache, so that `offset` tokens have been read.

    A forward over W rows leaves the last (window - 1) old rows and the W new ones in order of
    time. Without the last W - m of them that is what a forward over m rows leaves; so nothing is
    lost as long as m is at least 1.
    """
    surplus = entry.offset - offset
    if surplus == 0:
        return
    keys_BNRH, values_BNRH = temporal_rows(entry)
    kept = keys_BNRH.shape[2] - surplus
    if surplus < 0 or kept < min(offset, entry.max_size):
        raise RuntimeError(f"cannot cut a window of {entry.max_size} back by {surplus} tokens")
    entry.keys, entry.values = keys_BNRH[..., :kept, :], values_BNRH[..., :kept, :]
    entry.offset, entry._idx = offset, kept


def temporal_rows(entry: Any) -> tuple[mx.array, mx.array]:
    """Keys and values [B, N, R, H] that an attention cache holds, the oldest row first."""
    if isinstance(entry, KVCache):
        return entry.keys[..., : entry.offset, :], entry.values[..., : entry.offset, :]
    return entry._temporal_order(entry.keys), entry._temporal_order(entry.values)


def evaluate(cache: list[Any]) -> None:
    """Compute what the cache holds, so that no graph grows from cycle to cycle."""
    mx.eval([entry.state for entry in cache])
