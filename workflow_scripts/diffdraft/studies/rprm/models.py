"""The logistic models of acceptance, the shuffled control and the diagnostics."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diffdraft.stats.auroc import auroc, average_precision, log_loss
from diffdraft.stats.logistic import fit_logistic
from diffdraft.studies.rprm.settings import RprmAnalysis
from diffdraft.studies.rprm.strata import Part, Stratum

Array = npt.NDArray[np.float64]

UNCERTAINTY = "normalized_entropy"
GAP = "existing_draftability_score"
TEACHER = "teacher_entropy"
DIAGNOSTICS = ("top1_probability", "top1_top2_margin", "effective_support")
SHUFFLED = "7_shuffled_control"


@dataclass(frozen=True)
class Model:
    """Which columns a model reads, besides progress."""

    progress: bool
    columns: tuple[str, ...] = ()


MODELS = {
    "1_progress_only": Model(True),
    "2_uncertainty_only": Model(False, (UNCERTAINTY,)),
    "3_existing_only": Model(False, (GAP,)),
    "4_progress_uncertainty": Model(True, (UNCERTAINTY,)),
    "5_progress_existing": Model(True, (GAP,)),
    "6_progress_existing_uncertainty": Model(True, (GAP, UNCERTAINTY)),
    "8_progress_teacher_entropy": Model(True, (TEACHER,)),
}
# By their numbers: what entropy adds to the offset, and to offset and gap.
COMPARISONS = (("4", "1"), ("6", "5"))


@dataclass(frozen=True)
class Prediction:
    """Predicted probability of acceptance of each TEST row, and whether the fit has a maximum."""

    probability_N: Array
    separated: bool


def predict(stratum: Stratum, model: Model, analysis: RprmAnalysis) -> Prediction:
    """Fit on FIT, predict TEST."""
    fit, test = (_features(part, model) for part in (stratum.fit, stratum.test))
    return _fit_predict(stratum, fit, test, analysis)


def _features(part: Part, model: Model) -> Array:
    columns = [part.column(name)[:, None] for name in model.columns]
    return np.hstack([part.progress_NF, *columns] if model.progress else columns)


def _fit_predict(
    stratum: Stratum, fit_NF: Array, test_MF: Array, analysis: RprmAnalysis
) -> Prediction:
    fitted = fit_logistic(fit_NF, stratum.fit.accepted_N, analysis.linear_predictor_clip)
    return Prediction(fitted.predict(test_MF), fitted.separated)


def scores(stratum: Stratum, prediction: Prediction, analysis: RprmAnalysis) -> dict[str, float]:
    """AUROC, average precision and log loss on TEST."""
    accepted_N, p_N = stratum.test.accepted_N, prediction.probability_N
    return {
        "auroc": auroc(accepted_N, p_N),
        "auprc": average_precision(accepted_N, p_N),
        "log_loss": log_loss(accepted_N, p_N, analysis.probability_clip),
        "separated": prediction.separated,
    }


def shuffled_control(
    stratum: Stratum, analysis: RprmAnalysis, first_seed: int
) -> dict[str, object]:
    """Progress with entropy permuted among rows equally far along; it keeps what progress knows.

    Permutation r draws from `default_rng(first_seed + r)`: the cells of FIT in sorted order, then
    those of TEST.
    """
    runs = list(_shuffles(stratum, analysis, first_seed))
    aurocs, losses = zip(*((run["auroc"], run["log_loss"]) for run in runs), strict=True)
    low, high = np.percentile(aurocs, analysis.shuffle_percentiles)
    return {
        "auroc": float(np.mean(aurocs)),
        "auroc_p2_5": float(low),
        "auroc_p97_5": float(high),
        "log_loss": float(np.mean(losses)),
        "n_permutations": len(runs),
        "aurocs": list(aurocs),
        "separated": any(run["separated"] for run in runs),
    }


def _shuffles(
    stratum: Stratum, analysis: RprmAnalysis, first_seed: int
) -> Iterator[dict[str, float]]:
    for r in range(analysis.shuffles):
        rng = np.random.default_rng(first_seed + r)
        fit, test = (
            np.column_stack([part.progress_NF, shuffle_within(part, rng)])
            for part in (stratum.fit, stratum.test)
        )
        yield scores(stratum, _fit_predict(stratum, fit, test, analysis), analysis)


def shuffle_within(part: Part, rng: np.random.Generator) -> Array:
    """Normalized entropy permuted within each cell of a part, [N]."""
    value_N = part.column(UNCERTAINTY)
    shuffled_N = value_N.copy()
    for cell in np.unique(part.cell_N):
        members = part.cell_N == cell
        shuffled_N[members] = rng.permutation(value_N[members])
    return shuffled_N


def diagnostics(
    stratum: Stratum, analysis: RprmAnalysis, progress_auroc: float
) -> dict[str, dict[str, float]]:
    """Progress with another measure of certainty in the place of entropy. No way to a pass."""
    out = {}
    for column in DIAGNOSTICS:
        prediction = predict(stratum, Model(True, (column,)), analysis)
        value = auroc(stratum.test.accepted_N, prediction.probability_N)
        out[column] = {"auroc": value, "delta_vs_progress": value - progress_auroc}
    return out
