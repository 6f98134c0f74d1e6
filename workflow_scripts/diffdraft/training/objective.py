"""What a drafter minimises: the distance of its rows from the teacher's, over all or top tokens.

Over all tokens the two softmaxes are most of the work once a vocabulary has hundreds of thousands
of entries. `TopTokenLoss` compares the teacher's most probable tokens one by one and all others as
one bucket; the student's normaliser still runs over the whole vocabulary, so nothing is
approximated but what lies within the bucket.
"""

from typing import Any, Protocol

import mlx.core as mx

from diffdraft.config_adapters import LossWeights, TopTokenLoss
from diffdraft.errors import UserError
from diffdraft.layers.walk import head, text_model
from diffdraft.training import top_rows
from diffdraft.training.losses import reverse_kl, total_variation
from diffdraft.training.top_tokens import bucket_loss, top_tokens


class Objective(Protocol):
    """Loss of each row against a fixed teacher; `teacher_absmax` is its largest logit."""

    teacher_absmax: mx.array

    def __call__(self, student_BnJD: mx.array) -> tuple[mx.array, mx.array]:
        """Loss [B, n, J] of the student's hidden states, and their largest logit."""


def objective(model: Any, teacher_BnJD: mx.array, loss: LossWeights | TopTokenLoss) -> Objective:
    """The objective that a profile asks for, in the form that is fastest here.

    Raises `UserError` for as many top tokens as the vocabulary has, or more.
    """
    if isinstance(loss, LossWeights):
        return WholeRows(model, teacher_BnJD, loss)
    vocabulary = text_model(model).args.vocab_size
    if loss.top_tokens >= vocabulary:
        raise UserError("profile", "loss.top_tokens", loss.top_tokens, f"below {vocabulary}")
    if top_rows.serves(model):
        return top_rows.TopRows(text_model(model).model.embed_tokens.weight, teacher_BnJD, loss)
    return TopTokens(model, teacher_BnJD, loss)


class WholeRows:
    """Weighted distances over the whole vocabulary."""

    def __init__(self, model: Any, teacher_BnJD: mx.array, weights: LossWeights) -> None:
        self._model, self._weights = model, weights
        self._teacher_BnJV = head(model, teacher_BnJD)
        self.teacher_absmax = mx.abs(self._teacher_BnJV).max()

    def __call__(self, student_BnJD: mx.array) -> tuple[mx.array, mx.array]:
        student_BnJV = head(self._model, student_BnJD)
        loss_BnJ = self._weights.tv * total_variation(student_BnJV, self._teacher_BnJV)
        if self._weights.kl:
            kl_BnJ = reverse_kl(student_BnJV, self._teacher_BnJV)
            loss_BnJ = loss_BnJ + self._weights.kl * kl_BnJ
        return loss_BnJ, mx.abs(student_BnJV).max()


class TopTokens:
    """Weighted distances over the teacher's top tokens and the rest: the definition, by MLX."""

    def __init__(self, model: Any, teacher_BnJD: mx.array, loss: TopTokenLoss) -> None:
        self._model, self._loss = model, loss
        teacher_BnJV = head(model, teacher_BnJD)
        self._top = top_tokens(teacher_BnJV, loss.top_tokens)
        self.teacher_absmax = mx.abs(teacher_BnJV).max()

    def __call__(self, student_BnJD: mx.array) -> tuple[mx.array, mx.array]:
        student_BnJV = head(self._model, student_BnJD)
        return bucket_loss(student_BnJV, self._top, self._loss), mx.abs(student_BnJV).max()
