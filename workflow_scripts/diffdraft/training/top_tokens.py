"""Distances over the teacher's M most probable tokens and one bucket for all others.

Shapes: logits [..., V]; M top tokens, so M + 1 buckets. All in float32.
"""

from typing import NamedTuple

import mlx.core as mx

from diffdraft.config_adapters import TopTokenLoss
from diffdraft.training.losses import log_probabilities

# The rest never counts as less than this: below it, what is left of 1 in float32 is rounding.
SMALLEST = 1e-6

TINIEST = 1e-30  # so that p log p of a probability that float32 rounds to nothing is nothing


class Top(NamedTuple):
    """The teacher's top tokens [..., M] and the probabilities [..., M + 1] of the buckets."""

    ids: mx.array
    probs: mx.array


def top_tokens(teacher: mx.array, m: int) -> Top:
    """The m most probable tokens of every row, in no order, and what is left over."""
    log_p = log_probabilities(teacher)
    ids = mx.argpartition(-log_p, m - 1, axis=-1)[..., :m]
    probs = with_rest(mx.exp(mx.take_along_axis(log_p, ids, axis=-1)))
    return Top(ids, mx.maximum(probs, TINIEST))


def with_rest(top: mx.array) -> mx.array:
    """Probabilities [..., M + 1]: those of the tokens, then of all others together."""
    rest = 1 - top.sum(axis=-1, keepdims=True)
    return mx.concatenate([top, mx.maximum(rest, SMALLEST)], axis=-1)


def bucket_loss(student: mx.array, teacher: Top, loss: TopTokenLoss) -> mx.array:
    """tv |p - q|_1 + forward_kl KL(p || q), p the teacher's buckets and q the student's; [...].

    Merging outcomes can only bring distributions closer, so both are lower bounds of the distances
    over the whole vocabulary, and equal them where the ratio p / q is one and the same throughout
    the rest (data processing inequality; Cover and Thomas, Theorem 2.8.1). The rest is what the
    tokens leave of 1: near `SMALLEST` its own share of the gradient is coarse, below it is none.
    """
    log_q = mx.take_along_axis(log_probabilities(student), teacher.ids, axis=-1)
    p, q = teacher.probs, with_rest(mx.exp(log_q))
    # Of single tokens the logarithm is exact, so KL pulls at one however improbable it is.
    log_q = mx.concatenate([log_q, mx.log(q[..., -1:])], axis=-1)
    distance = loss.tv * mx.abs(p - q).sum(axis=-1)
    return distance + loss.forward_kl * (p * (mx.log(p) - log_q)).sum(axis=-1)
