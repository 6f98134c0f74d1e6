"""Native greedy decoding: the arm that everything is measured against.

As `mlx_lm.generate.generate_step` does it (cached, width-1 forwards, the next one under way while
a token travels to the host), without its sampler, log-probabilities and generator.
"""

import time
from collections.abc import Collection, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache

from diffdraft.decoding.cache_state import evaluate
from diffdraft.decoding.trace import OnCommit, Trace
from diffdraft.layers.walk import head, text_model


def decode_native(
    model: Any,
    prompt_ids: Sequence[int],
    max_tokens: int,
    stop_ids: Collection[int],
    on_commit: OnCommit | None = None,
) -> Trace:
    """Greedy text of the model alone; the prefill yields the first token.

    Forwards equal tokens, plus the one that is under way when a stop id turns up.
    """
    started = time.perf_counter()
    trace = Trace(prompt_tokens=len(prompt_ids), prefill_forwards=1)
    cache = make_prompt_cache(model)
    token_B = _next_token(model, mx.array([list(prompt_ids)], dtype=mx.int32), cache)
    mx.eval(token_B)
    evaluate(cache)
    trace.prefill_seconds = time.perf_counter() - started
    while len(trace.tokens) < max_tokens:
        following_B = token_B
        if len(trace.tokens) + 1 < max_tokens:
            following_B = _next_token(model, token_B[:, None], cache)
            mx.async_eval(following_B)
            trace.native_forwards += 1
        token: Any = token_B.item()
        trace.tokens.append(token)
        if on_commit is not None:
            on_commit(trace)
        if trace.tokens[-1] in stop_ids:
            break
        token_B = following_B
    trace.wall_seconds = time.perf_counter() - started
    return trace


def _next_token(model: Any, ids_BT: mx.array, cache: list[Any]) -> mx.array:
    """Greedy next token [B], not evaluated; the head is run on the last row only."""
    h_BTD = text_model(model).model(ids_BT, cache)
    return mx.argmax(head(model, h_BTD[:, -1]), axis=-1)
