"""Tables of study `act4s` on correctness, cost, context, widths, repetition and confidence."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from diffdraft.report import act4s_labels as marks
from diffdraft.report import cells
from diffdraft.report.act4s_inputs import Act4s
from diffdraft.report.cells import Cell, Table

Json = Mapping[str, Any]
Columns = Mapping[str, tuple[str, int]]  # head and digits by column


def audit_table(study: Act4s) -> Table:
    """Divergences of every run and dtype under three rules of what counts as correct."""
    columns: Columns = {
        "rows_checked": ("checked", 0),
        "identical": ("identical", 0),
        "divergent": ("divergent", 0),
        "exact_ties": ("ties", 0),
        "within_one_ulp_not_tie": ("≤ 1 ULP", 0),
        "beyond_one_ulp": ("> 1 ULP", 0),
        "max_gap_in_ulps": ("largest gap", 2),
        "median_gap_in_ulps": ("median gap", 2),
    }
    rules = {
        "passes_strict": "strict",
        "passes_exact_tie": "exact tie",
        "passes_ulp": "1 ULP",
    }
    rows = [
        [cells.text(row.run), cells.text(row.dtype)]
        + [cells.num(getattr(row, name), digits) for name, (_, digits) in columns.items()]
        + [cells.outcome(bool(getattr(row, name))) for name in rules]
        for row in marks.records(study.tables["audit"])
    ]
    head = ["run", "dtype", *(head for head, _ in columns.values()), *rules.values()]
    note = (
        "Each divergent run is judged at its first differing token, by the target's logits from "
        "one forward without a cache. Ties: equal logits; gaps in units in the last place (ULP). "
        "The last three columns are three rules for the same rows: no divergence, exact ties "
        "only, at most one ULP. The published design stated the second and applied the third."
    )
    return Table("Output against native output, by three rules", head, rows, note)


def ties_table(study: Act4s) -> Table:
    """How often the two highest logits tie in native text."""
    columns: Columns = {
        "positions": ("positions", 0),
        "exact_ties": ("exact ties", 0),
        "tie_rate": ("tie rate", 5),
        "gap_median": ("median gap", 4),
        "gap_p05": ("5th percentile of gap", 4),
    }
    return plain("How often the target ties", study.tables["ties_summary"], {"dtype": ""}, columns)


def cost_model_table(study: Act4s) -> Table:
    """Speed-up that the measured cost of forwards predicts, and the measured one."""
    columns: Columns = {
        "block_size": ("K", 0),
        "expected_committed": ("committed a cycle", 3),
        "model_cycle_ms": ("cycle by the model, ms", 3),
        "predicted_speedup": ("predicted", 3),
        "measured_speedup": ("measured", 3),
        "measured_over_predicted": ("measured/predicted", 3),
    }
    note = (
        "The model's cycle is one draft of K rows and one verify of K+1, at measured medians; it "
        "has no overhead, so a ratio below one is what everything else costs."
    )
    table = study.tables["cost_model"]
    return plain("Cost model: predicted and measured speed-up", table, {"arm": ""}, columns, note)


def fits_table(study: Act4s) -> Table:
    """Straight lines through the cost curve."""
    rows = [
        [cells.text(fit["dtype"]), cells.text(fit["kind"])]
        + [cells.num(fit[name], 4) for name in ("fixed_ms", "per_row_ms", "r_squared")]
        + [Cell(f"{fit['widths'][0]} to {fit['widths'][-1]}", numeric=True)]
        for fit in study.analysis["cost_fits"]
    ]
    head = ["dtype", "forward", "fixed, ms", "per row, ms", "R²", "rows fitted"]
    return Table("Cost of a forward: fixed part and price of a row", head, rows)


def break_even_table(study: Act4s) -> Table:
    """Every slot of every fixed K: its chance, the chance it needs, and whether it pays."""
    columns: Columns = {
        "j": ("slot", 0),
        "p_survive": ("P(accepted)", 4),
        "slot_ms": ("slot, ms", 4),
        "cycle_ms": ("cycle, ms", 4),
        "committed_per_cycle": ("committed a cycle", 3),
        "break_even": ("break-even", 4),
    }
    rows = [
        [cells.text(row.arm)]
        + [cells.num(getattr(row, name), digits) for name, (_, digits) in columns.items()]
        + [Cell("pays", cells.GOOD) if bool(row.pays) else Cell("does not", cells.BAD)]
        for row in marks.records(study.tables["slot_break_even"])
    ]
    head = ["arm", *(head for head, _ in columns.values()), "slot"]
    return Table("Which slots pay for themselves", head, rows)


def context_table(study: Act4s) -> Table:
    """Log ratio of every arm at every context length."""
    rows = [
        [
            cells.text(entry["arm"]),
            cells.num(entry["length"]),
            cells.num(entry["log_ratio"]["value"], 4),
            cells.interval(entry["log_ratio"]["ci_low"], entry["log_ratio"]["ci_high"], 4),
        ]
        for entry in study.analysis["context_trend"]
    ]
    head = ["arm", "context, tokens", "log ratio", "interval over passages"]
    return Table("Log ratio of native to drafted wall time by context", head, rows)


def choices_table(study: Act4s) -> Table:
    """Share of cycles at each width that an adaptive arm chose; one row an arm."""
    table = study.tables["policy_choices"]
    blocks = sorted(table.block_size.unique())
    shares = table.set_index(["arm", "block_size"]).share
    rows = [
        [cells.text(arm), cells.num(int(one.cycles.sum()))]
        + [cells.num(shares.get((arm, block), 0.0), 3) for block in blocks]
        for arm, one in table.groupby("arm", sort=False)
    ]
    return Table("Widths chosen", ["arm", "cycles", *(f"K={block}" for block in blocks)], rows)


def degeneration_table(study: Act4s) -> Table:
    """Repetition and acceptance at every generated length."""
    columns: Columns = {
        "max_tokens": ("tokens", 0),
        "mean_looped_fraction": ("looped share (mean)", 4),
        "loop_free_prompts": ("loop-free prompts", 0),
        "mean_acceptance": ("accepted share", 4),
        "loop_free_acceptance": ("loop-free prompts only", 4),
        "looped_acceptance": ("looped prompts only", 4),
        "pearson_r": ("correlation", 3),
    }
    rows = [
        [cells.num(entry.get(name), digits) for name, (_, digits) in columns.items()]
        for entry in study.analysis["degeneration"]["by_length"]
    ]
    note = "Correlation: Pearson, of looped share and accepted share over prompts; a dash: no such."
    heads = [head for head, _ in columns.values()]
    return Table("Repetition of native text and acceptance", heads, rows, note)


def phases_table(study: Act4s) -> Table:
    """Acceptance before and inside the repetition of the text."""
    columns: Columns = {
        "prompts": ("prompts", 0),
        "cycles": ("cycles", 0),
        "mean_accepted": ("accepted a cycle", 4),
    }
    keys = {"arm": "", "phase": "phase of the text"}
    note = "Inside: from the cycle that completes the native text's first repeated n-gram."
    caption = "Acceptance before and inside the loop"
    return plain(caption, study.tables["loop_phases"], keys, columns, note)


def confidence_table(study: Act4s) -> Table:
    """Confidence bins: the drafter's mean top-1 probability and what was accepted."""
    columns: Columns = {
        "bin": ("bin", 0),
        "mean_top1": ("mean top-1", 4),
        "mean_accepted": ("accepted a cycle", 4),
        "n": ("cycles", 0),
    }
    table = study.tables["confidence_bins"]
    table = table.assign(subset=table.subset.map(lambda name: marks.SUBSETS.get(name, name)))
    return plain("Confidence and acceptance", table, {"subset": "prompts"}, columns)


def plain(
    caption: str,
    table: pd.DataFrame,
    keys: Mapping[str, str],
    columns: Columns,
    note: str = "",
) -> Table:
    """Text columns `keys` (an empty head is the column's own name), then numbers."""
    rows = [
        [cells.text(getattr(row, key)) for key in keys]
        + [cells.num(getattr(row, name), digits) for name, (_, digits) in columns.items()]
        for row in marks.records(table)
    ]
    head = [words or key for key, words in keys.items()]
    return Table(caption, head + [words for words, _ in columns.values()], rows, note)
