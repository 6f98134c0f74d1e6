"""Published Act IV-S tables of runs, recomputed from one another.

Medians of tokens a second are printed with 3 decimals (4 where two rows share the middle), means,
prefixes and ratios with 4, probabilities with 5. What is recomputed from such figures inherits
their rounding, and each tolerance says how.
"""

import re
from collections.abc import Iterator

from diffdraft.studies.published.act4s_metrics import ESTIMATORS, NATIVE, SUBSETS, cycle_ms
from diffdraft.studies.published.agreement import Group, Pair, group, half, near
from diffdraft.studies.published.figures import Figures, Row

RUNS = ("baseline", "ksweep", "controls", "adaptive", "confidence")
CLEAN_RUNS = RUNS[1:]
LENGTHS = ("max_tokens", "context_length")


def run_checks(figures: Figures) -> Iterator[Group]:
    """Checks of every run's tables."""
    blocks = [f"{run}_summary" for run in (*RUNS, "context")]
    blocks += [f"{run}_summary_clean" for run in CLEAN_RUNS]
    for block in blocks:
        yield from _summary_checks(figures, block)
    for run in (*RUNS, "context"):
        yield from _histogram_checks(figures, run)
    for run in RUNS:
        yield from _category_checks(figures, run)
    yield group("all runs", "arms that decode the same", _same_decodes(figures))


def _keys(row: Row) -> dict[str, object]:
    return {key: row.values[key] for key in LENGTHS if key in row.values}


def _drafted(figures: Figures, block: str) -> Iterator[tuple[Row, Row]]:
    """Every drafted arm of a block, with the native row of the same length."""
    for row in figures.rows(block):
        if row.value("arm") != NATIVE:
            yield row, figures.row(block, arm=NATIVE, **_keys(row))


def _tokens(figures: Figures, row: Row) -> float:
    """Tokens of each generation."""
    common = figures.block("protocol")["generated_tokens"]
    return row["max_tokens"] if "max_tokens" in row.values else common


def _summary_checks(figures: Figures, block: str) -> Iterator[Group]:
    yield group(block, "speed-ups from medians", _speedups(figures, block))
    yield group(block, "committed tokens a cycle from cycles", _committed(figures, block))
    yield group(block, "cycles of equal repeats", _repeats(figures, block))
    if "clean" not in block:  # of an even number of rows, the median is of none of them
        yield group(block, "milliseconds a token from tokens a second", _token_ms(figures, block))
        yield group(block, "tokens a forward of whole cycles", _per_forward(figures, block))


def _speedups(figures: Figures, block: str) -> Iterator[Pair]:
    for row, native in _drafted(figures, block):
        for column, speed in (("", "tok_s_median"), ("decode_", "decode_tok_s_median")):
            ratio = row[speed] / native.positive(speed)
            # Decode speeds were rounded to 4 decimals after they had been divided.
            tolerance = half(4) + 2 * ratio * half(4) / native[speed]
            printed = row[f"{column}speedup_vs_ar"]
            yield near(f"{row.label} {column}speedup_vs_ar", printed, ratio, tolerance)


def _committed(figures: Figures, block: str) -> Iterator[Pair]:
    for row in figures.rows(block):
        total = row["rows"] * _tokens(figures, row)
        if row.value("arm") != NATIVE:
            printed, recomputed = row["mean_committed_per_cycle"], total / row.positive("cycles")
            yield near(f"{row.label} mean_committed_per_cycle", printed, recomputed, half(4))
        elif "cycles" in row.values:  # a native row counts its forwards here
            yield near(f"{row.label} cycles", row["cycles"], total)


def _repeats(figures: Figures, block: str) -> Iterator[Pair]:
    """Repeats decode the same, so cycles over all of them are a multiple of their number."""
    repeats = figures.block("protocol")["repeats"]
    for row in figures.rows(block):
        whole = repeats * round(row["cycles"] / repeats)
        yield near(f"{row.label} cycles", row["cycles"], whole)


