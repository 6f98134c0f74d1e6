"""Paired timing: rows of two arms to a log ratio with an interval over prompts.

The unit is the prompt: both arms are deterministic, so repeats of a prompt measure the clock
again, not another prompt. They are averaged within the prompt before anything else.
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from diffdraft.errors import UserError
from diffdraft.stats.bootstrap import ClusterBootstrap, interval
from diffdraft.studies.paired_timing.settings import PairedTimingAnalysis, PairedTimingSeeds

RUN = ["prompt_id", "repeat", "arm"]
Json = dict[str, Any]


def check_runs(timing: pd.DataFrame, analysis: PairedTimingAnalysis, file: object) -> None:
    """Every prompt must have every repeat in both arms, and no other arm.

    Raises:
        UserError: naming the arm, or the prompt that lacks a run.
    """
    arms = [analysis.baseline_arm, analysis.arm]
    for arm in timing["arm"].unique():
        if arm not in arms:
            raise UserError(file, "arm", arm, " or ".join(arms))
    prompts, repeats = timing["prompt_id"].unique(), sorted(timing["repeat"].unique())
    if len(prompts) < analysis.floor_prompts:
        expected = f"at least {analysis.floor_prompts}, the floor_prompts of the plan"
        raise UserError(file, "prompt_id", f"{len(prompts)} prompts", expected)
    present = set(timing[RUN].itertuples(index=False, name=None))
    for prompt in prompts:
        for repeat in repeats:
            for arm in arms:
                if (prompt, repeat, arm) not in present:
                    found = f"no run of prompt {prompt} in arm {arm}, repeat {repeat}"
                    raise UserError(file, "arm", found, "both arms in every repeat of every prompt")
    for prompt, categories in timing.groupby("prompt_id")["category"].unique().items():
        if len(categories) > 1:
            found = f"{', '.join(categories)} for prompt {prompt}"
            raise UserError(file, "category", found, "one category a prompt")


def check_cycles(timing: pd.DataFrame, cycles: pd.DataFrame, file: object) -> None:
    """The cycle rows must add up to what the timing rows say of every run.

    Raises:
        UserError: naming the run.
    """
    grouped = cycles.groupby(RUN)[["accepted", "offered"]]
    sums = grouped.sum().assign(cycles=grouped.size())
    said = timing.set_index(RUN)[["accepted", "offered", "cycles"]]
    for run in sums.index.difference(said.index):
        raise UserError(file, "prompt_id, repeat, arm", run, "a run of the timing rows")
    differs = said.ne(sums.reindex(said.index, fill_value=0))
    for column in differs:
        for run in differs.index[differs[column]]:
            found = int(sums[column].get(run, 0))
            expected = f"{said[column][run]} as in the timing rows of {', '.join(map(str, run))}"
            raise UserError(file, str(column), found, expected)


def analyse(
    timing: pd.DataFrame,
    cycles: pd.DataFrame,
    analysis: PairedTimingAnalysis,
    seeds: PairedTimingSeeds,
) -> Json:
    """Figures of the study from checked rows, one entry a prompt included."""
    prompts = prompt_table(timing, cycles, analysis)
    quiet = prompts[prompts["busy_rows"] == 0]
    drafted = timing[timing["arm"] == analysis.arm]
    log_ratio = mean_over_prompts(prompts, "log_ratio", analysis, seeds)
    by_category = prompts.groupby("category")["log_ratio"].agg(["size", "mean"])
    return {
        "arms": {"baseline": analysis.baseline_arm, "arm": analysis.arm},
        "n_prompts": len(prompts),
        "n_repeats": int(timing["repeat"].nunique()),
        "busy_rows": int(timing["busy"].sum()),
        "identical_outputs": float(_is_identical(timing, analysis).reindex(drafted.index).mean()),
        "log_ratio": log_ratio,
        "speedup": {name: _exp(number) for name, number in log_ratio.items()},
        "mean_accepted_prefix": mean_over_prompts(prompts, "mean_accepted_prefix", analysis, seeds),
        "log_ratio_without_busy": {
            "n_prompts": len(quiet),
            **mean_over_prompts(quiet, "log_ratio", analysis, seeds),
        },
        "categories": [
            {"category": name, "n_prompts": int(row["size"]), "log_ratio": float(row["mean"])}
            for name, row in by_category.iterrows()
        ],
        "per_arm": _per_arm(timing),
        "accepted_histogram": _histogram(cycles[cycles["arm"] == analysis.arm]),
        "prompts": prompts.reset_index().to_dict("records"),
    }


def prompt_table(
    timing: pd.DataFrame, cycles: pd.DataFrame, analysis: PairedTimingAnalysis
) -> pd.DataFrame:
    """One row a prompt: its category, mean log ratio of the walls, accepted prefix, busy rows."""
    log_wall = np.log(timing["wall_seconds"])
    log_walls = log_wall.groupby([timing["prompt_id"], timing["arm"]]).mean().unstack("arm")
    grouped = timing.groupby("prompt_id")
    accepted = cycles[cycles["arm"] == analysis.arm].groupby("prompt_id")["accepted"].mean()
    identical = _is_identical(timing, analysis).groupby(timing["prompt_id"]).all()
    log_ratio = log_walls[analysis.baseline_arm] - log_walls[analysis.arm]
    return pd.DataFrame(
        {
            "category": grouped["category"].first(),
            "log_ratio": log_ratio,
            "speedup": np.exp(log_ratio),
            "mean_accepted_prefix": accepted.reindex(log_ratio.index, fill_value=0.0),
            "identical": identical,
            "busy_rows": grouped["busy"].sum(),
        }
    )


def _is_identical(timing: pd.DataFrame, analysis: PairedTimingAnalysis) -> pd.Series:
    """For each row: its ids equal those of every native run of the prompt."""
    native = timing[timing["arm"] == analysis.baseline_arm].groupby("prompt_id")["token_ids_sha"]
    same_natives = timing["prompt_id"].map(native.nunique()) == 1
    return same_natives & (timing["token_ids_sha"] == timing["prompt_id"].map(native.first()))


def mean_over_prompts(
    prompts: pd.DataFrame, column: str, analysis: PairedTimingAnalysis, seeds: PairedTimingSeeds
) -> dict[str, float | None]:
    """Mean of a prompt-level column, with the percentile interval of the prompt bootstrap."""
    if prompts.empty:
        return {"value": None, "ci_low": None, "ci_high": None}
    value_N = prompts[column].to_numpy(dtype=np.float64)
    bootstrap = ClusterBootstrap.draw(list(prompts.index), analysis.resamples, seeds.bootstrap)
    found = interval(bootstrap.means(value_N), analysis.interval_percentiles)
    return {"value": float(value_N.mean()), "ci_low": found.low, "ci_high": found.high}


def _exp(number: float | None) -> float | None:
    return None if number is None else math.exp(number)


def _per_arm(timing: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Descriptive totals of each arm; they carry no interval and decide nothing."""
    out = {}
    for arm, rows in timing.groupby("arm"):
        wall = float(rows["wall_seconds"].sum())
        out[str(arm)] = {
            "runs": len(rows),
            "tokens_per_second": float(rows["tokens"].sum()) / wall,
            "forwards_per_token": float(rows["forwards"].sum() / rows["tokens"].sum()),
            **{
                f"{stage}_share": float(rows[f"{stage}_seconds"].sum()) / wall
                for stage in ("prefill", "draft", "verify", "commit")
            },
        }
    return out


def _histogram(cycles: pd.DataFrame) -> list[int]:
    """Number of cycles with 0, 1, … accepted tokens."""
    return [int(count) for count in np.bincount(cycles["accepted"].to_numpy())]


def metrics_of(figures: Json) -> dict[str, dict[str, float | None]]:
    """The metrics that the plan's criteria may use."""
    intervals = ("log_ratio", "speedup", "mean_accepted_prefix", "log_ratio_without_busy")
    names = ("value", "ci_low", "ci_high")
    metrics = {key: {name: figures[key][name] for name in names} for key in intervals}
    for key in ("n_prompts", "identical_outputs", "busy_rows"):
        metrics[key] = {"value": figures[key], "ci_low": None, "ci_high": None}
    return metrics
