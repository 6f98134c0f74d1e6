"""Sliding-window caches: taken back, cut, and filled again, before the window is full and after."""

from diffdraft.decoding import cache_state as module

# isort: split
import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import RotatingKVCache, make_prompt_cache

from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.decoding.transaction import ReplayTransaction, SnapshotTransaction
from tests.decoding import parts, plain_models

W = plain_models.WINDOW
BOTH = [SnapshotTransaction, ReplayTransaction]
FILLS = [
    (1,),
    (5,),
    (W - 1,),
    (W,),
    (W + 1,),
    (3 * W,),
    (5, 1, 1, 1, 1, 1),
    (3 * W, 1, 1),
    (1,) * 20,
]
BLOCK = [8, 40, 3, 57, 22]


@pytest.fixture(scope="module")
def gemma():
    target = plain_models.make_gemma3()
    tokens = parts.native(target, parts.PROMPT, 40).tokens
    assert len(set(tokens[:24])) >= 5
    return target


@pytest.fixture(scope="module")
def gemma_text(gemma):
    return parts.PROMPT + parts.native(gemma, parts.PROMPT, 60).tokens


class Feed:
    """Rows of keys and values that tell their place, for a cache without a model."""

    def __init__(self, *caches):
        self.caches = caches

    def rows(self, start, count):
        places = mx.arange(start, start + count, dtype=mx.float32)[None, None, :, None]
        keys = mx.concatenate([places, places + 0.25], axis=1)
        return keys, -keys

    def add(self, count):
        start = self.caches[0].offset
        return [cache.update_and_fetch(*self.rows(start, count)) for cache in self.caches]


def filled(fill, window=W):
    cache = RotatingKVCache(max_size=window)
    for count in fill:
        Feed(cache).add(count)
    module.evaluate([cache])
    return cache


def places(cache):
    return module.temporal_rows(cache)[0][0, 0, :, 0].tolist()


def state(cache):
    keys = None if cache.keys is None else cache.keys.tolist()
    return keys, cache.offset, cache._idx


@pytest.mark.parametrize("fill", [(), *FILLS])
@pytest.mark.parametrize("block", [(1,), (4,), (1, 1, 4), (4, 1), (3 * W,)])
def test_restore_is_exact_however_often(fill, block):
    """The one-row write is the trap: it changes the arrays that a bare reference would point at."""
    cache = filled(fill)
    before = state(cache)
    snapshot = module.CacheSnapshot.take([cache])
    for _ in range(3):
        for count in block:
            Feed(cache).add(count)
        assert cache.offset == before[1] + sum(block)
        snapshot.restore()
        assert state(cache) == before