def _token_ms(figures: Figures, block: str) -> Iterator[Pair]:
    for row in figures.rows(block):
        recomputed, tokens = 1000 / row.positive("tok_s_median"), _tokens(figures, row)
        # Seconds a row were rounded to 4 decimals, tokens a second to 3.
        tolerance = half(4) + 1000 * half(4) / tokens + recomputed**2 / 1000 * half(3)
        yield near(
            f"{row.label} ms_per_token_median", row["ms_per_token_median"], recomputed, tolerance
        )


def forwards_a_cycle(arm: str) -> int:
    """Forwards of one cycle: n-gram 1, s passes of refinement s + 1, one draft and one verify 2."""
    if arm.startswith("ngram"):
        return 1
    refined = re.match(r"refine(\d+)_", arm)
    return int(refined[1]) + 1 if refined else 2


def _per_forward(figures: Figures, block: str) -> Iterator[Pair]:
    """The middle row has a whole number of cycles C: tokens a forward is N / (1 + forwards C)."""
    for row, _ in _drafted(figures, block):
        tokens, printed = _tokens(figures, row), row.positive("tpf_median")
        forwards = forwards_a_cycle(str(row.value("arm")))
        cycles = round((tokens / printed - 1) / forwards)
        recomputed = tokens / (1 + forwards * cycles)
        yield near(f"{row.label} tpf_median", printed, recomputed, half(4))


def _probabilities(row: Row) -> dict[int, float]:
    shares = Row(row.file, row.label, row.value("p"))
    return {int(accepted): shares[accepted] for accepted in shares.values}


def _histogram_checks(figures: Figures, run: str) -> Iterator[Group]:
    block = f"{run}_accepted_histogram"
    yield group(block, "shares add up to one", _totals(figures, block))
    yield group(block, "survival from the histogram", _survivals(figures, run))
    yield group(block, "mean prefix from the histogram", _prefixes(figures, run))


def _totals(figures: Figures, block: str) -> Iterator[Pair]:
    for row in figures.rows(block):
        shares = _probabilities(row)
        yield near(row.label, 1.0, sum(shares.values()), len(shares) * half(5))


def _survivals(figures: Figures, run: str) -> Iterator[Pair]:
    """P(accepted >= j) is the sum of the histogram from j on; each of its terms was rounded."""
    for row in figures.rows(f"{run}_accepted_histogram"):
        shares = _probabilities(row)
        matching = figures.row(f"{run}_survival", arm=row.value("arm"), **_keys(row))
        for j, printed in enumerate(matching.numbers("p_ge_j_from_1"), start=1):
            tail = [share for accepted, share in shares.items() if accepted >= j]
            yield near(f"{matching.label} j={j}", printed, sum(tail), (len(tail) + 1) * half(5))


def _prefixes(figures: Figures, run: str) -> Iterator[Pair]:
    for row in figures.rows(f"{run}_accepted_histogram"):
        summary = figures.row(f"{run}_summary", arm=row.value("arm"), **_keys(row))
        shares = _probabilities(row)
        mean = sum(accepted * share for accepted, share in shares.items())
        tolerance = half(4) + sum(shares) * half(5)
        printed = summary["mean_accepted_prefix"]
        yield near(f"{summary.label} mean_accepted_prefix", printed, mean, tolerance)


def _category_checks(figures: Figures, run: str) -> Iterator[Group]:
    block = f"{run}_by_category"
    yield group(block, "sums and means over categories", _over_categories(figures, run))
    yield group(block, "committed tokens a cycle from cycles", _committed(figures, block))


def _over_categories(figures: Figures, run: str) -> Iterator[Pair]:
    """Categories have equal numbers of rows: means of them are means of all."""
    for row in figures.rows(f"{run}_summary"):
        parts = figures.rows(f"{run}_by_category", arm=row.value("arm"), **_keys(row))
        total = sum(part["rows"] for part in parts)
        yield near(f"{row.label} rows", row["rows"], total)
        mean = sum(part["rows"] * part["tok_s_mean"] for part in parts) / total
        yield near(f"{row.label} tok_s_mean", row["tok_s_mean"], mean, 2 * half(4))
        if row.value("arm") != NATIVE:
            cycles = sum(part["cycles"] for part in parts)
            yield near(f"{row.label} cycles", row["cycles"], cycles)
            prefix = sum(part["cycles"] * part["mean_accepted_prefix"] for part in parts) / cycles
            printed = row["mean_accepted_prefix"]
            yield near(f"{row.label} mean_accepted_prefix", printed, prefix, 2 * half(4))


