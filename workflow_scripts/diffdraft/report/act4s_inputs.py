"""What the report shows of study `act4s`: its tables, its analysis, and the published readings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.schema import Plan, load_plan
from diffdraft.prereg.verdict import Verdict
from diffdraft.report import inputs
from diffdraft.report.inputs import Json, Place
from diffdraft.report.registration import Registration, registration

# Columns that the figures and tables read; a file may have more.
COLUMNS = {
    "summary": "run max_tokens prompt_tokens subset arm rows prompts tok_s_median tok_s_mean"
    " tok_s_sd tok_s_p25 tok_s_p75 decode_tok_s_median speedup_median_ratio speedup_mean_ratio"
    " speedup_cycle_ratio decode_speedup tpf_median ms_per_token_median prefill_ms_median"
    " acceptance_rate_median mean_accepted_prefix mean_committed_per_cycle cycles draft_ms"
    " verify_ms commit_ms overhead_ms identical_share paired_speedup paired_ci_low paired_ci_high",
    "by_category": "run max_tokens category arm rows tok_s_median speedup_median_ratio"
    " paired_speedup mean_accepted_prefix tpf_median looped_fraction",
    "histogram": "run max_tokens prompt_tokens arm accepted cycles probability",
    "survival": "run max_tokens prompt_tokens arm j p_survive",
    "slot_break_even": "arm j p_survive slot_ms cycle_ms committed_per_cycle break_even pays",
    "confidence_bins": "subset bin mean_top1 mean_accepted n",
    "policy_choices": "arm block_size cycles share",
    "degeneration": "max_tokens category prompt_id looped_fraction distinct_ratio acceptance_rate"
    " tokens_per_second mean_accepted",
    "loop_phases": "arm phase prompts cycles mean_accepted",
    "cost_curve": "dtype kind width passes ms_median ms_p25 ms_p75",
    "cost_parts": "dtype kind width part ms_median share",
    "cost_model": "arm block_size expected_committed model_cycle_ms predicted_speedup"
    " measured_speedup measured_over_predicted",
    "audit": "run dtype rows_checked identical divergent exact_ties within_one_ulp_not_tie"
    " beyond_one_ulp max_gap_in_ulps median_gap_in_ulps passes_strict passes_exact_tie passes_ulp",
    "ties_summary": "dtype positions exact_ties tie_rate gap_median gap_p05",
}
ANALYSIS = (
    "n_prompts n_loop_free_prompts repeats busy_rows block_size margin comparisons degeneration"
    " cost_fits estimators context_trend confidence native"
)
READINGS = "plan_sha256 published_verdict as_published basis readings depends_on checks"

# Runs whose arms the summary describes; `precision` is for the audit of divergences only.
SUMMARISED = ("baseline", "ksweep", "context", "controls", "adaptive", "confidence")
MEASUREMENTS = (*SUMMARISED, "precision", "cost")


@dataclass(frozen=True)
class Act4s:
    """Study `act4s`: `tables` by file stem, `metas` by run."""

    plan: Plan
    registration: Registration
    verdict: Verdict
    analysis: Json
    tables: Mapping[str, pd.DataFrame] = field(repr=False)
    metas: Mapping[str, Json]
    manifest: Json | None


def load_act4s(place: Place) -> Act4s:
    """Study `act4s` from its analysis folder and the folder that holds its rows' metadata.

    Raises `UserError` that names the first file, column, key or run that is missing.
    """
    plan = load_plan(place.plan)
    return Act4s(
        plan=plan,
        registration=registration(place.plan),
        verdict=inputs.judged(place.analysis / "verdict.json", plan),
        analysis=read_object(place.analysis / "analysis.json", ANALYSIS),
        tables=_tables(place.analysis),
        metas={run: files.read_json(place.rows / f"{run}_meta.json") for run in MEASUREMENTS},
        manifest=inputs.manifest(place),
    )


def load_readings(folder: Path, plan: Plan) -> Json:
    """The published figures judged under every estimator, subset and rule of correctness.

    Raises `UserError` if they were judged by another plan.
    """
    path = folder / "readings.json"
    readings = read_object(path, READINGS)
    inputs.check_plan(path, readings["plan_sha256"], plan)
    return readings


def read_object(path: Path, keys: str) -> Json:
    """A JSON object with at least these keys."""
    value = files.read_json(path)
    for key in keys.split():
        if not isinstance(value, dict) or key not in value:
            found = ", ".join(value) if isinstance(value, dict) else type(value).__name__
            raise UserError(path, "keys", found, f"a key {key}")
    return value


def _tables(folder: Path) -> dict[str, pd.DataFrame]:
    tables = {
        stem: inputs.read_table(folder / f"{stem}.csv", names) for stem, names in COLUMNS.items()
    }
    runs = tables["summary"][tables["summary"].subset == "pooled"].run.unique()
    for run in SUMMARISED:
        if run not in runs:
            raise UserError(folder / "summary.csv", "run", ", ".join(runs), f"pooled rows of {run}")
    return tables
