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


def reverse_kl(student: mx.array, teacher: mx.array) -> mx.array:
    """KL(student || teacher) in nats (qwen-block-diffusion-lab, losses)."""
    log_student, log_teacher = log_probabilities(student), log_probabilities(teacher)
    return (mx.exp(log_student) * (log_student - log_teacher)).sum(axis=-1)


def log_probabilities(logits: mx.array) -> mx.array:
    """Log-softmax in float32 over the last axis."""
    logits = logits.astype(mx.float32)
    return logits - mx.logsumexp(logits, axis=-1, keepdims=True)
