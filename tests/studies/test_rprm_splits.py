"""Gains under other splits: the registered one among them is the analysis's own."""

import pandas as pd

from diffdraft.prereg.schema import load_plan
from diffdraft.studies.rprm.analysis import analyse
from diffdraft.studies.rprm.run import settings_of
from diffdraft.studies.rprm.splits import over_splits, summary
from tests.synthetic import position_table

PLAN = "prereg/rprm.yaml"


def test_the_registered_split_gives_the_registered_gain():
    analysis, seeds = settings_of(load_plan(PLAN), PLAN)
    frame = position_table(512)
    few = analysis.model_copy(update={"resamples": 20})
    comparisons = {found.name: found.figures["comparisons"] for found in analyse(frame, few, seeds)}
    records = list(over_splits(frame, analysis, [seeds.split, 0]))
    assert len(records) == 2 * len(comparisons) * 2
    for record in records:
        registered = comparisons[record["stratum"]][f"{record['comparison']}_auroc_delta"]
        assert (record["gain"] == registered) == (record["split"] == seeds.split)


def test_the_summary_ranks_the_registered_split_among_the_others():
    gains = {7: 0.05, 0: 0.01, 1: 0.02, 2: 0.06}
    records = pd.DataFrame(
        {"split": split, "stratum": "FULL", "comparison": "4_vs_1", "gain": gain}
        for split, gain in gains.items()
    )
    (row,) = summary(records, 7).to_dict("records")
    assert row["registered"] == 0.05
    assert abs(row["mean"] - 0.03) < 1e-12
    assert row["share_below"] == 2 / 3
    assert row["q50"] == 0.02
