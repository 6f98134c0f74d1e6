"""Was it measured as planned? Sizes, seeds, models and code, from rows and metadata."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from diffdraft.errors import UserError
from diffdraft.prereg.decoding_design import check_decoding
from diffdraft.prereg.manifest import Measurement
from diffdraft.prereg.registry import Study
from diffdraft.prereg.schema import DecodingSample, Plan, PromptSample, WindowSample
from diffdraft.rows import read_rows

RUN = ["prompt_id", "repeat", "arm"]
STAGES = ("prefill", "draft", "verify", "commit")
CLOCK_ROUNDING = 1e-9  # the parts are sums of floats


def check_samples(plan: Plan, profile: str, folder: Path, study: Study) -> None:
    """Raise `UserError` unless every row file has exactly the planned sample."""
    sample = plan.samples.get(profile)
    if sample is None:
        raise UserError(folder, "profile", profile, f"one of {', '.join(plan.samples)}, as planned")
    if isinstance(sample, DecodingSample):
        check_decoding(folder, plan, sample)
        return
    for name, schema in study.rows.items():
        rows = read_rows(folder / name, schema)
        if isinstance(sample, WindowSample):
            _check_windows(rows, sample, folder / name)
        elif schema == "timing":
            _check_prompts(rows, sample, plan, folder / name)
    if isinstance(sample, PromptSample):
        _check_cycles(folder, str(plan.analysis["arm"]))


def _check_windows(rows: pd.DataFrame, sample: WindowSample, file: Path) -> None:
    strata = sorted(rows["stratum"].unique())
    _same(file, "strata", strata, sorted(sample.strata))
    for stratum, part in rows.groupby("stratum"):
        _same(file, f"windows in {stratum}", part["example_id"].nunique(), sample.windows)
        positions = sample.windows * (sample.block_size - 1)
        _same(file, f"positions in {stratum}", len(part), positions)
    first = sample.window_tokens - sample.block_size  # the row that predicts offset +2
    shift = (rows["position"] - rows["offset"]).unique().tolist()
    _same(file, "position - offset", shift, [first - 2])


def _check_prompts(rows: pd.DataFrame, sample: PromptSample, plan: Plan, file: Path) -> None:
    _same(file, "prompts", rows["prompt_id"].nunique(), sample.prompts)
    _same(file, "categories", rows["category"].nunique(), sample.categories)
    _same(file, "arms", sorted(rows["arm"].unique()), sorted(arm.id for arm in plan.arms))
    _same(file, "blocks", rows["block"].nunique(), sample.abba_blocks)
    _same(file, "tokens", rows["tokens"].unique().tolist(), [sample.tokens])
    repeats = rows.groupby(["prompt_id", "arm"]).size().unique().tolist()
    _same(file, "runs of a prompt in an arm", repeats, [2 * sample.abba_blocks])
    turns = [arm.id for arm in plan.arms]
    order = rows.sort_values("order").groupby(["prompt_id", "block"])["arm"].agg(list)
    wrong = order[order.map(lambda found: found != [*turns, *reversed(turns)])]
    blocks = [" ".join(map(str, key)) for key in wrong.index]
    _same(file, "blocks in another order of arms", blocks[:3], [])
    parts = rows[[f"{stage}_seconds" for stage in STAGES]].sum(axis=1)
    longer = parts > rows["wall_seconds"] * (1 + CLOCK_ROUNDING)
    _same(file, "rows whose stages take longer than the run", int(longer.sum()), 0)
    busy = (rows["load_before"] > sample.max_load_before).astype(int)
    _same(file, "rows whose busy mark is wrong", int((busy != rows["busy"]).sum()), 0)


def _check_cycles(folder: Path, arm: str) -> None:
    """Every drafted run committed, cycle by cycle, exactly the tokens that its row gives."""
    timing = read_rows(folder / "timing.csv", "timing")
    cycles = read_rows(folder / "cycles.csv", "cycles")
    runs = timing[timing["arm"] == arm].set_index(RUN)
    drafted = cycles[cycles["arm"] == arm].groupby(RUN)["committed"].sum()
    committed = drafted.reindex(runs.index.union(drafted.index), fill_value=0)
    tokens = runs["tokens"].reindex(committed.index, fill_value=0)
    wrong = [" ".join(map(str, key)) for key in committed.index[committed != tokens]]
    _same(folder / "cycles.csv", "runs that committed another number of tokens", wrong[:3], [])


def check_measurements(
    plan: Plan, profile: str, measurements: Mapping[str, Measurement], folder: Path
) -> None:
    """Raise `UserError` unless metadata name the planned study, seeds, sample and model."""
    sample, model = plan.samples[profile].model_dump(), plan.models[profile]
    for name, measurement in measurements.items():
        file = folder / name
        _same(file, "study", measurement.study, plan.study)
        _same(file, "profile", measurement.profile, profile)
        _same(file, "plan_sha256", measurement.plan_sha256, plan.sha256)
        _same(file, "provenance.plan.sha256", measurement.provenance.plan.sha256, plan.sha256)
        _same(file, "seeds", measurement.seeds, plan.seeds)
        _same(file, "samples", measurement.samples, sample)
        if model.profile_sha256 is not None:
            _same(file, "profile_sha256", measurement.profile_sha256, model.profile_sha256)
        if workload := sample.get("workload_sha256"):
            _same(file, "workload_sha256", measurement.workload_sha256, workload)
        if model.revision is not None:
            _same(file, "target_revision", measurement.target_revision, model.revision)
        if model.fingerprint is not None:
            _same(file, "target_fingerprint", measurement.target_fingerprint, model.fingerprint)
    for field in (
        "target_fingerprint",
        "student_ids_sha256",
        "profile_sha256",
    ):  # one target, one set of windows
        values = {getattr(measurement, field) for measurement in measurements.values()}
        _same(folder, f"different values of {field}", len(values), 1)


def _same(file: Path, field: str, found: object, planned: object) -> None:
    if found != planned:
        raise UserError(file, field, found, f"{planned}, as planned")
