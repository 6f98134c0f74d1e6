"""Logistic regression by unpenalised maximum likelihood on standardised columns."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgWarning
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.integer]

CONSTANT_STD = 1e-12
"""A column that varies less than this is constant; its scale becomes 1, as published."""

GRADIENT_TOLERANCE = 1e-10
LARGEST_GRADIENT = 1e-6
"""Of the mean log-likelihood, where we believe that its maximum was found."""

PREDICTOR_DECIMALS = 9
"""Log-odds that the maximum makes equal differ by the rounding of solver and BLAS, near 1e-15.

Two groups of rows with the same rate must tie, or AUROC would order them by that rounding, and
another processor would give another number.
"""

MAX_ITERATIONS = 2000
EXTREME_PROBABILITY = 1e-6
"""A fitted probability this near 0 or 1 makes us ask, by linear programming, for separation."""


@dataclass(frozen=True)
class LogisticFit:
    """A fitted model.

    `separated` says that some direction of the features splits the classes, wholly or partly, so
    no finite maximum exists: the coefficients are where the solver stopped. Ranks of the
    predictions then still mean something; the log loss depends on the clips.
    """

    mean_F: Array
    scale_F: Array
    coefficient_F: Array
    intercept: float
    predictor_clip: float
    separated: bool

    def predict(self, features_NF: Array) -> Array:
        """Probability of acceptance of each row, [N], the linear predictor clipped and rounded."""
        bound = self.predictor_clip
        predictor_N = np.round(self.predictor(features_NF), PREDICTOR_DECIMALS)
        return expit(np.clip(predictor_N, -bound, bound))

    def predictor(self, features_NF: Array) -> Array:
        """Linear predictor (log-odds) of each row, [N]."""
        standard_NF = (features_NF - self.mean_F) / self.scale_F
        predictor_N = np.full(len(standard_NF), self.intercept)
        # Column by column, not as a matrix product: equal rows must get equal bits, since AUROC
        # counts ties, and BLAS kernels may treat the last rows of a block differently.
        for column, coefficient in enumerate(self.coefficient_F):
            predictor_N += standard_NF[:, column] * coefficient
        return predictor_N


def fit_logistic(features_NF: Array, accepted_N: Labels, predictor_clip: float) -> LogisticFit:
    """Fit an intercept and one coefficient a column.

    Columns are standardised by their own mean and population standard deviation. `accepted_N`
    must hold both classes. `predictor_clip` bounds the linear predictor when predicting.

    Raises:
        ArithmeticError: a maximum exists and was not found.
    """
    mean_F, std_F = features_NF.mean(axis=0), features_NF.std(axis=0)
    varies_F = std_F >= CONSTANT_STD
    scale_F = np.where(varies_F, std_F, 1.0)
    standard_NF = (features_NF - mean_F) / scale_F
    coefficient_F = np.zeros(len(mean_F))
    coefficient_F[varies_F], intercept = _solve(standard_NF[:, varies_F], accepted_N)
    fitted = LogisticFit(mean_F, scale_F, coefficient_F, intercept, predictor_clip, False)
    p_N = expit(fitted.predictor(features_NF))
    extreme = min(p_N.min(), 1 - p_N.max()) < EXTREME_PROBABILITY
    if extreme and is_separated(standard_NF, accepted_N):
        return replace(fitted, separated=True)
    residual_N = p_N - accepted_N
    gradient = max(abs(residual_N.mean()), np.abs(residual_N @ standard_NF).max() / len(p_N))
    if gradient > LARGEST_GRADIENT:
        raise ArithmeticError(f"no maximum of the likelihood found, gradient {gradient:.1e}")
    return fitted


def _solve(standard_NF: Array, accepted_N: Labels) -> tuple[Array, float]:
    if standard_NF.shape[1] == 0:
        rate = accepted_N.mean()
        return np.zeros(0), float(np.log(rate) - np.log1p(-rate))
    model = LogisticRegression(
        C=np.inf, solver="newton-cholesky", tol=GRADIENT_TOLERANCE, max_iter=MAX_ITERATIONS
    )
    with warnings.catch_warnings():
        # Collinear or separating columns: scikit-learn says so and goes on with L-BFGS. Whether
        # what it returns is a maximum is checked by the caller.
        warnings.simplefilter("ignore", LinAlgWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(standard_NF, accepted_N)
    return model.coef_[0], float(model.intercept_[0])


def is_separated(features_NF: Array, accepted_N: Labels) -> bool:
    """Whether a half-space holds all accepted rows and no rejected one inside (Konis 2007).

    Rows on its border count for both sides; a border with every row on it separates nothing.
    """
    sign_N1 = np.where(accepted_N == 1, 1.0, -1.0)[:, None]
    signed_NF = sign_N1 * np.column_stack([np.ones(len(features_NF)), features_NF])
    result = linprog(
        -signed_NF.mean(axis=0),
        A_ub=-signed_NF,
        b_ub=np.zeros(len(signed_NF)),
        bounds=(-1, 1),
        method="highs",
    )
    return bool(result.fun < -GRADIENT_TOLERANCE)
