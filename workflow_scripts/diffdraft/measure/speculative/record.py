"""A run of generations, from what it needs to its row files and their meta file.

The planned measurement and the command by hand differ in where their settings come from; both
write what they measured here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from diffdraft import files, provenance, rows
from diffdraft.measure.divergence import DivergenceAudit
from diffdraft.measure.shards import Shards
from diffdraft.measure.speculative.arms import Settings, build_arm
from diffdraft.measure.speculative.bench import Bench, make_bench, precision
from diffdraft.measure.speculative.protocol import BASELINE, Row, time_unit, warm_up
from diffdraft.measure.speculative.request import Request
from diffdraft.measure.speculative.runs import Run, Source, plan_run
from diffdraft.measure.ties import tie_rows
from diffdraft.measure.workloads import load_workload
from diffdraft.row_schemas import SCHEMAS
from diffdraft.targets.load import DTYPES, load_target

STUDY = "act4s"
REFERENCE_REPEAT = 0


def measure(request: Request) -> dict[str, Path]:
    """Time every unit of the run and write its row files, the meta file last.

    Prompts that an interrupted run left in `request.work` are not timed again, if all that they
    depend on is still the same. Returns the files by schema name.

    Raises:
        UserError: a target, adapter, prompt, passage or size that does not fit.
    """
    workload = load_workload(request.workload)
    benches = load_benches(request, request.design.dtypes)
    first = next(iter(benches.values()))
    source = Source(workload, first.target.tokenizer, request.corpus, request.seeds.context)
    run = plan_run(
        request.name,
        request.design,
        request.sample,
        source,
        first.target.model,
        next(iter(benches)),
    )
    identity = request.identity(first.target.fingerprint)
    shards = Shards(request.work, identity, request.plan)
    pieces = time_run(run, benches, request, shards)
    tables = {name: [row for piece in pieces for row in piece[name]] for name in pieces[0]}
    tables["divergences"] = divergences(run, pieces, benches, request.ulp_tolerance)
    if request.design.dtypes:
        tables["ties"] = ties(run, pieces, benches)
    for bench in benches.values():
        bench.target.check_unchanged()
    written = write(request, tables)
    meta = meta_of(request, identity, list(benches), list(written.values()), shards)
    files.write_json(request.out_dir / f"{request.prefix}{request.name}_meta.json", meta)
    return written


def meta_of(
    request: Request,
    identity: Mapping[str, Any],
    dtypes: list[str],
    written: list[Path],
    shards: Shards,
) -> dict[str, Any]:
    """What was measured, on what, by what, and the digests of the row files."""
    return {
        "study": STUDY,
        "dtypes": dtypes,
        "ulp_tolerance": request.ulp_tolerance,
        **identity,
        "rows": {file.name: files.sha256_file(file) for file in written},
        "provenance": provenance.collect(shards.start, request.plan),
    }


def load_benches(request: Request, dtypes: Sequence[str]) -> dict[str, Bench]:
    """A bench for every precision named; of the weights as they are stored where none is."""
    loaded = [load_target(request.target, dtype) for dtype in DTYPES if dtype in dtypes]
    return {
        precision(target.model): make_bench(target, request.adapter, request.shuffled, request.rank)
        for target in loaded or [load_target(request.target)]
    }


def time_run(
    run: Run, benches: Mapping[str, Bench], request: Request, shards: Shards
) -> list[dict[str, list[Row]]]:
    """The pieces of all units, in order; a benchmark call is warmed up before its first one."""
    protocol, units = request.protocol(), run.units
    settings = Settings(
        request.sample.policies,
        request.seeds.draft_noise,
        request.seeds.random_drafter,
        request.cost_ms,
    )
    arms = {
        dtype: [build_arm(name, bench, settings) for name in run.arms]
        for dtype, bench in benches.items()
    }
    calls = {unit.number: call for call in run.calls for unit in call}
    warm: set[int] = set()

    def piece(place: int) -> dict[str, list[Row]]:
        unit = units[place]
        call, own = calls[unit.number], arms[unit.dtype]
        if call[0].number not in warm:
            warm_up(call, own, protocol)
            warm.add(call[0].number)
        return kept_tables(run, unit.dtype, time_unit(unit, own, protocol))

    names = [
        f"{unit.prompt.id}_{len(unit.prompt.ids)}_{unit.max_tokens}_{unit.dtype}" for unit in units
    ]
    return shards.collect(names, piece, "prompt")


def kept_tables(run: Run, dtype: str, tables: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """The tables that a run has: slots are of the run `confidence`.

    Rows of cycles do not name a precision, so they are of the run's first one.
    """
    cycles = tables["draft_cycles"] if dtype == run.calls[0][0].dtype else []
    kept = {"generations": tables["generations"], "draft_cycles": cycles}
    return {**kept, "slots": tables["slots"]} if run.name == "confidence" else kept


def divergences(
    run: Run, pieces: list[dict[str, list[Row]]], benches: Mapping[str, Bench], tolerance: float
) -> list[Row]:
    """One row for every generation that is not the native text it was compared with."""
    audits = {
        dtype: DivergenceAudit(bench.target.model, tolerance) for dtype, bench in benches.items()
    }
    found = []
    for unit, piece in zip(run.units, pieces, strict=True):
        native = native_texts(piece["generations"])
        for row in piece["generations"]:
            if row["identical"]:
                continue
            reference = native[REFERENCE_REPEAT if row["arm"] == BASELINE else row["repeat"]]
            audit = audits[unit.dtype].row(unit.prompt.ids, reference, text_of(row))
            key = {**unit.key(), "arm": row["arm"], "repeat": row["repeat"]}
            found.append({**(audit or {}), **key, "dtype": unit.dtype})
    return found


def ties(run: Run, pieces: list[dict[str, list[Row]]], benches: Mapping[str, Bench]) -> list[Row]:
    """The gap of the two best logits along the native text of every unit."""
    return [
        row
        for unit, piece in zip(run.units, pieces, strict=True)
        for row in tie_rows(
            benches[unit.dtype].target.model,
            unit.prompt.id,
            unit.prompt.ids,
            native_texts(piece["generations"])[REFERENCE_REPEAT],
        )
    ]


def native_texts(generations: list[Row]) -> dict[int, list[int]]:
    """Token ids of the native text by repeat."""
    return {row["repeat"]: text_of(row) for row in generations if row["arm"] == BASELINE}


def text_of(row: Mapping[str, Any]) -> list[int]:
    """Token ids of a row of `generations`."""
    return [int(token) for token in row["token_ids"].split()]


def write(request: Request, tables: Mapping[str, list[Row]]) -> dict[str, Path]:
    """Write each table under its name; returns the files by schema name."""
    name, folder, prefix = request.name, request.out_dir, request.prefix
    endings = {
        "generations": f"{name}.csv",
        "draft_cycles": f"{name}_cycles.csv",
        "divergences": f"{name}_divergences.csv",
        "slots": f"{name}_slots.csv",
        "ties": "ties.csv",
    }
    written = {schema: folder / f"{prefix}{endings[schema]}" for schema in tables}
    for schema, file in written.items():
        rows.write_rows(file, frame(tables[schema], schema), schema)
    return written


def frame(records: list[Row], schema: str) -> pd.DataFrame:
    """Records as a table with the columns of a row schema; an empty one has their types too."""
    table = pd.DataFrame.from_records(records, columns=rows.columns(schema))
    if records:
        return table
    kinds = {name: str(column.dtype) for name, column in SCHEMAS[schema].columns.items()}
    return table.astype(kinds)
