"""The logistic fit against Newton's method, saturated models, and separated classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from diffdraft.stats.logistic import fit_logistic, is_separated

CLIP = 35.0


def newton(features, accepted):
    """The oracle: Newton's method on raw columns, to the limit of float64."""
    design = np.column_stack([np.ones(len(features)), features])
    beta = np.zeros(design.shape[1])
    for _ in range(60):
        p = expit(design @ beta)
        hessian = (design.T * (p * (1 - p))) @ design
        beta += np.linalg.solve(hessian, design.T @ (accepted - p))
    return expit(design @ beta)


def sample(n=600, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 7, n)
    features = np.column_stack([*(group == g for g in range(1, 7)), rng.standard_normal((n, 2))])
    log_odds = scale * (features @ rng.standard_normal(8)) - 1
    return features.astype(float), (rng.random(n) < expit(log_odds)).astype(int)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.0, 1.0, 2.0]))
def test_predictions_equal_newtons(seed, scale):
    features, accepted = sample(seed=seed, scale=scale)
    fitted = fit_logistic(features, accepted, CLIP)
    if not fitted.separated:
        expected = newton(features, accepted)
        np.testing.assert_allclose(fitted.predict(features), expected, rtol=0, atol=1e-7)


def test_a_saturated_model_predicts_the_rate_of_each_group():
    rng = np.random.default_rng(1)
    group, accepted = rng.integers(0, 7, 700), rng.integers(0, 2, 700)
    dummies = np.column_stack([group == g for g in range(1, 7)]).astype(float)
    p = fit_logistic(dummies, accepted, CLIP).predict(dummies)
    for g in range(7):
        assert p[group == g] == pytest.approx(accepted[group == g].mean(), abs=1e-9)
        assert len(set(p[group == g])) == 1, "equal rows must tie exactly"


def test_scale_and_shift_of_a_column_change_nothing():
    features, accepted = sample()
    moved = features * 1e4 + 5
    before, after = (fit_logistic(x, accepted, CLIP).predict(x) for x in (features, moved))
    np.testing.assert_allclose(before, after, rtol=0, atol=1e-9)


def test_constant_and_doubled_columns_are_harmless():
    features, accepted = sample()
    expected = fit_logistic(features, accepted, CLIP).predict(features)
    constant = np.column_stack([features, np.full(len(features), 3.0)])
    fitted = fit_logistic(constant, accepted, CLIP)
    assert fitted.coefficient_F[-1] == 0
    np.testing.assert_allclose(fitted.predict(constant), expected, rtol=0, atol=1e-9)
    doubled = np.column_stack([features, 2 * features[:, -1] + 1])
    actual = fit_logistic(doubled, accepted, CLIP).predict(doubled)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)
    nothing = np.ones((len(features), 1))
    p = fit_logistic(nothing, accepted, CLIP).predict(nothing)
    assert p == pytest.approx(accepted.mean(), abs=1e-9)


def test_near_separation_is_a_finite_maximum():
    x = np.linspace(-1, 1, 400)
    accepted = (x > 0).astype(int)
    accepted[[190, 210]] = accepted[[210, 190]]
    fitted = fit_logistic(x[:, None], accepted, CLIP)
    assert not fitted.separated
    np.testing.assert_allclose(
        fitted.predict(x[:, None]), newton(x[:, None], accepted), rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("kind", ["whole", "one group never accepted"])
def test_separation_is_told_and_the_predictor_is_bounded(kind):
    features, accepted = sample()
    if kind == "whole":
        accepted = (features[:, -1] > 0).astype(int)
    else:
        accepted = np.where(features[:, 0] == 1, 0, accepted)
    fitted = fit_logistic(features, accepted, 5.0)
    assert fitted.separated
    p = fitted.predict(features)
    assert p.min() >= expit(-5.0)
    assert p.max() <= expit(5.0)


def test_separation_by_definition():
    x = np.array([[0.0], [1.0], [2.0], [3.0]])
    assert is_separated(x, np.array([0, 0, 1, 1]))
    assert not is_separated(x, np.array([0, 1, 0, 1]))
    # The classes meet at 1: the border rows count for both sides, the others separate.
    assert is_separated(np.array([[0.0], [1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1]))
    assert not is_separated(np.array([[1.0], [1.0]]), np.array([0, 1]))


@pytest.mark.parametrize("seed", range(8))
def test_groups_with_the_same_rate_tie_exactly(seed):
    """One column a group: the fit is each group's rate, whatever the solver's last bits are."""
    rng = np.random.default_rng(seed)
    rates = np.array([0.3, 0.103, 0.2, 0.103, 0.05, 0.2, 0.4])
    group_N = np.repeat(np.arange(len(rates)), 1000)
    accepted_N = np.concatenate([np.arange(1000) < 1000 * rate for rate in rates]).astype(int)
    order = rng.permutation(len(group_N))
    features_NF = (group_N[order, None] == np.arange(1, len(rates))).astype(float)
    fitted = fit_logistic(features_NF, accepted_N[order], 35.0)
    p_G = fitted.predict((np.arange(len(rates))[:, None] == np.arange(1, len(rates))).astype(float))
    assert p_G[1] == p_G[3]
    assert p_G[2] == p_G[5]
    np.testing.assert_allclose(p_G, rates, atol=1e-8)
