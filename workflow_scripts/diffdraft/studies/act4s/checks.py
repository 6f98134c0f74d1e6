"""Is every run whole? What is missing is named, never averaged away."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from diffdraft.errors import UserError
from diffdraft.prereg.schema import DecodingSample
from diffdraft.stats.loops import looped_fraction
from diffdraft.studies.act4s.design import DTYPES
from diffdraft.studies.act4s.references import check_divergences, check_references
from diffdraft.studies.act4s.settings import Act4sAnalysis
from diffdraft.studies.act4s.study_rows import RunRows, StudyRows

TEXT = ["prompt_id", "prompt_tokens", "max_tokens"]
GENERATION = [*TEXT, "arm"]


def check_study(study: StudyRows) -> None:
    """Check every run for itself and all of them together.

    Raises:
        UserError: naming the file, and the run, prompt, arm and repeat at fault.
    """
    for name, run in study.runs.items():
        check_grid(run, study.analysis, study.sample, in_context=name == "context")
        check_references(run, study.analysis.baseline_arm)
        check_divergences(run, study.analysis.baseline_arm)
        check_cycles(run)
        check_loops(run, study.analysis)
    check_prompts(study)
    check_slots(study.runs["confidence"], study.slots, study)


def check_grid(
    run: RunRows, analysis: Act4sAnalysis, sample: DecodingSample, in_context: bool
) -> None:
    """Every prompt x length x repeat has every arm of the run, and there is nothing else."""
    rows, design = run.generations, run.design
    prompts = list(rows["prompt_id"].unique())
    if in_context and len(prompts) != sample.context.passages:
        expected = f"{sample.context.passages}, as planned"
        raise UserError(run.file, "prompt_id", f"{len(prompts)} passages", expected)
    if not in_context and len(prompts) < analysis.floor_prompts:
        expected = f"at least {analysis.floor_prompts}, the floor_prompts of the plan"
        raise UserError(run.file, "prompt_id", f"{len(prompts)} prompts", expected)
    dtypes = design.dtypes or tuple(rows["dtype"].unique()[:1])
    axes: dict[str, Sequence[Any]] = {
        "max_tokens": design.max_tokens,
        "dtype": dtypes,
        "arm": design.arms,
        "repeat": range(design.repeats),
    }
    if in_context:
        axes = {"prompt_tokens": design.contexts, **axes}
    for column, allowed in axes.items():
        for value in rows[column].unique():
            if value not in allowed:
                raise UserError(run.file, column, value, _or(allowed))
    check_full_length(run)
    _check_present(run, {"prompt_id": prompts, **axes})
    _check_one(run, "category")
    if not in_context:
        _check_one(run, "prompt_tokens")


def _or(values: Iterable[Any]) -> str:
    return " or ".join(map(str, values))


def check_full_length(run: RunRows) -> None:
    """Every generation has all of its tokens."""
    rows = run.generations
    for row in rows[rows["tokens"] != rows["max_tokens"]].itertuples():
        found = f"{row.tokens} of prompt {row.prompt_id}, arm {row.arm}, repeat {row.repeat}"
        raise UserError(run.file, "tokens", found, f"{row.max_tokens}: there are no stop ids")


def _check_present(run: RunRows, axes: dict[str, Sequence[Any]]) -> None:
    present = set(run.generations[list(axes)].itertuples(index=False, name=None))
    for cell in itertools.product(*axes.values()):
        if cell not in present:
            said = dict(zip(axes, cell, strict=True))
            found = (
                f"no run of prompt {said['prompt_id']} in arm {said['arm']}, repeat"
                f" {said['repeat']}, {said['max_tokens']} tokens, {said['dtype']}"
            )
            if "prompt_tokens" in said:
                found += f", context {said['prompt_tokens']}"
            raise UserError(run.file, "arm", found, "every arm of the run for every prompt")


def _check_one(run: RunRows, column: str) -> None:
    for prompt, values in run.generations.groupby("prompt_id")[column].unique().items():
        if len(values) > 1:
            found = f"{', '.join(map(str, values))} for prompt {prompt}"
            raise UserError(run.file, column, found, f"one {column} a prompt")


def check_prompts(study: StudyRows) -> None:
    """All runs but `context` have the same prompts, and all timed ones the same dtype."""
    runs = {name: run for name, run in study.runs.items() if name != "context"}
    prompts = {name: set(run.generations["prompt_id"]) for name, run in runs.items()}
    for name, found in prompts.items():
        for prompt in sorted(set.union(*prompts.values()) - found):
            raise UserError(
                runs[name].file, "prompt_id", f"nothing of {prompt}", "the prompts of every run"
            )
    first = study.runs["baseline"].generations["dtype"].iloc[0]
    for run in study.timed().values():
        dtype = run.generations["dtype"].iloc[0]
        if dtype != first:
            raise UserError(run.file, "dtype", dtype, f"{first}, as in the run baseline")
    for dtype in DTYPES:
        have = set(study.ties.loc[study.ties["dtype"] == dtype, "prompt_id"])
        for prompt in sorted(prompts["precision"] - have):
            lacking = f"nothing of {prompt} in {dtype}"
            file = runs["precision"].file.with_name("ties.csv")
            raise UserError(file, "prompt_id", lacking, "every prompt in both dtypes")


def check_cycles(run: RunRows) -> None:
    """The cycle rows add up to what the generation rows of repeat 0 say."""
    grouped = run.cycles.groupby(GENERATION)
    sums = grouped[["accepted", "offered", "committed"]].sum().assign(cycles=grouped.size())
    said = cycled_generations(run).set_index(GENERATION)
    said = said.assign(committed=said["tokens"].where(said["cycles"] > 0, 0))[list(sums)]
    file = run.beside("cycles")
    for key in sums.index.difference(said.index):
        raise UserError(file, ", ".join(GENERATION), key, f"a run of {run.file.name}")
    found = sums.reindex(said.index, fill_value=0)
    for column in ("cycles", "committed", "accepted", "offered"):
        for key in said.index[said[column].ne(found[column])]:
            expected = f"{said[column][key]}, as in {run.file.name} for {', '.join(map(str, key))}"
            raise UserError(file, column, found[column][key], expected)


def cycled_generations(run: RunRows) -> pd.DataFrame:
    """The generations whose cycles are kept: repeat 0, in the first dtype of the run."""
    rows = run.generations
    dtype = run.design.dtypes[0] if run.design.dtypes else rows["dtype"].iloc[0]
    return rows[(rows["repeat"] == 0) & (rows["dtype"] == dtype)]


def check_loops(run: RunRows, analysis: Act4sAnalysis) -> None:
    """The looped fraction of a text is that of its native ids, the same in all arms."""
    native = run.generations[run.generations["arm"] == analysis.baseline_arm]
    for row in native[native["repeat"] == 0].itertuples():
        expected = looped_fraction(
            [int(i) for i in str(row.token_ids).split()], analysis.loop_ngram
        )
        if row.looped_fraction != expected:
            where = f"of prompt {row.prompt_id}, arm {row.arm}"
            found = f"{row.looped_fraction} {where}"
            raise UserError(run.file, "looped_fraction", found, f"{expected} by its ids")
    for column in ("looped_fraction", "distinct_ratio"):
        values = run.generations.groupby([*TEXT, "dtype", "repeat"])[column].nunique()
        for key in values.index[values > 1]:
            found = f"{values[key]} values for {', '.join(map(str, key))}"
            raise UserError(run.file, column, found, "that of the native text in all arms")


def check_slots(run: RunRows, slots: pd.DataFrame, study: StudyRows) -> None:
    """There is a slot for every offered token of the arm that keeps confidence, and no other."""
    file = run.beside("slots")
    arm = f"conf_k{study.analysis.block_size}"
    for name in slots["arm"].unique():
        if name != arm:
            raise UserError(file, "arm", name, arm)
    key = [*GENERATION, "cycle"]
    cycles = run.cycles[run.cycles["arm"] == arm].set_index(key)[["offered", "accepted"]]
    grouped = slots.groupby(key)
    counts = grouped.size().reindex(cycles.index, fill_value=0)
    for where in grouped.size().index.difference(cycles.index):
        raise UserError(file, "cycle", where, f"a cycle of {run.beside('cycles').name}")
    for where in cycles.index[counts != cycles["offered"]]:
        expected = f"{cycles['offered'][where]} of {', '.join(map(str, where))}"
        raise UserError(file, "slot", f"{counts[where]} slots", expected)
    joined = slots.join(cycles.rename(columns={"accepted": "accepted_cycle"}), on=key)
    wrong = joined["slot"].gt(joined["offered"])
    wrong |= joined["accepted"].ne(joined["slot"].le(joined["accepted_cycle"]).astype(int))
    for row in joined[wrong].itertuples():
        found = f"slot {row.slot} with accepted {row.accepted} in cycle {row.cycle}"
        expected = f"{row.accepted_cycle} accepted of {row.offered}, prompt {row.prompt_id}"
        raise UserError(file, "accepted", found, expected)