@settings(deadline=None, max_examples=100)
@given(
    window=st.integers(2, 9),
    fill=st.lists(st.integers(1, 12), max_size=5),
    width=st.integers(1, 6),
    data=st.data(),
)
def test_a_cut_block_is_bit_equal_to_reading_the_prefix_only(window, fill, width, data):
    """Same rows into two caches; then both go on, a row or a block at a time, and stay equal."""
    rows = data.draw(st.integers(0, width))
    cut, fresh = filled(fill, window), filled(fill, window)
    snapshot = module.CacheSnapshot.take([cut])
    Feed(cut).add(width)
    snapshot.move_attention(rows)
    snapshot.check_length(rows)
    if rows:
        Feed(fresh).add(rows)
    following = data.draw(st.lists(st.sampled_from([1, 1, 2, 5]), max_size=4))
    for count in [None, *following]:
        if count:
            Feed(cut, fresh).add(count)
        assert cut.offset == fresh.offset
        if cut.offset:
            ours, theirs = plain_models.visible_arrays([cut]), plain_models.visible_arrays([fresh])
            assert all(mx.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
            last = list(range(cut.offset))[-(window - 1) :]
            assert places(cut)[-len(last) :] == last


@pytest.mark.parametrize("fill", FILLS)
def test_one_row_after_a_cut_sees_exactly_the_window(fill):
    cache = filled(fill)
    snapshot = module.CacheSnapshot.take([cache])
    Feed(cache).add(5)
    snapshot.move_attention(2)
    ((keys, values),) = Feed(cache).add(1)
    seen = list(range(cache.offset))[-W:]
    assert sorted(keys[0, 0, :, 0].tolist()) == seen
    assert sorted((-values[0, 0, :, 0]).tolist()) == seen


def test_a_cut_that_would_lose_rows_is_an_error():
    cache = filled((3 * W,))
    snapshot = module.CacheSnapshot.take([cache])
    Feed(cache).add(4)
    Feed(cache).add(2)
    with pytest.raises(RuntimeError, match="cannot cut a window of 8 back by 4 tokens"):
        snapshot.move_attention(2)
    with pytest.raises(RuntimeError, match="cannot cut"):
        snapshot.move_attention(7)
    with pytest.raises(RuntimeError, match="holds 30 tokens, not 26"):
        snapshot.check_length(2)


def model_cache(target, fill):
    cache, place = make_prompt_cache(target.model), 0
    ids = [int(i) for i in range(1, 61)]
    for count in fill:
        target.model(mx.array([ids[place : place + count]]), cache=cache)
        place += count
    module.evaluate(cache)
    return cache, ids[:place]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize(("width", "rows"), [(1, 0), (1, 1), (5, 0), (5, 1), (5, 4), (5, 5)])
def test_a_commit_leaves_what_a_fresh_prefill_leaves(gemma, fill, width, rows, kind):
    """Up to rounding, as widths differ; then one row, and a draft that is taken back."""
    cache, seen = model_cache(gemma, fill)
    transaction = kind(gemma.model, cache)
    transaction.run(BLOCK[:width])
    assert transaction.commit(rows) == int(kind is ReplayTransaction and 0 < rows < width)
    seen = seen + BLOCK[:rows]
    fresh = make_prompt_cache(gemma.model)
    gemma.model(mx.array([seen]), cache=fresh)
    pairs = zip(plain_models.visible_arrays(cache), plain_models.visible_arrays(fresh), strict=True)
    assert all(mx.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in pairs)
    snapshot = module.CacheSnapshot.take(cache)
    for draft in ([9], [9, 7, 5]):
        gemma.model(mx.array([draft]), cache=cache)
        snapshot.restore()
    native = gemma.model(mx.array([[33]]), cache=cache)[0, -1]
    expected = gemma.model(mx.array([[*seen, 33]]))[0, -1]
    assert mx.allclose(native, expected, rtol=1e-3, atol=1e-3)
    assert mx.argmax(native) == mx.argmax(expected)


@pytest.mark.parametrize("fill", FILLS)
def test_a_full_or_empty_commit_is_bit_equal_to_the_oracle(gemma, fill):
    for rows in (0, 5):
        caches = []
        for kind in BOTH:
            cache, _ = model_cache(gemma, fill)
            transaction = kind(gemma.model, cache)
            transaction.run(BLOCK)
            transaction.commit(rows)
            caches.append(plain_models.visible_arrays(cache))
        assert all(mx.array_equal(a, b) for a, b in zip(*caches, strict=True))


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize("prompt_tokens", [1, 10])
def test_drafted_text_past_the_window_is_the_text_without_a_cache(gemma, prompt_tokens, size, kind):
    prompt = parts.PROMPT[:prompt_tokens]
    expected = list(prompt)
    for _ in range(3 * W):
        expected.append(parts.next_token(gemma, expected))
    assert parts.native(gemma, prompt, 3 * W).tokens == expected[prompt_tokens:]
    drafter = parts.Scripted(expected + [0] * 9, gemma.vocab_size, lambda c: {1 + c % 3, 5})
    greedy, policy = parts.GreedyAcceptance(), FixedBlock(size)
    trace = decode(gemma, drafter, greedy, policy, prompt, 3 * W, commit=kind)
    assert prompt + trace.tokens == expected


def test_native_text_is_what_mlx_lm_generates(gemma, gemma_text):
    steps = generate_step(mx.array(parts.PROMPT), gemma.model, max_tokens=60)
    assert parts.PROMPT + [int(token) for token, _ in steps] == gemma_text
