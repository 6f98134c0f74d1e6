"""Scores against scikit-learn and against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from diffdraft.stats.auroc import auroc, average_precision, log_loss, log_losses, spearman

TIED = st.lists(st.tuples(st.integers(0, 1), st.integers(-3, 3)), min_size=2, max_size=40)


def unzip(rows):
    accepted, score = (np.array(column) for column in zip(*rows, strict=True))
    return accepted, score.astype(float)


@given(TIED)
def test_auroc_is_the_share_of_pairs_won(rows):
    accepted, score = unzip(rows)
    if accepted.min() == accepted.max():
        assert np.isnan(auroc(accepted, score))
        return
    pairs = [np.sign(a - b) for a in score[accepted == 1] for b in score[accepted == 0]]
    assert auroc(accepted, score) == pytest.approx(np.mean(pairs) / 2 + 0.5, abs=1e-12)
    assert auroc(accepted, score) == pytest.approx(roc_auc_score(accepted, score), abs=1e-12)


@given(TIED)
def test_auroc_of_the_reverse_order_is_the_complement(rows):
    accepted, score = unzip(rows)
    if accepted.min() < accepted.max():
        assert auroc(accepted, -score) == pytest.approx(1 - auroc(accepted, score), abs=1e-12)


def test_average_precision_without_ties_is_the_library_one():
    rng = np.random.default_rng(0)
    accepted, score = rng.integers(0, 2, 300), rng.permutation(300).astype(float)
    expected = average_precision_score(accepted, score)
    assert average_precision(accepted, score) == pytest.approx(expected, abs=1e-12)


def test_average_precision_of_ties_follows_the_rows():
    tied = np.zeros(4)
    assert average_precision(np.array([1, 1, 0, 0]), tied) == 1.0
    assert average_precision(np.array([0, 0, 1, 1]), tied) == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert np.isnan(average_precision(np.array([0, 0]), tied[:2]))


def test_log_loss_is_the_library_one_and_clips():
    rng = np.random.default_rng(1)
    accepted, p = rng.integers(0, 2, 200), rng.random(200)
    expected = sklearn_log_loss(accepted, p)
    assert log_loss(accepted, p, 1e-12) == pytest.approx(expected, abs=1e-12)
    certain = log_losses(np.array([0, 1]), np.array([1.0, 0.0]), 1e-3)
    assert certain == pytest.approx([-np.log(1e-3)] * 2)


def test_spearman_is_pearson_of_average_ranks():
    accepted, value = np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 2.0, 3.0])
    ranks = np.corrcoef([1, 2.5, 2.5, 4], [1.5, 3.5, 1.5, 3.5])[0, 1]
    assert spearman(accepted, value) == pytest.approx(ranks, abs=1e-12)
    assert np.isnan(spearman(accepted, np.ones(4)))
    assert np.isnan(spearman(np.ones(4, int), value))
