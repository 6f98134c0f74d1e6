"""The loss over the teacher's top tokens: against the whole, and its CPU form against MLX's."""

import mlx.core as mx
import numpy as np
import pytest

from diffdraft.config_adapters import LossWeights, TopTokenLoss
from diffdraft.errors import UserError
from diffdraft.training import top_rows
from diffdraft.training.losses import log_probabilities, total_variation
from diffdraft.training.objective import TopTokens, WholeRows, objective
from diffdraft.training.top_tokens import bucket_loss, top_tokens
from tests.decoding.plain_models import make_gemma3

VOCABULARY = 61
WEIGHTS = TopTokenLoss(top_tokens=8, tv=0.7, forward_kl=0.4)


def logits(seed, scale=2.0):
    return mx.random.normal((2, 3, 5, VOCABULARY), scale=scale, key=mx.random.key(seed))


def hidden(seed):
    return mx.random.normal((2, 3, 5, 32), scale=1.0, key=mx.random.key(seed))


def forward_kl(student, teacher):
    log_p, log_q = log_probabilities(teacher), log_probabilities(student)
    return (mx.exp(log_p) * (log_p - log_q)).sum(-1)


def bucketed(student, teacher, m, tv, kl):
    loss = TopTokenLoss(top_tokens=m, tv=tv, forward_kl=kl)
    return np.array(bucket_loss(student, top_tokens(teacher, m), loss))


def test_all_but_one_token_is_the_whole_distance():
    student, teacher = logits(1), logits(2)
    m = VOCABULARY - 1  # the bucket then holds one token
    whole = np.array(total_variation(student, teacher))
    np.testing.assert_allclose(bucketed(student, teacher, m, 1.0, 0.0), whole, atol=1e-4)
    whole = np.array(forward_kl(student, teacher))
    np.testing.assert_allclose(bucketed(student, teacher, m, 0.0, 1.0), whole, atol=2e-3)


@pytest.mark.parametrize("m", [1, 4, 20, 50])
def test_never_more_than_the_whole_and_rising_with_tokens(m):
    student, teacher = logits(3), logits(4)
    for weights, whole in (((1.0, 0.0), total_variation), ((0.0, 1.0), forward_kl)):
        part = bucketed(student, teacher, m, *weights)
        assert (part <= np.array(whole(student, teacher)) + 1e-4).all()
        assert (part <= bucketed(student, teacher, m + 5, *weights) + 1e-4).all()
        assert (part > 0).all()


def test_equal_rows_have_no_distance():
    teacher = logits(5)
    assert np.abs(bucketed(teacher, teacher, 8, 1.0, 1.0)).max() < 1e-5


def test_top_tokens_are_the_most_probable():
    teacher = logits(6)
    found = np.sort(np.array(top_tokens(teacher, 8).ids), axis=-1)
    expected = np.sort(np.argsort(-np.array(teacher), axis=-1)[..., :8], axis=-1)
    assert (found == expected).all()


def both(seed=0):
    """The definition and the CPU form, on the same model and teacher."""
    model, teacher = make_gemma3(tied=True).model, hidden(7)
    weight = model.model.embed_tokens.weight
    return TopTokens(model, teacher, WEIGHTS), top_rows.TopRows(weight, teacher, WEIGHTS)


@pytest.mark.parametrize("rows", [4, 64])
def test_cpu_form_equals_definition(monkeypatch, rows):
    monkeypatch.setattr(top_rows, "ROWS", rows)
    cotangent = mx.random.normal((2, 3, 5), key=mx.random.key(9))
    found = []
    for distance in both():

        def value(student, distance=distance):
            loss_BnJ, largest = distance(student)
            return (loss_BnJ * cotangent).sum(), loss_BnJ, largest

        (_, loss_BnJ, largest), grad = mx.value_and_grad(value)(hidden(8))
        found.append((loss_BnJ, grad, largest, distance.teacher_absmax))
    for definition, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, definition, rtol=1e-4, atol=1e-5)


def test_gradient_is_that_of_the_loss():
    """Central differences: the derivation by hand does not go unchecked by its own definition."""
    _, distance = both()
    student = hidden(8)
    direction = mx.random.normal(student.shape, key=mx.random.key(10))
    grad = mx.grad(lambda student: distance(student)[0].sum())(student)
    step = 1e-2
    ends = [distance(student + sign * step * direction)[0].sum().item() for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    assert (grad * direction).sum().item() == pytest.approx(slope, rel=2e-2)


def test_a_saturated_student_keeps_a_finite_gradient():
    model, teacher = make_gemma3(tied=True).model, hidden(7)
    distance = top_rows.TopRows(model.model.embed_tokens.weight, teacher, WEIGHTS)
    loss, grad = mx.value_and_grad(lambda h: distance(h)[0].sum())(100 * hidden(8))
    assert np.isfinite(loss.item()) and np.isfinite(np.array(grad)).all()


def test_top_tokens_are_fewer_than_the_vocabulary():
    loss = TopTokenLoss(top_tokens=VOCABULARY, tv=1.0, forward_kl=0.0)
    with pytest.raises(UserError, match=f"top_tokens: found {VOCABULARY}; expected below"):
        objective(make_gemma3(tied=True).model, hidden(7), loss)


def test_form_is_chosen_by_what_serves():
    tied, untied = make_gemma3(tied=True).model, make_gemma3().model
    assert isinstance(objective(tied, hidden(7), WEIGHTS), top_rows.TopRows)
    assert isinstance(objective(untied, hidden(7), WEIGHTS), TopTokens)
    assert isinstance(objective(tied, hidden(7), LossWeights(tv=1.0, kl=0.0)), WholeRows)
