"""The top-token loss on a CPU: head, loss and gradient in one pass over the vocabulary.

MLX's CPU backend takes 25 ns for an exponential and NumPy one, so a row of 262,144 logits costs
6.5 ms there and 0.3 ms here. Loss and gradient are found together, while the row is at hand; what
is kept is the gradient by the hidden state, not the probabilities. `objective.TopTokens` is the
definition, and a test holds this to it.

Shapes: R rows, D hidden, V vocabulary, M top tokens.
"""

from typing import Any, NamedTuple, cast

import mlx.core as mx
import numpy as np

from diffdraft import backend
from diffdraft.config_adapters import TopTokenLoss
from diffdraft.layers.walk import text_model
from diffdraft.training.top_tokens import SMALLEST, TINIEST

ROWS = 64  # rows at a time: 67 MB of logits, and a matrix product large enough for every core


def serves(model: Any) -> bool:
    """Whether this form is there for the model: on a CPU, in float32, with tied embeddings."""
    text = text_model(model)
    weight = text.model.embed_tokens.weight
    on_cpu = backend.name() == "cpu"
    return on_cpu and weight.dtype == mx.float32 and not hasattr(text, "lm_head")


class Teacher(NamedTuple):
    """Top tokens [R, M] of some rows, probabilities [R, M + 1] of the buckets, largest logit."""

    ids: np.ndarray
    probs: np.ndarray
    largest: float


class Found(NamedTuple):
    """Loss [R], its gradient [R, D] by the hidden states, and the largest logit."""

    loss_R: np.ndarray
    grad_RD: np.ndarray
    largest: float


class TopRows:
    """Loss of each row against a fixed teacher, as `objective.Objective` has it."""

    def __init__(self, weight_VD: mx.array, teacher_BnJD: mx.array, loss: TopTokenLoss) -> None:
        self._weight_VD, self._loss = np.array(weight_VD, copy=False), loss
        # Written again and again: fresh memory of this size costs as much as the exponentials.
        self._logits_RV = np.empty((ROWS, weight_VD.shape[0]), dtype=np.float32)
        self._teachers = [self._teacher(hidden) for hidden in _chunks(teacher_BnJD)]
        self.teacher_absmax = mx.array(max(teacher.largest for teacher in self._teachers))

    def _teacher(self, hidden_RD: np.ndarray) -> Teacher:
        logits_RV, m = self._read_out(hidden_RD), self._loss.top_tokens
        largest = _absmax(logits_RV)
        ids_RM = np.argpartition(logits_RV, -m, axis=-1)[:, -m:]
        top_RM = np.take_along_axis(logits_RV, ids_RM, axis=-1)
        highest, total = _exponentials(logits_RV)
        probs = _with_rest(np.exp(top_RM - highest) / total)
        return Teacher(ids_RM, np.maximum(probs, TINIEST), largest)

    def _read_out(self, hidden_RD: np.ndarray) -> np.ndarray:
        logits_RV = self._logits_RV[: len(hidden_RD)]
        return np.matmul(hidden_RD, self._weight_VD.T, out=logits_RV)

    def __call__(self, student_BnJD: mx.array) -> tuple[mx.array, mx.array]:
        """Loss [B, n, J] and the largest logit; differentiable by the hidden states."""

        @mx.custom_function
        def rows(student: mx.array) -> tuple[mx.array, mx.array, mx.array]:
            found = [
                self._chunk(hidden, teacher)
                for hidden, teacher in zip(_chunks(student), self._teachers, strict=True)
            ]
            loss_BnJ = np.concatenate([part.loss_R for part in found]).reshape(student.shape[:-1])
            grad_BnJD = np.concatenate([part.grad_RD for part in found]).reshape(student.shape)
            largest = max(part.largest for part in found)
            return mx.array(loss_BnJ), mx.array(largest), mx.array(grad_BnJD)

        @rows.vjp
        def rows_vjp(
            student: mx.array, cotangents: tuple[mx.array, ...], outputs: tuple[mx.array, ...]
        ) -> mx.array:
            return cotangents[0][..., None] * outputs[2]

        outputs = cast(tuple[mx.array, ...], rows(student_BnJD))
        return outputs[0], outputs[1]

    def _chunk(self, hidden_RD: np.ndarray, teacher: Teacher) -> Found:
        logits_RV = self._read_out(hidden_RD)
        largest = _absmax(logits_RV)
        log_q_RM = np.take_along_axis(logits_RV, teacher.ids, axis=-1)
        highest, total = _exponentials(logits_RV)
        log_q_RM -= highest + np.log(total)
        q = _with_rest(np.exp(log_q_RM))
        loss_R, pull = self._distance(log_q_RM, q, teacher.probs)
        # By logit j of bucket b: pull_b q_j / q_b - q_j sum(pull), for softmax is normalised.
        all_R1 = pull.sum(-1, keepdims=True)
        rest_R1 = pull[:, -1:] / q[:, -1:] - all_R1
        grad_RD = (rest_R1 / total) * (logits_RV @ self._weight_VD)
        own_RM = pull[:, :-1] - q[:, :-1] * (all_R1 + rest_R1)
        grad_RD += np.matmul(own_RM[:, None], self._weight_VD[teacher.ids])[:, 0]
        return Found(loss_R, grad_RD, largest)

    def _distance(
        self, log_q_RM: np.ndarray, q: np.ndarray, p: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The weighted distance [R], and q_b times its slope by q_b, [R, M + 1]."""
        tv, kl = self._loss.tv, self._loss.forward_kl
        log_q = np.concatenate([log_q_RM, np.log(q[:, -1:])], axis=-1)
        loss = tv * np.abs(p - q).sum(-1) + kl * (p * (np.log(p) - log_q)).sum(-1)
        pull = tv * np.sign(q - p) * q - kl * p
        pull[:, -1] *= q[:, -1] > SMALLEST
        return loss, pull


def _absmax(logits_RV: np.ndarray) -> float:
    return float(max(logits_RV.max(), -logits_RV.min()))


def _chunks(hidden: mx.array) -> list[np.ndarray]:
    """Hidden states [..., D] as arrays of at most `ROWS` rows."""
    rows = np.array(hidden.reshape(-1, hidden.shape[-1]))
    return np.split(rows, range(ROWS, len(rows), ROWS))


def _exponentials(logits_RV: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exponentials, in place, of logits less their highest; returns that and their sum, [R, 1]."""
    highest = logits_RV.max(-1, keepdims=True)
    np.subtract(logits_RV, highest, out=logits_RV)
    np.exp(logits_RV, out=logits_RV)
    return highest, logits_RV.sum(-1, keepdims=True)


def _with_rest(top: np.ndarray) -> np.ndarray:
    rest = 1 - top.sum(-1, keepdims=True)
    return np.concatenate([top, np.maximum(rest, SMALLEST)], axis=-1)
