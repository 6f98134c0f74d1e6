"""The draft-verify cycle, written once; every decoder is a choice of parts for it."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from diffdraft.decoding.acceptance import Acceptance
from diffdraft.decoding.cache_state import CacheSnapshot, check_supported, evaluate
from diffdraft.decoding.native import decode_native
from diffdraft.decoding.policy import Policy
from diffdraft.decoding.trace import Cycle, Trace
from diffdraft.decoding.transaction import SnapshotTransaction, Transaction
from diffdraft.drafters.base import Drafter, DraftRequest
from diffdraft.errors import UserError
from diffdraft.layers.walk import text_model
from diffdraft.targets.load import Target


@dataclass(frozen=True)
class _Parts:
    """What a draft-verify decoder is put together from."""

    model: Any
    drafter: Drafter
    acceptance: Acceptance
    policy: Policy
    commit: type[Transaction]


def decode(
    target: Target,
    drafter: Drafter | None,
    acceptance: Acceptance,
    policy: Policy,
    prompt_ids: Sequence[int],
    max_tokens: int,
    *,
    commit: type[Transaction] = SnapshotTransaction,
    stop_ids: Collection[int] = (),
) -> Trace:
    """Generate up to `max_tokens` tokens after `prompt_ids`; a stop id is the last token kept.

    Without a drafter this is native greedy decoding, and `acceptance`, `policy` and `commit` are
    not used. A drafter and a policy serve one generation.

    Raises:
        UserError: an empty prompt, an id outside the vocabulary, no token to generate, or (with a
            drafter) a cache type that cannot be cut back.
    """
    _check_request(target, prompt_ids, max_tokens)
    if drafter is None:
        return decode_native(target.model, prompt_ids, max_tokens, stop_ids)
    started = time.perf_counter()
    cache = make_prompt_cache(target.model)
    check_supported(target.model, cache)
    trace = Trace(prompt_tokens=len(prompt_ids))
    trace.prefill_forwards = _prefill(target.model, prompt_ids[:-1], cache)
    trace.prefill_seconds = time.perf_counter() - started
    parts = _Parts(target.model, drafter, acceptance, policy, commit)
    history, stopped = list(prompt_ids), False
    while len(trace.tokens) < max_tokens and not stopped:
        budget = max_tokens - len(trace.tokens)
        committed, cycle = _cycle(parts, cache, history, len(trace.cycles) + 1, budget, stop_ids)
        trace.cycles.append(cycle)
        trace.tokens += committed
        history += committed
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
    block_size = parts.policy.block_size()
    started = time.perf_counter()
    before = CacheSnapshot.take(cache)
    proposal = parts.drafter.propose(DraftRequest(history, cache, block_size, index))
    before.restore()
    drafted = time.perf_counter()
    transaction = parts.commit(parts.model, cache)
    logits_WV = transaction.run([history[-1], *proposal.tokens])
    verified = time.perf_counter()
    decision = parts.acceptance.accept(proposal, logits_WV)
    kept = proposal.tokens[: proposal.given + decision.accepted]
    committed = _trim([*kept, decision.next_token], budget, stop_ids)
    decided = time.perf_counter()
    replays = transaction.commit(len(committed))
    finished = time.perf_counter()
    cycle = Cycle(
        index=index,
        block_size=block_size,
        offered=proposal.offered,
        accepted=decision.accepted,
        committed=len(committed),
        forwards=proposal.forwards + 1 + replays,
        replays=replays,
        draft_seconds=drafted - started,
        verify_seconds=verified - drafted,
        commit_seconds=finished - decided,
    )
    parts.policy.observe(cycle, logits_WV)
    return committed, cycle


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
