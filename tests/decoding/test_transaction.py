from diffdraft.decoding import transaction as module

# isort: split
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models import gated_delta
from mlx_lm.models.cache import KVCache, make_prompt_cache

from diffdraft.decoding.cache_state import CacheSnapshot, evaluate
from diffdraft.layers.gated_delta import delta_inputs
from tests.decoding import parts, plain_models

ALL = [module.SnapshotTransaction, module.ReplayTransaction, module.RewindTransaction]
MODELS = {}  # made once for all examples
BLOCKS = {
    "repeats": [5, 17, 5, 17, 5, 5, 17, 40, 2],
    "constant": [8] * 9,
    "varied": [int(i) for i in np.random.default_rng(0).permutation(60)[:9]],
}
WIDTHS_AND_ROWS = [(k + 1, rows) for k in (1, 2, 4, 8) for rows in range(k + 2)]


def filled_cache(target, prompt=parts.PROMPT):
    cache = make_prompt_cache(target.model)
    target.model(mx.array([prompt]), cache=cache)
    evaluate(cache)
    return cache


def committed(target, kind, block, rows):
    cache = filled_cache(target)
    transaction = kind(target.model, cache)
    logits = transaction.run(block)
    return cache, logits, transaction.commit(rows)


def masked_forward(target, block, rows):
    """The oracle in mlx-lm's own words: the same block, its last rows marked as padding."""
    cache = filled_cache(target)
    linear = [entry for entry in cache if not isinstance(entry, KVCache)]
    for entry in linear:
        entry.prepare(lengths=[rows])
    target.model(mx.array([block]), cache=cache)
    for entry in linear:
        entry.finalize()
    for entry in cache:
        if isinstance(entry, KVCache):
            entry.trim(len(block) - rows)
    return cache


def equal(ours, theirs):
    pairs = zip(parts.cache_arrays(ours), parts.cache_arrays(theirs), strict=True)
    return [bool(mx.array_equal(a, b)) for a, b in pairs]


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize(("width", "rows"), WIDTHS_AND_ROWS)
def test_snapshot_is_bit_equal_to_a_masked_forward_of_the_block(target, width, rows, name):
    block = BLOCKS[name][:width]
    cache, _, forwards = committed(target, module.SnapshotTransaction, block, rows)
    assert all(equal(cache, masked_forward(target, block, rows)))
    assert forwards == 0


@pytest.mark.parametrize("rows", range(6))
def test_recorded_state_is_bit_equal_to_the_stock_recurrence(target, rows):
    """Same inputs, first `rows` of them only, through mlx-lm's loop."""
    block = BLOCKS["varied"][:5]
    layer = target.model.layers[0]
    cache = filled_cache(target)
    window, state = cache[0].cache
    x = layer.input_layernorm(target.model.model.embed_tokens(mx.array([block])))
    inputs = delta_inputs(layer.linear_attn, x, window)
    expected = state
    if rows:
        heads = [t[:, :rows] for t in (inputs.q_BTNK, inputs.k_BTNK, inputs.v_BTHV)]
        gates = [t[:, :rows] for t in (inputs.g_BTH, inputs.beta_BTH)]
        _, expected = gated_delta.gated_delta_ops(*heads, *gates, state)
    transaction = module.SnapshotTransaction(target.model, cache)
    transaction.run(block)
    transaction.commit(rows)
    assert mx.array_equal(cache[0][1], expected)


@pytest.mark.parametrize(("width", "rows"), WIDTHS_AND_ROWS)
def test_snapshot_agrees_with_replay(target, width, rows):
    """Another width, so other matrix kernels: equal up to rounding; equal bits where no replay."""
    block = BLOCKS["varied"][:width]
    ours, logits, _ = committed(target, module.SnapshotTransaction, block, rows)
    theirs, stock_logits, forwards = committed(target, module.ReplayTransaction, block, rows)
    assert mx.array_equal(logits, stock_logits)
    assert forwards == int(0 < rows < width)
    for a, b in zip(parts.cache_arrays(ours), parts.cache_arrays(theirs), strict=True):
        assert mx.allclose(a, b, rtol=1e-4, atol=1e-5)
    if rows in (0, width):
        assert all(equal(ours, theirs))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("rows", [0, 1, 3, 5])
