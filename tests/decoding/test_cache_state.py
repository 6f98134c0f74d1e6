from diffdraft.decoding import cache_state as module

# isort: split
import mlx.core as mx
import pytest
from mlx_lm.models.cache import (
    ArraysCache,
    BatchKVCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from diffdraft.errors import UserError
from diffdraft.layers.walk import head, text_model
from diffdraft.targets.random import make_tiny_random
from tests.decoding import parts, plain_models


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
    ("layer", "entry", "found"),
    [
        (3, QuantizedKVCache(), "QuantizedKVCache"),
        (3, ChunkedKVCache(8), "ChunkedKVCache"),
        (3, CacheList(KVCache(), KVCache()), "CacheList"),
        (3, BatchKVCache([0]), "BatchKVCache"),
        (3, ArraysCache(2), "ArraysCache"),
        (3, RotatingKVCache(max_size=8, keep=4), "RotatingKVCache with keep=4"),
        (0, KVCache(), "KVCache"),
        (0, RotatingKVCache(max_size=8), "RotatingKVCache"),
    ],
)
def test_unsupported_caches_are_refused_by_name(target, layer, entry, found):
    cache = make_prompt_cache(target.model)
    module.check_supported(target.model, cache)
    cache[layer] = entry
    with pytest.raises(UserError) as caught:
        module.check_supported(target.model, cache)
    assert f"cache of layer {layer}: found {found}; expected" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [plain_models.make_gemma3, plain_models.make_qwen3])
def test_models_without_linear_layers_are_supported(make):
    model = make().model
    cache = make_prompt_cache(model)
    module.check_supported(model, cache)
    cache[2] = ArraysCache(2)
    with pytest.raises(UserError, match="cache of layer 2: found ArraysCache; expected KVCache or"):
        module.check_supported(model, cache)


def test_another_number_of_caches_than_layers_is_refused(target):
    cache = make_prompt_cache(target.model)
    with pytest.raises(UserError, match="cache: found 3 caches; expected one for each of 4 layers"):
        module.check_supported(target.model, cache[:3])


def test_linear_layers_of_another_kind_are_refused(target):
    class Mamba:
        pass

    class Layer:
        is_linear = True
        linear_attn = Mamba()

    class Model:
        layers = (Layer(),)

    with pytest.raises(UserError, match="layer 0: found Mamba; expected the gated delta layer"):
        module.check_supported(Model(), [ArraysCache(2)])


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("make", [plain_models.make_gemma3, plain_models.make_qwen3])
def test_the_head_is_the_models_own(make, tied):
    model = make(tied=tied).model
    ids = mx.array([parts.PROMPT])
    assert mx.array_equal(head(model, text_model(model).model(ids)), model(ids))


@pytest.mark.parametrize("tied", [False, True])
def test_the_head_of_a_hybrid_is_the_models_own(tied):
    model = make_tiny_random(1, tie_word_embeddings=tied).model
    ids = mx.array([parts.PROMPT])
    assert mx.array_equal(head(model, text_model(model).model(ids)), model(ids))


def test_padded_batches_are_refused(target):
    cache = make_prompt_cache(target.model)
    cache[1].prepare(lengths=[3])
    with pytest.raises(UserError, match="cache of layer 1: found a padded batch"):
        module.check_supported(target.model, cache)
