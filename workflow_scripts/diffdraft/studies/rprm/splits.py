"""How much a gain in AUROC depends on which windows fit the models and which test them.

The registered analysis splits the windows once, by a seed of the plan, and its interval resamples
test windows under that split. So the interval leaves out how much the gain moves from one split to
the next. These figures show that; they are no part of any plan and decide nothing.
"""

from collections.abc import Iterable, Iterator

import pandas as pd

from diffdraft.stats.auroc import auroc
from diffdraft.studies.rprm.models import COMPARISONS, MODELS, predict
from diffdraft.studies.rprm.settings import RprmAnalysis
from diffdraft.studies.rprm.strata import Stratum, load_strata

QUANTILES = (0.05, 0.5, 0.95)


def gains(stratum: Stratum, analysis: RprmAnalysis) -> dict[str, float]:
    """The gain in test AUROC of each comparison, under the split that the stratum has."""
    keys = {key[0]: model for key, model in MODELS.items()}
    found = {
        number: auroc(
            stratum.test.accepted_N, predict(stratum, keys[number], analysis).probability_N
        )
        for pair in COMPARISONS
        for number in pair
    }
    return {f"{a}_vs_{b}": found[a] - found[b] for a, b in COMPARISONS}


def over_splits(
    frame: pd.DataFrame, analysis: RprmAnalysis, seeds: Iterable[int], file: object = "positions"
) -> Iterator[dict[str, float | int | str]]:
    """One record for each split seed, stratum and comparison, in that order."""
    for seed in seeds:
        for stratum in load_strata(frame, analysis, seed, file):
            for name, gain in gains(stratum, analysis).items():
                yield {"split": seed, "stratum": stratum.name, "comparison": name, "gain": gain}


def summary(records: pd.DataFrame, registered: int) -> pd.DataFrame:
    """By stratum and comparison: the registered gain, its rank among the others, and their spread.

    `share_below` is the share of the other splits whose gain is below the registered one.
    """
    rows = []
    for (stratum, comparison), group in records.groupby(["stratum", "comparison"]):
        ours = group.loc[group["split"] == registered, "gain"].item()
        others = group.loc[group["split"] != registered, "gain"]
        spread = {f"q{round(100 * q):02d}": others.quantile(q) for q in QUANTILES}
        below = float((others < ours).mean())
        rows.append(
            {"stratum": stratum, "comparison": comparison, "registered": ours}
            | {"share_below": below, "mean": others.mean(), "sd": others.std(), **spread}
        )
    return pd.DataFrame(rows)
