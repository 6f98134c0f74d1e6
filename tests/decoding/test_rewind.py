from diffdraft.decoding import rewind as module

# isort: split
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.models.gated_delta import gated_delta_ops

from diffdraft.decoding.cache_state import evaluate
from diffdraft.decoding.transaction import RewindTransaction, SnapshotTransaction
from diffdraft.layers.gated_delta import DeltaSteps
from tests.decoding import parts

H, N, K, V = 4, 2, 8, 6
LIMIT = RewindTransaction.AMPLIFICATION_LIMIT
EPSILON = 2.0**-23
BLOCK = [5, 17, 44, 2, 31]


def unit(rng, *shape):
    drawn = rng.normal(size=shape)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def make_steps(beta_TH, g_TH, seed=0, dtype=mx.float32):
    rng = np.random.default_rng(seed)
    beta_TH, g_TH = np.atleast_2d(beta_TH), np.atleast_2d(g_TH)
    T = len(beta_TH)
    keys, values = unit(rng, 1, T, N, K), rng.normal(size=(1, T, H, V))
    wide = [mx.array(tensor.astype(np.float32)).astype(dtype) for tensor in (keys, values)]
    gates = [mx.array(np.broadcast_to(gate, (T, H)), mx.float32)[None] for gate in (g_TH, beta_TH)]
    return DeltaSteps(*wide, *gates)


def forward_states(steps, seed=1):
    """mlx-lm's own recurrence, a token at a time."""
    state = mx.array(np.random.default_rng(seed).normal(size=(1, H, V, K)).astype(np.float32))
    states = [state]
    for t in range(steps.g_BTH.shape[1]):
        k, v, g, beta = (tensor[:, t : t + 1] for tensor in steps)
        states.append(gated_delta_ops(k, k, v, g, beta, states[-1])[1])
    mx.eval(states)
    return states