def test_decoding_goes_on_as_if_only_the_prefix_had_been_read(target, kind, rows):
    block = BLOCKS["varied"][:5]
    cache, _, _ = committed(target, kind, block, rows)
    following = [11, 12, 13]
    logits = target.model(mx.array([following]), cache=cache)[0]
    fresh = target.model(mx.array([parts.PROMPT + block[:rows] + following]))[0, -3:]
    assert mx.allclose(logits, fresh, atol=1e-4)
    assert mx.array_equal(mx.argmax(logits, -1), mx.argmax(fresh, -1))


@pytest.mark.parametrize("kind", ALL)
def test_taking_back_a_block_on_an_empty_cache(target, kind):
    cache = make_prompt_cache(target.model)
    transaction = kind(target.model, cache)
    transaction.run([4, 5])
    transaction.commit(0)
    after = target.model(mx.array([[9, 8]]), cache=cache)
    assert mx.array_equal(after, target.model(mx.array([[9, 8]])))


@pytest.mark.parametrize("kind", ALL)
def test_misuse_is_an_error(target, kind):
    transaction = kind(target.model, filled_cache(target))
    with pytest.raises(ValueError, match="not run"):
        transaction.commit(0)
    with pytest.raises(ValueError, match="at least one token"):
        transaction.run([])
    transaction.run([1, 2])
    for rows in (-1, 3):
        with pytest.raises(ValueError, match="cannot commit"):
            transaction.commit(rows)
    transaction.commit(1)
    with pytest.raises(ValueError, match="committed already"):
        transaction.commit(1)
    with pytest.raises(ValueError, match="runs one block"):
        transaction.run([1])


def test_attention_only_models_need_no_record():
    """A stock transformer: the offset alone says it all."""
    target = plain_models.make_qwen3()
    text = parts.PROMPT + parts.native(target, parts.PROMPT, 20).tokens
    drafter = parts.Scripted(text, target.vocab_size, lambda cycle: {1 + cycle % 4})
    trace = parts.scripted(target, drafter, 4, 20)
    assert parts.PROMPT + trace.tokens == text
    assert [cycle.accepted for cycle in trace.cycles[:4]] == [1, 2, 3, 0]
    assert trace.forwards == 1 + 2 * len(trace.cycles)


def contents(cache):
    return plain_models.visible_arrays(cache)


CYCLES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 60), max_size=5),  # drafted and taken back
        st.lists(st.integers(0, 60), min_size=1, max_size=6),  # verified
        st.integers(0, 6),  # committed, at most the block
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize(
    ("make", "kind"),
    [*((parts.make_target, kind) for kind in ALL), (plain_models.make_gemma3, ALL[0])],
)
@settings(deadline=None, max_examples=12)
@given(prompt=st.lists(st.integers(0, 60), max_size=20), cycles=CYCLES)
def test_any_history_leaves_what_a_fresh_prefill_leaves(make, kind, prompt, cycles):
    """Up to rounding, as widths differ; and the same greedy token follows."""
    model = MODELS.setdefault(make, make()).model
    cache, seen = make_prompt_cache(model), list(prompt)
    if prompt:
        model(mx.array([prompt]), cache=cache)
    for draft, block, rows in cycles:
        snapshot = CacheSnapshot.take(cache)
        if draft:
            model(mx.array([draft]), cache=cache)
        snapshot.restore()
        transaction = kind(model, cache)
        transaction.run(block)
        rows = min(rows, len(block))
        transaction.commit(rows)
        seen += block[:rows]
    fresh = make_prompt_cache(model)
    if seen:
        model(mx.array([seen]), cache=fresh)
        for ours, theirs in zip(contents(cache), contents(fresh), strict=True):
            assert mx.allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    ours, theirs = (model(mx.array([[7]]), cache=entries)[0, -1] for entries in (cache, fresh))
    assert mx.allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    best, second = sorted(theirs.tolist())[-1:-3:-1]
    if best - second > 2e-3:  # closer ones may swap by rounding
        assert mx.argmax(ours) == mx.argmax(theirs)
