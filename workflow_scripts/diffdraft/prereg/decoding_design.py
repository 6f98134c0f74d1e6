"""Were the generations of Act IV-S made as planned? Prompts, lengths, arms, repeats and marks."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.schema import DecodingSample, Plan
from diffdraft.rows import read_rows
from diffdraft.studies.act4s.design import DTYPES, NO_CONTEXTS, RunDesign, designs


def check_decoding(folder: Path, plan: Plan, sample: DecodingSample) -> None:
    """Raise `UserError` for the first thing that is not as planned, with its file."""
    listed = {arm.id for arm in plan.arms}
    for run, design in designs(sample).items():
        file = folder / f"{run}.csv"
        rows = read_rows(file, "generations")
        _same(file, "arms that the plan does not list", sorted(set(design.arms) - listed), [])
        prompts = sample.context.passages if run == "context" else sample.prompts
        for name, found, planned in _sizes(rows, design, prompts):
            _same(file, name, found, planned)
        busy = (rows["load_before"] > sample.max_load_before).astype(int)
        _same(file, "rows whose busy mark is wrong", int((busy != rows["busy"]).sum()), 0)
        categories = 1 if run == "context" else sample.categories
        _same(file, "categories", rows["category"].nunique(), categories)
    _check_one_measurement(folder, [*designs(sample), "cost"])
    _check_confidence(folder / "confidence_slots.csv", sample)
    _check_passes(folder / "cost.csv", sample)


def _check_one_measurement(folder: Path, runs: list[str]) -> None:
    """All runs by the same code and packages on the same models; the cost table of this sweep."""
    metas = {run: files.read_json(folder / f"{run}_meta.json") for run in runs}
    for field in ("code", "packages", "adapter_sha256", "target_fingerprint"):
        for run, meta in metas.items():
            first = metas[runs[0]].get(field)
            if meta.get(field) != first:
                expected = f"{first}, as in {runs[0]}_meta.json"
                raise UserError(folder / f"{run}_meta.json", field, meta.get(field), expected)
    sweep = files.sha256_file(folder / "ksweep.csv")
    _same(folder / "adaptive_meta.json", "ksweep_sha256", metas["adaptive"]["ksweep_sha256"], sweep)


def _sizes(
    rows: pd.DataFrame, design: RunDesign, prompts: int
) -> Iterator[tuple[str, object, object]]:
    dtypes = design.dtypes or DTYPES[:1]
    yield "arms", _values(rows, "arm"), sorted(design.arms)
    yield "prompts", rows["prompt_id"].nunique(), prompts
    yield "max_tokens", _values(rows, "max_tokens"), sorted(design.max_tokens)
    yield "generations cut short", int((rows["tokens"] != rows["max_tokens"]).sum()), 0
    yield "repeats", _values(rows, "repeat"), list(range(design.repeats))
    yield "dtype", _values(rows, "dtype"), sorted(dtypes)
    if design.contexts != NO_CONTEXTS:
        yield "prompt_tokens", _values(rows, "prompt_tokens"), sorted(design.contexts)
    cells = len(design.arms) * len(design.max_tokens) * len(design.contexts) * len(dtypes)
    yield "rows", len(rows), cells * prompts * design.repeats


def _values(rows: pd.DataFrame, column: str) -> list[object]:
    return sorted(rows[column].unique().tolist())


def _check_confidence(file: Path, sample: DecodingSample) -> None:
    slots = read_rows(file, "slots")
    _same(file, "prompts", slots["prompt_id"].nunique(), sample.prompts)
    _same(file, "slots", int(slots["slot"].max()), sample.block_size - 1)


def _check_passes(file: Path, sample: DecodingSample) -> None:
    rows = read_rows(file, "passes")
    whole = rows[rows["part"] == "whole"]
    _same(file, "dtype", _values(whole, "dtype"), sorted(DTYPES))
    for (dtype, kind), part in whole.groupby(["dtype", "kind"]):
        widths = list(range(1, sample.cost.widths + 1))
        _same(file, f"widths of {kind}, {dtype}", _values(part, "width"), widths)
    counts = sorted(whole.groupby(["dtype", "kind", "width"]).size().unique().tolist())
    _same(file, "passes of a width", counts, [sample.cost.repeats])


def _same(file: Path, field: str, found: object, planned: object) -> None:
    if found != planned:
        raise UserError(file, field, found, f"{planned}, as planned")
