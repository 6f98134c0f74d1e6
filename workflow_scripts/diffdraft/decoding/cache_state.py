"""What a decoder must be able to take back: offsets of attention, contents of recurrent caches.

A `KVCache` is append-only, so its offset says it all, and holding no reference to its arrays lets
MLX write new rows in place. A linear layer's `ArraysCache` replaces its arrays at every forward,
so keeping references to the old ones is a snapshot that costs nothing.
"""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, KVCache

from diffdraft.errors import UserError
from diffdraft.layers.walk import text_model


def check_supported(model: Any, cache: list[Any]) -> None:
    """Raise `UserError` for a cache that cannot be cut back exactly (rotating, quantized, ...)."""
    for index, (layer, entry) in enumerate(zip(text_model(model).layers, cache, strict=True)):
        linear = bool(getattr(layer, "is_linear", False))
        if type(entry) is not (ArraysCache if linear else KVCache):
            raise UserError(
                "target",
                f"cache of layer {index}",
                type(entry).__name__,
                "ArraysCache on a gated delta layer, KVCache on an attention layer",
                "Speculative decoding cannot take this cache back",
            )
        if linear and (entry.lengths is not None or entry.left_padding is not None):
            raise UserError(
                "target", f"cache of layer {index}", "a padded batch", "one unpadded sequence"
            )


@dataclass(frozen=True)
class CacheSnapshot:
    """The state of all layers at one moment."""

    cache: list[Any]
    saved: list[Any]

    @classmethod
    def take(cls, cache: list[Any]) -> "CacheSnapshot":
        """Remember the cache as it is now."""
        return cls(cache, [e.offset if isinstance(e, KVCache) else list(e.cache) for e in cache])

    def restore(self) -> None:
        """Put the cache back; rows written since lie beyond the offset and are overwritten."""
        for entry, saved in zip(self.cache, self.saved, strict=True):
            if isinstance(entry, KVCache):
                entry.offset = saved
            else:
                entry.cache = list(saved)

    def move_attention(self, rows: int) -> None:
        """Set every attention layer to `rows` tokens after the snapshot."""
        for entry, saved in zip(self.cache, self.saved, strict=True):
            if isinstance(entry, KVCache):
                entry.offset = saved + rows

    def check_length(self, rows: int) -> None:
        """Raise if an attention layer does not hold exactly `rows` tokens more than then."""
        for entry, saved in zip(self.cache, self.saved, strict=True):
            if isinstance(entry, KVCache) and entry.offset != saved + rows:
                raise RuntimeError(f"cache holds {entry.offset} tokens, not {saved + rows}")


def evaluate(cache: list[Any]) -> None:
    """Compute what the cache holds, so that no graph grows from cycle to cycle."""
    mx.eval([entry.state for entry in cache])
