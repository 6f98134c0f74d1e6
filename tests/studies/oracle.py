"""The RPRM analysis a second time: loops, pandas and scikit-learn, nothing shared with ours.

Follows qwen-block-diffusion-lab (RPRM stage 1) step by step, as slowly as it reads.
"""

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

H, GAP = "normalized_entropy", "existing_draftability_score"


def split(frame, seed):
    ids = np.array(sorted(frame["example_id"].unique()))
    order = np.random.default_rng(seed).permutation(len(ids))
    n_fit, n_val = round(0.5 * len(ids)), round(0.2 * len(ids))
    return set(ids[order[:n_fit]]), set(ids[order[n_fit + n_val :]])


def progress(frame, stratum):
    columns = [(frame["offset"] == k).astype(float) for k in range(3, 9)]
    if stratum == "SCHEDULE":
        columns += [frame["timestep"], frame["corruption_level"], frame["n_corrupted_predecessors"]]
    return np.column_stack(columns).astype(float)


def fit_predict(x_fit, y_fit, x_test):
    """L-BFGS-B on the mean negative log-likelihood, standardised columns, predictor in ±35."""
    mean, std = x_fit.mean(0), x_fit.std(0)
    std[std < 1e-12] = 1
    fit, test = (np.column_stack([np.ones(len(x)), (x - mean) / std]) for x in (x_fit, x_test))

    def objective(w):
        z = np.clip(fit @ w, -35, 35)
        p = 1 / (1 + np.exp(-z))
        return np.mean(np.logaddexp(0, z) - y_fit * z), fit.T @ (p - y_fit) / len(y_fit)

    options = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-10}
    w = minimize(objective, np.zeros(fit.shape[1]), jac=True, method="L-BFGS-B", options=options).x
    return 1 / (1 + np.exp(-np.clip(test @ w, -35, 35)))


def predictions(fit, test, stratum):
    """Predicted TEST probabilities of models 1, 4, 5 and 6, rounded so that ties are ties."""
    sets = {"1": [], "4": [H], "5": [GAP], "6": [GAP, H]}
    return {
        number: np.round(
            fit_predict(
                np.column_stack([progress(fit, stratum), fit[columns]]),
                fit["accepted"].to_numpy(),
                np.column_stack([progress(test, stratum), test[columns]]),
            ),
            7,
        )
        for number, columns in sets.items()
    }


def shuffled_aurocs(frame, fit, test, stratum, seed, repeats):
    bucket = pd.qcut(frame["timestep"], 5, labels=False, duplicates="drop")
    out = []
    for r in range(repeats):
        rng = np.random.default_rng(seed + r)
        parts = []
        for part in (fit, test):
            shuffled = part[H].copy()
            keys = [part["offset"], bucket[part.index]] if stratum == "SCHEDULE" else part["offset"]
            for _, cell in part.groupby(keys, sort=True):
                shuffled[cell.index] = rng.permutation(part.loc[cell.index, H].to_numpy())
            parts.append(np.column_stack([progress(part, stratum), shuffled]))
        p = fit_predict(parts[0], fit["accepted"].to_numpy(), parts[1])
        out.append(roc_auc_score(test["accepted"], p))
    return out


def bootstrap(test, statistic, seed, resamples):
    ids = sorted(test["example_id"].unique())
    rows = {name: np.flatnonzero(test["example_id"] == name) for name in ids}
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(resamples):
        drawn = rng.integers(0, len(ids), len(ids))
        values.append(statistic(np.concatenate([rows[ids[i]] for i in drawn])))
    return np.mean(values), *np.percentile(values, [2.5, 97.5])
