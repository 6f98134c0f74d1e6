"""Passes after the first: where the tokens of a draft stand when it is read in again."""

from diffdraft.drafters import uno as module

# isort: split
from contextlib import contextmanager
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.drafters.base import DraftRequest
from diffdraft.drafters.noise import noise_ids, random_key
from diffdraft.errors import UserError
from tests.decoding import parts
from tests.drafters.test_sizes import NOT_SIZES

VOCABULARY = 101
SEED = 5


def spoken(ids):
    """What the scripted model says: a function of a row's own input and place, and nothing else."""
    return [(7 * token + 3 * row + 1) % VOCABULARY for row, token in enumerate(ids)]


class ScriptedTarget:
    """Stands for target and adapter: speaks by `spoken`, and notes ids and gate of every pass."""

    noise_high = 90

    def __init__(self):
        self.passes = []
        self.gate = None

    @contextmanager
    def rows(self, gate_BK):
        self.gate = gate_BK.tolist()[0]
        yield
        self.gate = None

    def model(self, ids_BK, cache):
        assert ids_BK.shape[0] == 1
        ids = ids_BK.tolist()[0]
        self.passes.append((ids, self.gate))
        return mx.eye(VOCABULARY)[mx.array(spoken(ids))][None]


def scripted_draft(passes, size, history=(3, 8)):
    target = ScriptedTarget()
    drafter = module.UnoDrafter(target, target, SEED, passes)
    return drafter.propose(DraftRequest(history, [], size, 1)), target.passes


def noise_of(size, noise_high, cycle=1):
    return noise_ids(random_key(SEED, "bench_noise", cycle), (size - 1,), noise_high).tolist()


@pytest.mark.parametrize("passes", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_pass_reads_the_draft_before_it_moved_by_one_place(passes, size):
    proposal, seen = scripted_draft(passes, size)
    ids = [8, *noise_of(size, ScriptedTarget.noise_high)]
    for found, gate in seen:
        assert found == ids
        assert gate == [0] + [1] * (size - 1)
        ids = [8, *spoken(ids)[:-1]]
    assert len(seen) == proposal.forwards == passes
    assert proposal.tokens == spoken(seen[-1][0])
    assert (proposal.given, proposal.offered) == (1, size - 1)


def test_a_draft_read_in_at_other_places_would_show():
    """The two wrong readings that keep the length give another draft: the test above can fail."""
    proposal, seen = scripted_draft(2, 4)
    first = spoken(seen[0][0])
    for wrong in ([8, *first[1:]], first):
        assert spoken(wrong) != proposal.tokens


@pytest.fixture(scope="module")
def adapted():
    target = parts.make_target()
    return target, parts.randomise(parts.Adapter.attach(target.model, parts.SPEC))


def propose(adapted, size, passes, **options):
    target, adapter = adapted
    cache = make_prompt_cache(target.model)
    target.model(mx.array([parts.PROMPT[:-1]]), cache=cache)
    drafter = module.UnoDrafter(target, adapter, SEED, passes, **options)
    return drafter.propose(DraftRequest(parts.PROMPT, cache, size, 3))


def slow_logits(adapted, size, passes):
    """Last pass's logits [K, V], each pass over context and block, without any cache."""
    target, adapter = adapted
    block = noise_of(size, target.noise_high, cycle=3)
    gate = mx.array([[0] * len(parts.PROMPT) + [1] * (size - 1)])
    for _ in range(passes):
        with adapter.rows(gate):
            logits = target.model(mx.array([parts.PROMPT + block]))[0, -size:]
        block = mx.argmax(logits, axis=-1).tolist()[:-1]
    return np.array(logits.astype(mx.float32))


@pytest.mark.parametrize("passes", [1, 2, 4])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_equals_passes_without_a_cache(adapted, size, passes):
    assert (
        propose(adapted, size, passes).tokens
        == slow_logits(adapted, size, passes).argmax(-1).tolist()
    )


def test_a_second_pass_changes_the_draft_and_not_the_given_token(adapted):
    once, twice = (propose(adapted, 8, passes).tokens for passes in (1, 2))
    assert once[0] == twice[0]
    assert once != twice


def test_one_pass_is_the_single_shot_draft(adapted):
    target, adapter = adapted
    default = module.UnoDrafter(target, adapter, SEED)
    traces = [
        decode(target, drafter, GreedyAcceptance(), FixedBlock(4), parts.PROMPT, 16)
        for drafter in (default, module.UnoDrafter(target, adapter, SEED, passes=1))
    ]
    assert propose(adapted, 4, 1).tokens == slow_logits(adapted, 4, 1).argmax(-1).tolist()
    assert traces[0].tokens == traces[1].tokens
    records = [[(c.accepted, c.committed, c.forwards) for c in t.cycles] for t in traces]
    assert records[0] == records[1]


@pytest.mark.parametrize("passes", [1, 2, 4])
@pytest.mark.parametrize("prompt", [parts.PROMPT, [44]])
def test_any_number_of_passes_decodes_the_native_text(adapted, passes, prompt):
    target, adapter = adapted
    drafter = module.UnoDrafter(target, adapter, SEED, passes)
    trace = decode(target, drafter, GreedyAcceptance(), FixedBlock(4), prompt, 16)
    assert trace.tokens == parts.native(target, prompt, 16).tokens
    prefill = int(len(prompt) > 1)
    assert trace.forwards == prefill + (passes + 1) * len(trace.cycles)


@pytest.mark.parametrize("passes", NOT_SIZES)
def test_passes_must_be_a_positive_whole_number(passes):
    with pytest.raises(UserError, match="passes"):
        module.UnoDrafter(SimpleNamespace(), SimpleNamespace(), 1, passes)


def softmax_lead(row):
    """Largest probability and its lead, in double precision."""
    weights = np.exp(row.astype(np.float64) - row.max())
    second, first = np.sort(weights / weights.sum())[-2:]
    return first, first - second


@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_confidence_is_the_last_passes_softmax_at_the_offered_slots(adapted, size, passes):
    proposal = propose(adapted, size, passes, confidence=True)
    expected = [softmax_lead(row) for row in slow_logits(adapted, size, passes)[1:]]
    assert len(proposal.confidence) == proposal.offered == size - 1
    for slot, (top1, margin) in zip(proposal.confidence, expected, strict=True):
        assert slot.top1 == pytest.approx(top1, rel=1e-4)
        assert slot.margin == pytest.approx(margin, rel=1e-3, abs=1e-5)
        assert 0 <= slot.margin <= slot.top1 <= 1


def test_confidence_is_given_only_on_request_and_changes_no_token(adapted):
    bare, sure = propose(adapted, 4, 1), propose(adapted, 4, 1, confidence=True)
    assert bare.confidence == ()
    assert bare.tokens == sure.tokens


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_softmax_runs_in_float32_whatever_the_logits_are(dtype):
    logits = (4 * mx.random.normal((5, 300), key=mx.random.key(2))).astype(dtype)
    found = module.slot_confidence(logits)
    expected = [softmax_lead(row) for row in np.array(logits.astype(mx.float32))]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_equal_largest_logits_have_no_margin():
    ((top1, margin),) = module.slot_confidence(mx.array([[1.0, 9.0, 9.0, 1.0]]))
    assert top1 == pytest.approx(0.5, abs=1e-3)
    assert margin == 0.0


def test_huge_logits_are_certainty():
    assert module.slot_confidence(mx.array([[3e4, -3e4, 0.0]])) == ((1.0, 1.0),)
