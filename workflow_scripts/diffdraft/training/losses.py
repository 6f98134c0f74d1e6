"""How far a drafter's distribution is from the frozen teacher's, row by row.

Shapes: logits [..., V]; every function returns one value a row, [...], in float32.
"""

import mlx.core as mx


def total_variation(student: mx.array, teacher: mx.array) -> mx.array:
    """Raw L1 distance of the two distributions, in [0, 2]: twice the total variation.

    (Uno, 2609.04010.) 1 - L1/2 is the chance that lossless sampling accepts the draft.
    """
    p_student = mx.softmax(student.astype(mx.float32), axis=-1)
    p_teacher = mx.softmax(teacher.astype(mx.float32), axis=-1)
    return mx.abs(p_student - p_teacher).sum(axis=-1)


def forward_kl(student: mx.array, teacher: mx.array) -> mx.array:
    """KL(teacher || student) in nats. Unlike L1 its gradient does not vanish far away."""
    log_student = _log_softmax(student.astype(mx.float32))
    log_teacher = _log_softmax(teacher.astype(mx.float32))
    return (mx.exp(log_teacher) * (log_teacher - log_student)).sum(axis=-1)


def _log_softmax(x: mx.array) -> mx.array:
    return x - mx.logsumexp(x, axis=-1, keepdims=True)
