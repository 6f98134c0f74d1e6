from diffdraft.decoding import cache_state as module

# isort: split
import mlx.core as mx
import pytest
from mlx_lm.models.cache import KVCache, QuantizedKVCache, RotatingKVCache, make_prompt_cache

from diffdraft.errors import UserError
from tests.decoding import parts


def test_restore_is_bit_exact(target):
    cache = make_prompt_cache(target.model)
    target.model(mx.array([parts.PROMPT]), cache=cache)
    module.evaluate(cache)
    before = [mx.array(array) for array in parts.cache_arrays(cache)]
    snapshot = module.CacheSnapshot.take(cache)
    target.model(mx.array([[1, 2, 3]]), cache=cache)
    module.evaluate(cache)
    moved = [
        not mx.array_equal(a, b) if a.shape == b.shape else True
        for a, b in zip(before, parts.cache_arrays(cache), strict=True)
    ]
    assert all(moved)
    snapshot.restore()
    after = parts.cache_arrays(cache)
    assert all(mx.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_wrong_length_is_noticed(target):
    cache = make_prompt_cache(target.model)
    snapshot = module.CacheSnapshot.take(cache)
    target.model(mx.array([[1, 2, 3]]), cache=cache)
    snapshot.check_length(3)
    with pytest.raises(RuntimeError, match="holds 3 tokens, not 2"):
        snapshot.check_length(2)


@pytest.mark.parametrize(
    ("layer", "entry"),
    [(3, RotatingKVCache(max_size=8)), (3, QuantizedKVCache()), (0, KVCache())],
)
def test_unsupported_caches_are_refused_by_name(target, layer, entry):
    cache = make_prompt_cache(target.model)
    module.check_supported(target.model, cache)
    cache[layer] = entry
    with pytest.raises(UserError) as caught:
        module.check_supported(target.model, cache)
    assert f"cache of layer {layer}: found {type(entry).__name__}; expected" in str(caught.value)


def test_padded_batches_are_refused(target):
    cache = make_prompt_cache(target.model)
    cache[1].prepare(lengths=[3])
    with pytest.raises(UserError, match="cache of layer 1: found a padded batch"):
        module.check_supported(target.model, cache)
