"""The vectorised bootstrap gives the numbers of a loop over resampled rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from diffdraft.stats.bootstrap import ClusterBootstrap, interval


def loop(ids, resamples, seed, statistic):
    """The slow oracle: draw clusters one resample at a time, gather their rows, compute."""
    names = np.unique(ids)
    rows = [np.flatnonzero(ids == name) for name in names]
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        drawn = rng.integers(0, len(names), len(names))
        yield statistic(np.concatenate([rows[i] for i in drawn]))


def sample(clusters, size, seed, decimals=1):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat([f"w{i:04d}" for i in range(clusters)], size))
    score = np.round(rng.standard_normal(len(ids)), decimals)
    accepted = (rng.random(len(ids)) < 1 / (1 + np.exp(1 - score))).astype(int)
    return ids, accepted, score


def auroc_or_nan(accepted, score):
    both = accepted.min() < accepted.max()
    return roc_auc_score(accepted, score) if both else float("nan")


def test_aurocs_equal_the_loop_over_scikit_learn():
    ids, accepted, score = sample(clusters=40, size=7, seed=0)
    expected = list(loop(ids, 200, 20260908, lambda r: auroc_or_nan(accepted[r], score[r])))
    actual = ClusterBootstrap.draw(ids, 200, 20260908).aurocs(accepted, score)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    clusters=st.integers(1, 6),
    size=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    decimals=st.integers(0, 2),
)
def test_aurocs_equal_the_loop_on_small_tied_one_class_samples(clusters, size, seed, decimals):
    ids, accepted, score = sample(clusters, size, seed, decimals)
    expected = list(loop(ids, 20, seed, lambda r: auroc_or_nan(accepted[r], score[r])))
    actual = ClusterBootstrap.draw(ids, 20, seed).aurocs(accepted, score)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


def test_means_equal_the_loop_with_clusters_of_unequal_size():
    ids = np.array(["b", "a", "a", "c", "c", "c"])
    value = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    expected = list(loop(ids, 100, 7, lambda r: value[r].mean()))
    actual = ClusterBootstrap.draw(ids, 100, 7).means(value)
    np.testing.assert_allclose(actual, expected, rtol=1e-14)


def test_draws_are_those_of_one_call_a_resample():
    rng = np.random.default_rng(20260908)
    draws = [np.bincount(rng.integers(0, 384, 384), minlength=384) for _ in range(5)]
    bootstrap = ClusterBootstrap.draw([f"w{i:04d}" for i in range(384)], 5, 20260908)
    np.testing.assert_array_equal(bootstrap.weight_RC, draws)


def test_order_of_rows_does_not_matter():
    ids, accepted, score = sample(clusters=10, size=7, seed=3)
    order = np.random.default_rng(4).permutation(len(ids))
    before = ClusterBootstrap.draw(ids, 50, 5).aurocs(accepted, score)
    after = ClusterBootstrap.draw(ids[order], 50, 5).aurocs(accepted[order], score[order])
    np.testing.assert_array_equal(before, after)


def test_one_class_resamples_are_skipped_and_counted():
    found = interval(np.array([0.1, np.nan, 0.3, 0.2, np.nan]), (2.5, 97.5))
    assert (found.resamples, found.skipped) == (3, 2)
    assert found.mean == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.105, 0.295))
    assert np.isnan(interval(np.array([np.nan]), (2.5, 97.5)).low)


def test_interval_of_a_mean_covers_as_often_as_it_says():
    hits = 0
    for seed in range(150):
        value = np.random.default_rng(seed).standard_normal(60)
        means = ClusterBootstrap.draw([f"p{i:02d}" for i in range(60)], 400, seed).means(value)
        found = interval(means, (2.5, 97.5))
        hits += found.low <= 0 <= found.high
    assert 132 <= hits <= 149
