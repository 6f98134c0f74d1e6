from diffdraft.decoding import loop as module

# isort: split
from dataclasses import replace

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models.cache import RotatingKVCache

from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.decoding.transaction import ReplayTransaction, SnapshotTransaction
from diffdraft.drafters.base import Proposal
from diffdraft.errors import UserError
from tests.decoding import parts

SIZES = [1, 2, 4, 8]
COMMITS = [SnapshotTransaction, ReplayTransaction]


@pytest.fixture
def embedded(monkeypatch):
    """Widths of all forwards, noted where each of them begins: at the embedding."""
    return parts.watch_embedding(monkeypatch)


def record(trace):
    return [(c.accepted, c.committed, c.offered, c.block_size) for c in trace.cycles]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("kind", ["untrained", "random"])
def test_greedy_text_equals_native_text(adapted, text, size, commit, kind):
    target, adapter = adapted
    if kind == "untrained":
        target = parts.make_target()
        adapter = parts.Adapter.attach(target.model, parts.SPEC)
    trace = parts.uno(target, adapter, size, parts.PROMPT, 24, commit=commit)
    assert trace.tokens == text[len(parts.PROMPT) :][:24]


@pytest.mark.parametrize("size", SIZES)
def test_full_context_oracle(adapted, size):
    """Token by token against forwards without any cache, on other weights and another prompt."""
    target, adapter = adapted
    prompt = [44]
    tokens = parts.uno(target, adapter, size, prompt, 12).tokens
    for place, token in enumerate(tokens):
        assert token == parts.next_token(target, prompt + tokens[:place])


@pytest.mark.parametrize("size", SIZES)
def test_snapshot_and_replay_decode_the_same(adapted, size):
    target, adapter = adapted
    traces = [parts.uno(target, adapter, size, parts.PROMPT, 24, commit=kind) for kind in COMMITS]
    assert traces[0].tokens == traces[1].tokens
    assert record(traces[0]) == record(traces[1])


@settings(deadline=None, max_examples=12)
@given(
    size=st.sampled_from(SIZES),
    tokens=st.integers(1, 25),
    places=st.lists(st.sets(st.integers(1, 7), max_size=2), min_size=1, max_size=5),
    commit=st.sampled_from(COMMITS),
)
def test_any_pattern_of_hits_and_misses(target, text, size, tokens, places, commit):
    def wrong(cycle):
        return places[cycle % len(places)]

    drafter = parts.Scripted(text, target.vocab_size, wrong)
    trace = parts.scripted(target, drafter, size, tokens, commit=commit)
    assert trace.tokens == text[len(parts.PROMPT) :][:tokens]
    for cycle in trace.cycles:
        misses = [slot for slot in wrong(cycle.index) if slot < size]
        assert cycle.accepted == min(misses, default=size) - 1
        assert cycle.offered == size - 1
    for cycle in trace.cycles[:-1]:
        assert cycle.committed == cycle.accepted + 2
    assert sum(cycle.committed for cycle in trace.cycles) == tokens
    last = trace.cycles[-1]
    assert 1 <= last.committed <= last.accepted + 2
    replays = sum(cycle.committed < size + 1 for cycle in trace.cycles)
    replays = replays if commit is ReplayTransaction else 0
    assert trace.total("replays") == replays
    assert trace.forwards == 1 + 2 * len(trace.cycles) + replays


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("size", SIZES)
def test_forwards_counted_are_forwards_run(adapted, embedded, size, commit):
    target, adapter = adapted
    trace = parts.uno(target, adapter, size, parts.PROMPT, 21, commit=commit)
    assert trace.forwards == len(embedded) == 1 + 2 * len(trace.cycles) + trace.total("replays")
    assert (trace.total("replays") > 0) == (commit is ReplayTransaction)


def test_a_prompt_of_one_token_has_no_prefill(adapted, embedded):
    target, adapter = adapted
    trace = parts.uno(target, adapter, 4, [7], 9)
    assert trace.forwards == len(embedded) == 2 * len(trace.cycles)


def test_the_drafter_sees_all_committed_text_and_a_clean_cache(target, text):
    drafter = parts.Scripted(text, target.vocab_size, lambda cycle: {1 + cycle % 3})
    frontiers = []
    inner = drafter.propose

    def propose(request):
        frontiers.append((len(request.history), request.cache[3].offset))
        assert list(request.history) == text[: len(request.history)]
        return inner(request)

    drafter.propose = propose
    parts.scripted(target, drafter, 4, 30)
    assert all(offset == length - 1 for length, offset in frontiers)


