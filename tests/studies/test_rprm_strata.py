"""The split, the shuffle cells, the features, and what is refused."""

import numpy as np
import pytest

from diffdraft.errors import UserError
from diffdraft.studies.rprm.models import MODELS, UNCERTAINTY, shuffle_within
from diffdraft.studies.rprm.strata import load_strata, split_windows
from tests.studies.plans import rprm_settings
from tests.synthetic import position_table

ANCHOR = [1125, 1079, 745, 514, 486, 243, 747, 155]


def strata(frame, **changes):
    analysis, seeds = rprm_settings(floor_windows=1, **changes)
    return load_strata(frame, analysis, seeds.split, "positions.csv")


def test_published_split():
    names = [f"w{batch:04d}r{row}" for batch in range(320) for row in range(4)]
    split = split_windows(names[::-1], 0.5, 0.2, 20260908)
    assert [names.index(name) for name in split["FIT"][:8]] == ANCHOR
    assert split["FIT"][0] == "w0281r1"
    assert [len(split[part]) for part in ("FIT", "VAL", "TEST")] == [640, 256, 384]
    assert set().union(*split.values()) == set(names)


def test_windows_never_straddle_the_split():
    full, schedule = strata(position_table(64))
    assert not set(full.fit.windows) & set(full.test.windows)
    assert set(full.fit.windows) == set(schedule.fit.windows)
    assert set(full.test.windows) == set(schedule.test.windows)


def test_progress_columns_and_cells():
    full, schedule = strata(position_table(1280))
    assert full.fit.progress_NF.shape == (4480, 6)
    assert schedule.fit.progress_NF.shape == (4480, 9)
    assert len(np.unique(full.fit.cell_N)) == 7
    assert len(np.unique(schedule.fit.cell_N)) == 21  # three buckets of t remain of five
    first = full.fit.rows["offset"].to_numpy() == 2
    assert not full.fit.progress_NF[first].any()


def test_a_shuffle_keeps_each_cell_and_moves_it():
    _, schedule = strata(position_table(64))
    before = schedule.fit.column(UNCERTAINTY)
    after = shuffle_within(schedule.fit, np.random.default_rng(0))
    assert (before != after).mean() > 0.5
    for cell in np.unique(schedule.fit.cell_N):
        inside = schedule.fit.cell_N == cell
        np.testing.assert_array_equal(np.sort(before[inside]), np.sort(after[inside]))


def test_the_seven_fitted_models():
    assert [key[0] for key in MODELS] == list("1234568")


def test_too_few_windows():
    analysis, seeds = rprm_settings()
    with pytest.raises(UserError) as caught:
        load_strata(position_table(511), analysis, seeds.split, "positions.csv")
    assert str(caught.value) == (
        "positions.csv: example_id: found 511 windows; "
        "expected at least 512, the floor_windows of the plan"
    )


@pytest.mark.parametrize("part", ["fit", "test"])
@pytest.mark.parametrize("accepted", [0, 1])
def test_one_class_in_a_split(part, accepted):
    table = position_table(20)
    _, schedule = strata(table)
    windows = getattr(schedule, part).windows
    rows = (table["stratum"] == "SCHEDULE") & table["example_id"].isin(windows)
    table.loc[rows, "accepted"] = accepted
    with pytest.raises(UserError) as caught:
        strata(table)
    assert str(caught.value) == (
        f"positions.csv: accepted, SCHEDULE {part.upper()}: "
        f"found only {accepted}; expected both 0 and 1"
    )


def test_so_few_windows_that_a_split_is_empty():
    with pytest.raises(UserError, match="FULL FIT: found no rows"):
        strata(position_table(1))
