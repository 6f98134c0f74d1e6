"""Tables of study `act4s` that the analysis wrote, in readable columns."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from diffdraft.report import act4s_labels as marks
from diffdraft.report import cells
from diffdraft.report.act4s_inputs import SUMMARISED, Act4s
from diffdraft.report.cells import Cell, Table

Json = Mapping[str, Any]

RUN_WORDS = {
    "baseline": "baseline: by generated length",
    "ksweep": "ksweep: fixed block sizes",
    "context": "context: by context length",
    "controls": "controls",
    "adaptive": "adaptive: widths chosen while decoding",
    "confidence": "confidence: recorded at every slot",
}


def speed_table(study: Act4s) -> Table:
    """The fixed block sizes: throughput, the paired ratio with its interval, and what is accepted.

    Arms in the order of the analysis, all prompts.
    """
    rows = marks.pick(study.tables["summary"], run="ksweep", subset="pooled")
    body = [
        [
            cells.text(row.arm),
            cells.num(row.tok_s_median, 1),
            *paired(row),
            cells.num(row.tpf_median, 3),
            cells.num(row.mean_accepted_prefix, 3),
            cells.num(row.identical_share, 4),
        ]
        for row in marks.records(rows)
    ]
    head = ["arm", "tokens/s", "paired ratio", "interval", "tokens/forward", "accepted a cycle"]
    margin = study.analysis["margin"]
    note = (
        "Ratio: native over drafted wall time, as logarithms averaged over repeats, then prompts. "
        f"Margin of the A/A control: {cells.number(margin['margin'], 4)} in units of the log "
        f"ratio, from its interval {_interval(margin['log_ratio'], 4)} and the plan's floor "
        f"{cells.number(margin['floor'], 4)}. Same output: share of runs with native's tokens."
    )
    return Table("Fixed block sizes against native", [*head, "same output"], body, note)


def paired(row: Any) -> list[Cell]:
    """Paired speed-up and its interval; native decoding itself has none."""
    if row.arm == "ar":
        return [cells.num(None), cells.num(None)]
    return [
        cells.num(row.paired_speedup, 3),
        cells.interval(_number(row.paired_ci_low), _number(row.paired_ci_high), 3),
    ]


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _interval(entry: Json, digits: int) -> str:
    return cells.interval(entry["ci_low"], entry["ci_high"], digits).text


def arm_tables(study: Act4s) -> Iterator[Table]:
    """Everything in summary.csv, one table for speed and one for cycles a run and subset."""
    summary = study.tables["summary"]
    for run in SUMMARISED:
        for subset, words in marks.SUBSETS.items():
            rows = marks.pick(summary, run=run, subset=subset)
            if len(rows):
                yield _throughput(f"{RUN_WORDS[run]}; {words}: speed", run, rows)
                yield _cycles(f"{RUN_WORDS[run]}; {words}: cycles", run, rows)


def _keys(run: str, row: Any) -> list[Cell]:
    """What tells the rows of one run apart."""
    extra = {"baseline": ["max_tokens"], "context": ["prompt_tokens"]}.get(run, [])
    return [cells.text(row.arm), *(cells.num(int(getattr(row, name))) for name in extra)]


def _key_heads(run: str) -> list[str]:
    return ["arm", *{"baseline": ["tokens"], "context": ["context"]}.get(run, [])]


def _throughput(caption: str, run: str, rows: pd.DataFrame) -> Table:
    body = [
        [
            *_keys(run, row),
            cells.num(int(row.rows)),
            cells.num(int(row.prompts)),
            cells.num(row.tok_s_median, 1),
            cells.interval(_number(row.tok_s_p25), _number(row.tok_s_p75), 1),
            cells.num(row.tok_s_mean, 1),
            cells.num(row.tok_s_sd, 1),
            cells.num(row.decode_tok_s_median, 1),
            cells.num(row.decode_speedup, 3),
            *paired(row),
            cells.num(row.speedup_median_ratio, 3),
            cells.num(row.speedup_mean_ratio, 3),
            cells.num(row.speedup_cycle_ratio, 3),
        ]
        for row in marks.records(rows)
    ]
    head = [
        *_key_heads(run),
        *("runs", "prompts", "tokens/s", "quartiles", "mean", "sd", "decode/s"),
        *("decode ratio", "paired ratio", "interval"),
        *("medians", "means", "stages"),
    ]
    note = (
        "Decode: without the prompt's forward. The last three are ratios by the published "
        "estimators: of medians, of means, and from the stages of a cycle."
    )
    return Table(caption, head, body, note)


def _cycles(caption: str, run: str, rows: pd.DataFrame) -> Table:
    columns = {
        "tpf_median": ("tokens/forward", 3),
        "ms_per_token_median": ("ms/token", 3),
        "prefill_ms_median": ("prefill ms", 2),
        "acceptance_rate_median": ("accepted share", 3),
        "mean_accepted_prefix": ("accepted a cycle", 3),
        "mean_committed_per_cycle": ("committed a cycle", 3),
        "cycles": ("cycles", 0),
        "draft_ms": ("draft ms", 3),
        "verify_ms": ("verify ms", 3),
        "commit_ms": ("commit ms", 3),
        "overhead_ms": ("overhead ms", 3),
        "identical_share": ("same output", 4),
    }
    body = [
        _keys(run, row)
        + [cells.num(getattr(row, name), digits) for name, (_, digits) in columns.items()]
        for row in marks.records(rows)
    ]
    note = "Medians of runs; accepted and committed a cycle are means over all cycles."
    return Table(caption, [*_key_heads(run), *(head for head, _ in columns.values())], body, note)


def comparison_tables(study: Act4s) -> Iterator[Table]:
    """Every paired comparison of the analysis, one table a run."""
    comparisons = study.analysis["comparisons"]
    for run in dict.fromkeys(entry["run"] for entry in comparisons):
        entries = [entry for entry in comparisons if entry["run"] == run]
        rows = [_comparison(entry) for entry in entries]
        head = ["arm", "against", "prompts are", "tokens", "context", "prompts", "ratio"]
        head += ["interval", "prompts faster", "prompts slower"]
        yield Table(f"{RUN_WORDS.get(run, run)}; paired comparisons", head, rows)


def _comparison(entry: Json) -> list[Cell]:
    ratio = entry["speedup"]
    return [
        cells.text(entry["arm"]),
        cells.text(entry["against"]),
        cells.text(marks.SUBSETS.get(entry["subset"], entry["subset"])),
        cells.num(entry["max_tokens"]),
        cells.num(entry["prompt_tokens"] or None),
        cells.num(entry["n_prompts"]),
        cells.num(ratio["value"], 4),
        cells.interval(ratio["ci_low"], ratio["ci_high"], 4),
        cells.num(entry["wins"]),
        cells.num(entry["losses"]),
    ]


def estimator_table(study: Act4s) -> Table:
    """Speed-up of every arm by four estimators; where they disagree on its sign, that is said."""
    rows = [
        [
            cells.text(marks.SUBSETS.get(entry["subset"], entry["subset"])),
            cells.text(entry["arm"]),
            *(
                cells.num(entry[name], 3)
                for name in ("paired", "median_ratio", "mean_ratio", "cycle_ratio")
            ),
            Cell("same", cells.GOOD) if entry["signs_agree"] else Cell("not robust", cells.BAD),
        ]
        for entry in study.analysis["estimators"]
    ]
    head = ["prompts", "arm", "paired", "ratio of medians", "ratio of means", "from stages"]
    note = (
        "Speed-up over native by estimator: paired carries the verdict, the others are as "
        "published. From stages: committed tokens a cycle over the summed medians of its stages, "
        "against decode-only native speed. Not robust: some say faster and some slower."
    )
    return Table("The same arms by every estimator", [*head, "sign"], rows, note)