def oracle(states, steps, rows, limit):
    """The same by loops over heads, in float64, with the inverse found by linear algebra."""
    k, v, g, beta = (np.array(t.astype(mx.float32), np.float64)[0] for t in steps)
    exact = [np.array(state, np.float64)[0] for state in states]
    result, fallbacks = exact[-1].copy(), 0
    heads = v.shape[1]
    for h in range(heads):
        product = 1.0
        for t in range(len(states) - 2, rows - 1, -1):
            key = k[t, h * k.shape[1] // heads]
            keep = np.eye(len(key)) - beta[t, h] * np.outer(key, key)
            product /= max(g[t, h] * (1 - beta[t, h] * key @ key), 1e-30)
            if product <= limit:
                wrote = beta[t, h] * np.outer(v[t, h], key)
                result[h] = (result[h] - wrote) @ np.linalg.inv(keep) / g[t, h]
            else:
                result[h], product, fallbacks = exact[t][h], 1.0, fallbacks + 1
    return result, fallbacks


def tolerance(states, limit):
    """Every operation of a step rounds by half a unit of the largest number about, or less; an
    undo before the next exact state multiplies that by at most `limit`. A step and its undo are
    ten operations, and there are up to eight steps."""
    largest = max(float(mx.abs(state).max()) for state in states)
    return limit * EPSILON * largest * 8 * 10 / 2


@settings(deadline=None, max_examples=80)
@given(
    gates=st.lists(
        st.tuples(
            st.lists(st.floats(0, 1, width=32), min_size=H, max_size=H),
            st.lists(st.floats(0, 1, width=32), min_size=H, max_size=H),
        ),
        min_size=1,
        max_size=8,
    ),
    data=st.data(),
)
def test_the_state_is_the_recorded_one_within_the_amplified_rounding(gates, data):
    beta, g = (np.array(column) for column in zip(*gates, strict=True))
    steps = make_steps(beta, g, seed=data.draw(st.integers(0, 9)))
    states = forward_states(steps)
    rows = data.draw(st.integers(0, len(gates)))
    rewound = module.rewind(states, steps, rows, LIMIT)
    assert mx.allclose(rewound.state_BHVK, states[rows], rtol=0, atol=tolerance(states, LIMIT))
    assert rewound.steps == H * (len(gates) - rows)
    assert 0 <= rewound.fallbacks.item() <= rewound.steps


@pytest.mark.parametrize("limit", [1.0, 3.0, 20.0, LIMIT, 1e4])
@pytest.mark.parametrize("rows", [0, 2, 5])
def test_against_loops_and_linear_algebra(limit, rows):
    rng = np.random.default_rng(3)
    steps = make_steps(rng.uniform(0.05, 0.97, (6, H)), rng.uniform(0.4, 1, (6, H)))
    states = forward_states(steps)
    rewound = module.rewind(states, steps, rows, limit)
    expected, fallbacks = oracle(states, steps, rows, limit)
    bound = tolerance(states, limit)
    assert np.abs(np.array(rewound.state_BHVK)[0] - expected).max() < bound
    assert rewound.fallbacks.item() == fallbacks


def test_one_step_is_undone_to_rounding():
    """The sheet's own check of the inverse formula: 4.8e-7."""
    steps = make_steps(0.5, 0.9)
    states = forward_states(steps)
    rewound = module.rewind(states, steps, 0, LIMIT)
    assert not mx.array_equal(rewound.state_BHVK, states[0])
    assert mx.abs(rewound.state_BHVK - states[0]).max() < 2e-6


@pytest.mark.parametrize(
    ("share", "fallbacks"),
    [
        # 20 a step, from the last step back: 20, then 400 is refused and starts at 1 again, 20.
        ([1 / 20] * 3, 1),
        ([1 / 20] * 4, 2),
        ([1 / 4] * 3, 0),  # 4, 16, 64
        ([1 / 4] * 4, 1),  # 256 is not
        ([1 / 99], 0),
        ([1 / 101], 1),
        ([1 / 101, 1 / 101, 1 / 99], 2),
        ([0.0, 1.0], 1),
    ],
)
@pytest.mark.parametrize("by", ["decay", "gap"])
def test_the_guard_counts_the_product_since_the_last_exact_state(share, fallbacks, by):
    share_T1 = np.array(share)[:, None]
    steps = make_steps(0 * share_T1, share_T1) if by == "decay" else make_steps(1 - share_T1, 1)
    states = forward_states(steps)
    rewound = module.rewind(states, steps, 0, LIMIT)
    assert rewound.fallbacks.item() == fallbacks * H
    assert mx.allclose(rewound.state_BHVK, states[0], rtol=0, atol=tolerance(states, LIMIT))


def test_heads_fall_back_one_by_one():
    beta = np.array([[0.5, 1.0, 0.5, 0.999]])
    steps = make_steps(beta, 0.9)
    states = forward_states(steps)
    rewound = module.rewind(states, steps, 0, LIMIT)
    same = (rewound.state_BHVK == states[0]).all(axis=(2, 3))
    assert same.tolist() == [[False, True, False, True]]
    assert rewound.fallbacks.item() == 2


def test_without_the_guard_the_error_passes_what_the_guard_allows():
    """A step that leaves a 1e-5 of the state: the test that the tolerance is not too wide."""
    steps = make_steps(1 - 1e-5, 1.0)
    states = forward_states(steps)
    error = mx.abs(module.rewind(states, steps, 0, float("inf")).state_BHVK - states[0]).max()
    assert error > tolerance(states, LIMIT)


def test_keys_that_are_not_of_length_one_are_undone_too():
    """Rounded to bfloat16; with a length of 1 taken for granted, the error is far larger."""
    steps = make_steps([[0.97] * H] * 2, 0.95, dtype=mx.bfloat16)
    states = forward_states(steps)
    norms = (steps.k_BTNK.astype(mx.float32) ** 2).sum(-1)
    assert mx.abs(norms - 1).max() > 1e-4
    rewound = module.rewind(states, steps, 0, 1e4)
    assert rewound.fallbacks.item() == 0
    assert mx.allclose(rewound.state_BHVK, states[0], rtol=0, atol=tolerance(states, 1e4))


class Never(RewindTransaction):
    """No step is ever undone."""

    AMPLIFICATION_LIMIT = 0.0


def committed(target, kind, rows):
    cache = make_prompt_cache(target.model)
    target.model(mx.array([parts.PROMPT]), cache=cache)
    evaluate(cache)
    transaction = kind(target.model, cache)
    logits = transaction.run(BLOCK)
    assert transaction.commit(rows) == 0
    return transaction, parts.cache_arrays(cache), logits


@pytest.mark.parametrize("rows", range(6))
def test_a_commit_is_that_of_the_snapshot_within_the_amplified_rounding(target, rows):
    snapshot, theirs, stock = committed(target, SnapshotTransaction, rows)
    rewind, ours, logits = committed(target, RewindTransaction, rows)
    assert mx.array_equal(logits, stock)
    states = [state for layer in snapshot.recorded.values() for state in layer.states_BHVK]
    bound = tolerance(states, LIMIT)
    for a, b in zip(ours, theirs, strict=True):
        assert mx.allclose(a, b, rtol=0, atol=bound)
    layers, heads = 3, 2
    undone = 0 if rows == 0 else 5 - rows
    assert rewind.rewind_steps == layers * heads * undone
    recorded = [] if rows == 0 else rewind.recorded.values()
    counts = [oracle(layer.states_BHVK, layer.steps, rows, LIMIT)[1] for layer in recorded]
    assert rewind.rewind_fallbacks == sum(counts) < max(1, rewind.rewind_steps)
    equal = all(mx.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert equal == (undone == 0)


@pytest.mark.parametrize("rows", range(6))
def test_with_every_step_refused_the_commit_is_bit_equal_to_the_snapshot(target, rows):
    _, theirs, _ = committed(target, SnapshotTransaction, rows)
    rewind, ours, _ = committed(target, Never, rows)
    assert all(mx.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert rewind.rewind_fallbacks == rewind.rewind_steps
    assert (rewind.rewind_steps > 0) == (0 < rows < 5)


@pytest.mark.parametrize(
    ("size", "kind"),
    [(1, RewindTransaction), (2, RewindTransaction), (4, RewindTransaction), (4, Never)],
)
def test_whole_decodes_say_what_the_snapshot_says(adapted, text, size, kind):
    target, adapter = adapted
    seen = []

    class Watched(kind):
        def commit(self, rows):
            seen.append(self)
            return super().commit(rows)

    trace = parts.uno(target, adapter, size, parts.PROMPT, 24, commit=Watched)
    snapshot = parts.uno(target, adapter, size, parts.PROMPT, 24, commit=SnapshotTransaction)
    assert trace.tokens == snapshot.tokens == text[len(parts.PROMPT) :][:24]
    assert trace.forwards == snapshot.forwards == 1 + 2 * len(trace.cycles)
    assert [c.accepted for c in trace.cycles] == [c.accepted for c in snapshot.cycles]
    dropped = sum(1 + c.block_size - c.committed for c in trace.cycles)
    assert sum(transaction.rewind_steps for transaction in seen) == 6 * dropped
    fallbacks = sum(transaction.rewind_fallbacks for transaction in seen)
    if kind is Never:
        assert fallbacks == 6 * dropped
    else:
        assert fallbacks < 6 * dropped or dropped == 0
    assert dropped > 0 or size == 1
