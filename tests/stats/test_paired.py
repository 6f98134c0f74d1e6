"""Paired logs: the vectorised bootstrap against loops, and bounds that allow for a choice."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils import resample

from diffdraft.stats.lines import fit_line
from diffdraft.stats.paired import PairedLogs, clustered_mean, log_times

PERCENTILES = (2.5, 97.5)
ARMS = {"ar": 1.0, "a": 0.8, "b": 0.82, "c": 1.3}


def rows(prompts=9, repeats=3, seed=0):
    rng = np.random.default_rng(seed)
    table = [
        {
            "prompt_id": f"p{prompt:02d}",
            "arm": arm,
            "repeat": repeat,
            "wall_seconds": factor * float(np.exp(0.3 * rng.normal())),
        }
        for prompt in range(prompts)
        for repeat in range(repeats)
        for arm, factor in ARMS.items()
    ]
    return pd.DataFrame(table).sample(frac=1, random_state=seed)


def paired(table, resamples=500, seed=7):
    return PairedLogs.of(log_times(table), resamples, seed, PERCENTILES)


def by_repeat(table, arm, against):
    """Per prompt the mean over repeats of the log ratio of the same repeat, one by one."""
    values = {}
    for prompt, own in table.groupby("prompt_id"):
        ratios = []
        for _, same in own.groupby("repeat"):
            wall = same.set_index("arm")["wall_seconds"]
            ratios.append(np.log(wall[against] / wall[arm]))
        values[prompt] = np.mean(ratios)
    return values


def loop(values, resamples, seed):
    """Means of resampled prompts, one resample at a time."""
    rng, ordered = np.random.default_rng(seed), [values[p] for p in sorted(values)]
    n = len(ordered)
    return np.array(
        [np.mean([ordered[i] for i in rng.integers(0, n, n)]) for _ in range(resamples)]
    )


def test_log_ratio_is_that_of_a_loop_over_repeats_prompts_and_resamples():
    table = rows()
    values = by_repeat(table, "a", "ar")
    found = paired(table).log_ratio("a", "ar")
    assert found.value == pytest.approx(np.mean(list(values.values())), abs=1e-12)
    expected = np.percentile(loop(values, 500, 7), PERCENTILES)
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)
    assert paired(table).per_cluster("a", "ar") == pytest.approx(list(values.values()), abs=1e-12)


def test_interval_agrees_with_an_independent_bootstrap():
    table = rows(prompts=27)
    values = list(by_repeat(table, "a", "ar").values())
    means = [np.mean(resample(values, random_state=i)) for i in range(1500)]
    found = paired(table, resamples=20_000).log_ratio("a", "ar")
    spread = np.std(means)
    assert (found.low, found.high) == pytest.approx(
        np.percentile(means, PERCENTILES), abs=spread / 5
    )


def test_the_bounds_of_a_best_arm_are_those_of_all_arms_at_once():
    table = rows()
    logs = {arm: by_repeat(table, arm, "ar") for arm in "abc"}
    found = paired(table).best_ratio(list("abc"), ["ar"])
    bounds = [np.percentile(loop(logs[arm], 500, 7), (2.5 / 3, 100 - 2.5 / 3)) for arm in "abc"]
    assert found.value == pytest.approx(max(np.mean(list(logs[arm].values())) for arm in "abc"))
    assert found.low == pytest.approx(max(low for low, _ in bounds), abs=1e-12)
    assert found.high == pytest.approx(max(high for _, high in bounds), abs=1e-12)


def test_a_best_arm_has_to_beat_every_one_of_the_others():
    table = rows()
    found = paired(table).best_ratio(["a", "c"], ["b", "ar"])
    each = {}
    for arm in ("a", "c"):
        ratios = [by_repeat(table, arm, other) for other in ("b", "ar")]
        each[arm] = [np.percentile(loop(r, 500, 7), (1.25, 98.75)) for r in ratios]
    assert found.low == pytest.approx(max(min(b[0] for b in each[arm]) for arm in each), abs=1e-12)


def test_the_best_of_equal_arms_is_rarely_found_better():
    """At the nominal 2.5 %; choosing again in every resample gives about a quarter."""
    rng, wrong = np.random.default_rng(3), 0
    arms = ["a", "b", "c", "d", "other"]
    for _ in range(200):
        table = pd.DataFrame(rng.normal(size=(27, 5)), [f"p{i:02d}" for i in range(27)], arms)
        wrong += PairedLogs.of(table, 400, 5, PERCENTILES).best_ratio(arms[:4], ["other"]).low > 0
    assert wrong <= 14


def test_arms_share_their_resamples():
    table = rows()
    twin = table[table["arm"] == "a"].assign(arm="twin")
    found = paired(pd.concat([table, twin])).log_ratio("twin", "a")
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_repeats_do_not_narrow_the_interval():
    table = rows(repeats=1)
    again = pd.concat([table, table.assign(repeat=1), table.assign(repeat=2)])
    once, thrice = (paired(each).log_ratio("a", "ar") for each in (table, again))
    assert (once.low, once.high) == pytest.approx((thrice.low, thrice.high), abs=1e-12)


def test_an_arm_that_a_prompt_lacks_is_never_averaged_away():
    table = rows()
    lacking = table[(table["prompt_id"] != "p03") | (table["arm"] != "b")]
    with pytest.raises(ValueError, match="every arm"):
        paired(lacking)


def test_clustered_mean_does_not_depend_on_the_order_of_the_clusters():
    values = pd.Series(np.random.default_rng(0).normal(size=9), [f"p{i}" for i in range(9)])
    one = clustered_mean(values, 300, 3, PERCENTILES)
    other = clustered_mean(values.sample(frac=1, random_state=1), 300, 3, PERCENTILES)
    assert (one.low, one.high) == (other.low, other.high)
    bounds = np.percentile(loop(values.to_dict(), 300, 3), PERCENTILES)
    assert (one.low, one.high) == pytest.approx(bounds, abs=1e-12)


numbers = st.floats(-100, 100).map(lambda x: round(x, 3))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=8))
def test_line_is_that_of_numpy(points):
    x, y = np.array(points).T
    line = fit_line(x, y)
    if len(set(x)) < 2:
        assert line is None
        return
    assert line is not None
    slope, intercept = np.polyfit(x, y, 1)
    fitted = intercept + slope * x
    if np.ptp(x) < 0.1:  # numpy itself is no reference on points this near each other
        return
    assert line.intercept + line.slope * x == pytest.approx(fitted, abs=1e-5)
    if np.ptp(y) > 0.1:
        left = 1 - ((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum()
        assert line.r_squared == pytest.approx(left, abs=1e-5)


def test_a_line_through_equal_values_fits_them():
    assert fit_line([1, 2, 3], [5.0, 5.0, 5.0]) == (5.0, 0.0, 1.0)
