"""The draft-verify cycle, written once; every decoder is a choice of parts for it."""

import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from diffdraft.decoding.acceptance import Acceptance
from diffdraft.decoding.cache_state import CacheSnapshot, check_supported, evaluate
from diffdraft.decoding.native import decode_native
from diffdraft.decoding.policy import Policy
from diffdraft.decoding.search import Search, WholeBlock
from diffdraft.decoding.trace import Cycle, OnCommit, Trace
from diffdraft.decoding.transaction import SnapshotTransaction, Transaction
from diffdraft.drafters.base import Drafter, DraftRequest
from diffdraft.errors import UserError
from diffdraft.layers.walk import text_model
from diffdraft.targets.load import Target

WHOLE_BLOCK = WholeBlock()


@dataclass(frozen=True)
class _Parts:
    """What a draft-verify decoder is put together from."""

    model: Any
    drafter: Drafter
    acceptance: Acceptance
    policy: Policy
    search: Search
    commit: type[Transaction]


def decode(
    target: Target,
    drafter: Drafter | None,
    acceptance: Acceptance,
    policy: Policy,
    prompt_ids: Sequence[int],
    max_tokens: int,
    *,
    search: Search = WHOLE_BLOCK,
    commit: type[Transaction] = SnapshotTransaction,
    stop_ids: Collection[int] = (),
    on_commit: OnCommit | None = None,
) -> Trace:
    """Generate up to `max_tokens` tokens after `prompt_ids`; a stop id is the last token kept.

    A cycle drafts a block as large as `policy` says, verifies the part of it that `search`
    chooses, lets `acceptance` decide, and makes the cache follow by `commit`. Without a drafter
    this is native greedy decoding, and these parts are not used. A drafter and a policy serve one
    generation. `on_commit` sees the trace grow, so that a text can be shown while it is written.

    Raises:
        UserError: an empty prompt, an id outside the vocabulary, no token to generate, more tokens
            than the context has room for, or (with a drafter) a block that does not fit into it
            or a cache type that cannot be cut back.
    """
    _check_request(target, prompt_ids, max_tokens)
    if drafter is None:
        return decode_native(target.model, prompt_ids, max_tokens, stop_ids, on_commit)
    started = time.perf_counter()
    cache = make_prompt_cache(target.model)
    check_supported(target.model, cache)
    trace = Trace(prompt_tokens=len(prompt_ids))
    trace.prefill_forwards = _prefill(target.model, prompt_ids[:-1], cache)
    trace.prefill_seconds = time.perf_counter() - started
    parts = _Parts(target.model, drafter, acceptance, policy, search, commit)
    history, stopped = list(prompt_ids), False
    while len(trace.tokens) < max_tokens and not stopped:
        budget = max_tokens - len(trace.tokens)
        committed, cycle = _cycle(parts, cache, history, len(trace.cycles) + 1, budget, stop_ids)
        trace.cycles.append(cycle)
        trace.tokens += committed
        history += committed
        if on_commit is not None:
            on_commit(trace)
        stopped = committed[-1] in stop_ids
    trace.wall_seconds = time.perf_counter() - started
    return trace


def _cycle(
    parts: _Parts,
    cache: list[Any],
    history: Sequence[int],
    index: int,
    budget: int,
    stop_ids: Collection[int],
) -> tuple[list[int], Cycle]:
    """Draft, verify, accept, commit. Returns the new tokens and the record of the cycle."""
    started = time.perf_counter()
    block_size = _block_size(parts, len(history), index)
    before = CacheSnapshot.take(cache)
    clock = _Clock()
    proposal = parts.drafter.propose(DraftRequest(history, cache, block_size, index))
    draft_seconds = clock.lap()
    before.restore()
    path = parts.search.choose(proposal)
    transaction = parts.commit(parts.model, cache)
    clock.lap()
    logits_WV = transaction.run([history[-1], *path.tokens])
    verify_seconds = clock.lap()
    decision = parts.acceptance.accept(path, logits_WV)
    kept = path.tokens[: path.given + decision.accepted]
    committed = _trim([*kept, decision.next_token], budget, stop_ids)
    clock.lap()
    replays = transaction.commit(len(committed))
    commit_seconds = clock.lap()
    cycle = Cycle(
        index=index,
        block_size=block_size,
        offered=path.offered,
        accepted=decision.accepted,
        committed=len(committed),
        forwards=path.forwards + 1 + replays,
        replays=replays,
        draft_seconds=draft_seconds,
        verify_seconds=verify_seconds,
        commit_seconds=commit_seconds,
        cycle_seconds=0.0,
        confidence=path.confidence,
    )
    parts.policy.observe(cycle, logits_WV)
    return committed, replace(cycle, cycle_seconds=time.perf_counter() - started)


class _Clock:
    """Seconds from lap to lap."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds


def _trim(tokens: list[int], budget: int, stop_ids: Collection[int]) -> list[int]:
    """At most `budget` tokens, and none after the first stop id."""
    for place, token in enumerate(tokens[:budget]):
        if token in stop_ids:
            return tokens[: place + 1]
    return tokens[:budget]


def _prefill(model: Any, ids: Sequence[int], cache: list[Any]) -> int:
    """Fill the cache; the last prompt token stays out as the first seed. Returns forwards."""
    if not ids:
        return 0
    text_model(model).model(mx.array([list(ids)], dtype=mx.int32), cache)
    evaluate(cache)
    return 1


def _check_request(target: Target, prompt_ids: Sequence[int], max_tokens: int) -> None:
    if not prompt_ids:
        raise UserError("prompt", "tokens", "none", "at least one token")
    # MLX reads past the embedding without an error, so a foreign tokenizer would go unnoticed.
    for place, token in enumerate(prompt_ids):
        if not 0 <= token < target.vocab_size:
            expected = f"an id in [0, {target.vocab_size})"
            raise UserError("prompt", f"token {place}", token, expected)
    if max_tokens < 1:
        raise UserError("decode", "max_tokens", max_tokens, "at least 1")
    context = context_tokens(target.model)
    if len(prompt_ids) + max_tokens > context:
        found = f"{len(prompt_ids)} in the prompt and {max_tokens} to generate"
        raise UserError("prompt", "tokens", found, f"at most the context of {context} together")


def _block_size(parts: _Parts, tokens: int, index: int) -> int:
    """What the policy asks for; towards the end of the context, what is left of it.

    Seed and block are verified together, so a block may be as large as the room behind the tokens.
    """
    size, room = parts.policy.block_size(), context_tokens(parts.model) - tokens
    if size < 1 or (index == 1 and size > room):
        found = f"{size} behind {tokens} tokens"
        raise UserError("decode", "block size", found, f"1 to {room}, what the context holds")
    return min(size, room)


def context_tokens(model: Any) -> int:
    """Number of tokens that the model's positions are made for; boundless where it says none."""
    return getattr(text_model(model).args, "max_position_embeddings", None) or sys.maxsize