@pytest.mark.parametrize("commit", COMMITS)
def test_a_stop_token_inside_a_block_ends_the_text(target, text, commit):
    new = text[len(parts.PROMPT) :]
    place = next(i for i in range(7, 40) if new[i] not in new[:i])
    drafter = parts.Scripted(text, target.vocab_size)
    trace = parts.scripted(target, drafter, 8, 50, commit=commit, stop_ids={new[place]})
    assert trace.tokens == new[: place + 1]
    last = trace.cycles[-1]
    assert last.committed < last.accepted + 2 or place % 9 == 8
    assert parts.native(target, parts.PROMPT, 50, stop_ids={new[place]}).tokens == trace.tokens


@pytest.mark.parametrize("tokens", range(1, 12))
def test_the_budget_is_exact(target, text, tokens):
    trace = parts.scripted(target, parts.Scripted(text, target.vocab_size), 4, tokens)
    assert trace.tokens == text[len(parts.PROMPT) :][:tokens]
    assert [c.committed for c in trace.cycles] == [5] * (tokens // 5) + [tokens % 5] * (
        tokens % 5 > 0
    )
    assert all(c.accepted == 3 for c in trace.cycles)  # what was granted, also where it was cut


def test_a_drafter_without_given_tokens_commits_one_less(target, text):
    """As n-gram lookup does: everything is checked, the first token too."""
    drafter = parts.Scripted(text, target.vocab_size, lambda cycle: {0} if cycle % 2 else {2}, 0)
    trace = parts.scripted(target, drafter, 3, 20)
    assert trace.tokens == text[len(parts.PROMPT) :][:20]
    assert [c.committed for c in trace.cycles[:2]] == [1, 3]
    assert [c.accepted for c in trace.cycles[:2]] == [0, 2]
    assert all(c.offered == 3 for c in trace.cycles)


def test_a_drafter_may_propose_nothing(target, text):
    class Silent:
        def propose(self, request):
            return Proposal([], given=0, forwards=0)

    trace = parts.scripted(target, Silent(), 4, 6)
    assert trace.tokens == text[len(parts.PROMPT) :][:6]
    assert trace.forwards == 1 + 6
    assert trace.total("offered") == 0


def test_the_policy_is_asked_before_and_told_after(target, text):
    class Growing:
        sizes, told = [], []

        def block_size(self):
            self.sizes.append(len(self.told) + 1)
            return self.sizes[-1]

        def observe(self, cycle, logits_WV):
            self.told.append((cycle.block_size, logits_WV.shape))

    policy = Growing()
    drafter = parts.Scripted(text, target.vocab_size)
    acceptance = module.Acceptance
    acceptance = parts.GreedyAcceptance()
    trace = module.decode(target, drafter, acceptance, policy, parts.PROMPT, 12)
    assert [c.block_size for c in trace.cycles] == policy.sizes == [1, 2, 3, 4][: len(trace.cycles)]
    assert policy.told == [(k, (k + 1, target.vocab_size)) for k in policy.sizes]


def test_stages_fit_into_the_wall_time(adapted):
    target, adapter = adapted
    trace = parts.uno(target, adapter, 4, parts.PROMPT, 20)
    stages = [trace.total(f"{name}_seconds") for name in ("draft", "verify", "commit")]
    assert all(seconds > 0 for seconds in stages)
    assert 0 < trace.prefill_seconds < trace.prefill_seconds + sum(stages) <= trace.wall_seconds


def test_no_global_random_numbers_are_consumed(adapted):
    target, adapter = adapted
    before = [mx.array(state) for state in mx.random.state]
    parts.uno(target, adapter, 4, parts.PROMPT, 9)
    assert all(mx.array_equal(a, b) for a, b in zip(before, mx.random.state, strict=True))


@pytest.mark.parametrize(
    ("prompt", "tokens", "line"),
    [
        ([], 5, "prompt: tokens: found none; expected at least one token"),
        ([1, 61], 5, "prompt: token 1: found 61; expected an id in [0, 61)"),
        ([-1], 5, "prompt: token 0: found -1; expected an id in [0, 61)"),
        ([1], 0, "decode: max_tokens: found 0; expected at least 1"),
    ],
)
def test_bad_requests(target, text, prompt, tokens, line):
    for drafter in (None, parts.Scripted(text, target.vocab_size)):
        with pytest.raises(UserError) as caught:
            module.decode(target, drafter, parts.GreedyAcceptance(), FixedBlock(4), prompt, tokens)
        assert str(caught.value) == line


def test_a_cache_that_cannot_be_taken_back_is_refused(target, text, monkeypatch):
    def rotating(model):
        return [RotatingKVCache(max_size=8) for _ in model.layers]

    monkeypatch.setattr(module, "make_prompt_cache", rotating)
    with pytest.raises(UserError, match="layer 0: found RotatingKVCache; expected ArraysCache"):
        parts.scripted(target, parts.Scripted(text, target.vocab_size), 4, 5)