def _same_decodes(figures: Figures) -> Iterator[Pair]:
    """Noise is keyed, so the same arm decodes the same in every run, as do its disguises."""
    sweep = {str(row.value("arm")): row for row in figures.rows("ksweep_summary")}
    same = {"refine1_k4": "uno_k4", "conf_k4": "uno_k4", "adapt_survival": "uno_k2"}
    for run in RUNS:
        for row in figures.rows(f"{run}_summary"):
            arm = same.get(str(row.value("arm")), str(row.value("arm")))
            usual = _tokens(figures, row) == figures.block("protocol")["generated_tokens"]
            if usual and arm in sweep:
                for column in ("cycles", "acceptance_rate", "mean_accepted_prefix", "tpf_median"):
                    yield near(f"{row.label} {column}", row[column], sweep[arm][column])


def derived_checks(figures: Figures) -> Iterator[Group]:
    """The tables that the record derives from the published ones: estimators, constant drafts."""
    yield group("all runs", "three estimators of every speed-up", _estimators(figures))
    yield group("context", "speed-ups at constant draftability", _constant_drafts(figures))
    cost = figures.block("protocol")
    listed = Row(cost.file, "protocol ev_cost_ms", cost.value("ev_cost_ms"))
    arms = ((k, figures.row("ksweep_summary", arm=f"uno_k{k}")) for k in listed.values)
    pairs = [near(f"{listed.label} {k}", listed[k], cycle_ms(row), half(2)) for k, row in arms]
    yield group("protocol", "costs of the expected-value policy", pairs)


COLUMNS = dict(
    zip(
        ESTIMATORS,
        ("ratio_of_medians", "ratio_of_means", "committed_over_cycle_vs_ar_decode"),
        strict=True,
    )
)


def _estimators(figures: Figures) -> Iterator[Pair]:
    endings = {"pooled": SUBSETS["pooled"], "clean": SUBSETS["loop_free"]}
    for row in figures.rows("derived_estimator_comparison"):
        block = f"{row.value('run')}_summary{endings[row.value('subset')]}"
        arm, native = figures.row(block, arm=row.value("arm")), figures.row(block, arm=NATIVE)
        for name, estimate in ESTIMATORS.items():
            column = COLUMNS[name]
            yield near(f"{row.label} {column}", row[column], estimate(arm, native), half(4))
        column = "cycle_ms_sum_of_stage_medians"
        yield near(f"{row.label} {column}", row[column], cycle_ms(arm), half(2))


def _constant_drafts(figures: Figures) -> Iterator[Pair]:
    """Committed tokens a cycle held at the K sweep, so that the context changes cost alone."""
    for row in figures.rows("derived_context_cost_only"):
        keys = {"context_length": row.value("context_length")}
        arm = figures.row("context_summary", arm=row.value("arm"), **keys)
        native = figures.row("context_summary", arm=NATIVE, **keys)
        swept = figures.row("ksweep_summary", arm=row.value("arm"))
        per_second = 1000 * swept["mean_committed_per_cycle"] / cycle_ms(arm)
        constant = per_second / native.positive("decode_tok_s_median")
        printed = row["decode_speedup_at_constant_committed"]
        yield near(f"{row.label} at constant committed", printed, constant, half(4))
        yield near(f"{row.label} cycle_ms", row["cycle_ms"], cycle_ms(arm), half(2))
        for column, source in (
            ("committed_per_cycle", "mean_committed_per_cycle"),
            ("decode_speedup_published", "decode_speedup_vs_ar"),
        ):
            yield near(f"{row.label} {column}", row[column], arm[source])