def test_a_prompt_longer_than_the_context_is_refused(target):
    context = module.context_tokens(target.model)
    for prompt, tokens in (([1] * context, 1), ([1] * 10, context - 9)):
        with pytest.raises(UserError, match=f"at most the context of {context} together"):
            parts.native(target, prompt, tokens)


@pytest.mark.parametrize("size", [0, -1, 503])
def test_a_block_that_does_not_fit_is_refused(target, text, size):
    class Asks:
        def block_size(self):
            return size

        def observe(self, cycle, logits_WV):
            raise AssertionError("never reached")

    drafter = parts.Scripted(text, target.vocab_size)
    with pytest.raises(UserError, match=r"block size: found -?\d+ behind 10"):
        decode(target, drafter, GreedyAcceptance(), Asks(), parts.PROMPT, 400)


def test_blocks_shrink_towards_the_end_of_the_context(target):
    room = module.context_tokens(target.model) - len(parts.PROMPT)
    long = parts.native(target, parts.PROMPT, room).tokens
    drafter = parts.Scripted(parts.PROMPT + long, target.vocab_size)
    trace = parts.scripted(target, drafter, 100, room)
    assert trace.tokens == long
    sizes = [cycle.block_size for cycle in trace.cycles]
    assert sizes[:-1] == [100] * (len(sizes) - 1)
    assert sizes[-1] == room - sum(cycle.committed for cycle in trace.cycles[:-1])


def test_stages_are_parts_of_the_cycle_and_cycles_of_the_wall(adapted):
    target, adapter = adapted
    trace = parts.uno(target, adapter, 4, parts.PROMPT, 20)
    for cycle in trace.cycles:
        stages = cycle.draft_seconds + cycle.verify_seconds + cycle.commit_seconds
        assert 0 < stages < cycle.cycle_seconds
        assert cycle.overhead_seconds == pytest.approx(cycle.cycle_seconds - stages)
    whole = trace.prefill_seconds + trace.total("cycle_seconds")
    assert whole < trace.wall_seconds < 1.05 * whole + 0.01


class FirstOffered:
    """Lets one offered token through, whatever was drafted."""

    def choose(self, proposal):
        return replace(proposal, tokens=proposal.tokens[: proposal.given + 1])


def test_a_search_decides_what_is_verified(target, text, monkeypatch):
    widths = parts.watch_embedding(monkeypatch)
    drafter = parts.Scripted(text, target.vocab_size)
    trace = parts.scripted(target, drafter, 8, 18, search=FirstOffered())
    assert trace.tokens == text[len(parts.PROMPT) :][:18]
    assert [(c.block_size, c.offered, c.accepted) for c in trace.cycles] == [(8, 1, 1)] * 6
    assert widths[1:] == [3] * 6  # seed, given token, one offered


def test_only_an_offered_block_can_be_full(target, text):
    hits = parts.scripted(target, parts.Scripted(text, target.vocab_size), 3, 12).cycles
    assert all(cycle.full for cycle in hits)
    alone = parts.scripted(target, parts.Scripted(text, target.vocab_size), 1, 4).cycles
    assert not any(cycle.full for cycle in alone)


@pytest.mark.parametrize("size", [0, 1, 4])
def test_on_commit_sees_the_trace_grow_and_changes_nothing(adapted, size):
    target, adapter = adapted
    seen = []

    def on_commit(trace):
        seen.append((list(trace.tokens), len(trace.cycles)))

    def run(**options):
        if size == 0:
            return parts.native(target, parts.PROMPT, 13, **options)
        return parts.uno(target, adapter, size, parts.PROMPT, 13, **options)

    trace, plain = run(on_commit=on_commit), run()
    assert trace.tokens == plain.tokens
    assert record(trace) == record(plain)
    assert trace.forwards == plain.forwards
    committed = [cycle.committed for cycle in trace.cycles] or [1] * 13
    ends = [sum(committed[: place + 1]) for place in range(len(committed))]
    assert [tokens for tokens, _ in seen] == [trace.tokens[:end] for end in ends]
    assert [cycles for _, cycles in seen] == [bool(size) * (i + 1) for i in range(len(seen))]


@pytest.mark.parametrize("drafted", [False, True])
def test_on_commit_may_interrupt(adapted, drafted):
    target, adapter = adapted

    def on_commit(trace):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        if drafted:
            parts.uno(target, adapter, 2, parts.PROMPT, 5, on_commit=on_commit)
        else:
            parts.native(target, parts.PROMPT, 5, on_commit=on_commit)
