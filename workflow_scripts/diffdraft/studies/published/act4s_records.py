"""Published Act IV-S records beside the runs: loops, confidence, divergences, gates, statements."""

import itertools
import statistics
from collections.abc import Iterator

from diffdraft.studies.act4s.settings import Act4sAnalysis
from diffdraft.studies.published.act4s_metrics import NATIVE
from diffdraft.studies.published.agreement import Group, Pair, below, group, half, near
from diffdraft.studies.published.figures import Figures, Row

NATIVE_RUNS = ("baseline", "ksweep", "controls", "adaptive", "confidence")


def record_checks(figures: Figures, analysis: Act4sAnalysis) -> Iterator[Group]:
    """Checks of everything that is not a table of one run."""
    scope = "degeneration"
    yield group(scope, "means and correlations from prompts", _loops(figures, analysis))
    yield group(scope, "loop-free counts from prompts", _loop_free(figures, analysis))
    yield group(scope, "acceptance rates against the runs", _acceptance(figures, analysis))
    yield group("confidence", "deciles and their spread", _deciles(figures, analysis))
    yield group("divergences", "counts of every run", _audited(figures))
    yield group("divergences", "totals", _audit_totals(figures))
    yield group("divergences", "prompts at K=4, three repeats each", _divergent_prompts(figures))
    yield group("gates", "figures of the gate table", _gates(figures, analysis))
    yield group("text", "category table", _category_table(figures))
    yield group("text", "shares of chosen block sizes add up to one", _choices(figures))
    yield group("text", "single ratios", _ratios(figures))
    yield group("text", "statements about the tables", _statements(figures))


def _prompts(figures: Figures, tokens: float | None = None) -> list[Row]:
    rows = figures.rows("degeneration_rows")
    return [row for row in rows if tokens is None or row["max_tokens"] == tokens]


def _is_clean(row: Row, analysis: Act4sAnalysis) -> bool:
    return row["looped_fraction"] < analysis.loop_free_below


def _correlation(rows: list[Row]) -> float:
    """Pearson's r of looped fraction and acceptance."""
    looped, accepted = ([row[c] for row in rows] for c in ("looped_fraction", "acceptance_rate"))
    return statistics.correlation(looped, accepted)


def _loops(figures: Figures, analysis: Act4sAnalysis) -> Iterator[Pair]:
    for row in figures.rows("degeneration_by_length"):
        prompts = _prompts(figures, row["max_tokens"])
        clean = [p["acceptance_rate"] for p in prompts if _is_clean(p, analysis)]
        looped = [p["acceptance_rate"] for p in prompts if not _is_clean(p, analysis)]
        recomputed = {
            "mean_looped_fraction": statistics.fmean(p["looped_fraction"] for p in prompts),
            "mean_acceptance": statistics.fmean(p["acceptance_rate"] for p in prompts),
            "clean_mean_acceptance": statistics.fmean(clean),
            "looped_mean_acceptance": statistics.fmean(looped),
            "r_loop_vs_acceptance": _correlation(prompts),
        }
        for column, value in recomputed.items():
            yield near(f"{row.label} {column}", row[column], value, 2 * half(4))
    column = "pooled_r_loop_vs_acceptance"
    printed = figures.block("degeneration_by_length")[column]
    yield near(
        f"degeneration_by_length {column}", printed, _correlation(_prompts(figures)), 2 * half(4)
    )


def _loop_free(figures: Figures, analysis: Act4sAnalysis) -> Iterator[Pair]:
    for row in figures.rows("degeneration_by_length"):
        prompts = _prompts(figures, row["max_tokens"])
        count = sum(_is_clean(prompt, analysis) for prompt in prompts)
        yield near(f"{row.label} clean_rows", row["clean_rows"], count)
    protocol = figures.block("protocol")
    tokens = protocol["generated_tokens"]
    count = sum(_is_clean(prompt, analysis) for prompt in _prompts(figures, tokens))
    yield near("protocol clean_prompts", protocol["clean_prompts"], count)
    for run in NATIVE_RUNS[1:]:
        for row in figures.rows(f"{run}_summary_clean"):
            yield near(f"{row.label} rows", row["rows"], count * protocol["repeats"])


def _acceptance(figures: Figures, analysis: Act4sAnalysis) -> Iterator[Pair]:
    """Repeats decode the same, so a median over rows is the median over prompts."""
    for row in figures.rows("baseline_summary", arm=analysis.arm):
        prompts = _prompts(figures, row["max_tokens"])
        if prompts:
            median = statistics.median(prompt["acceptance_rate"] for prompt in prompts)
            yield near(f"{row.label} acceptance_rate", row["acceptance_rate"], median)
    clean = figures.row("ksweep_summary_clean", arm=analysis.arm)
    prompts = _prompts(figures, figures.block("protocol")["generated_tokens"])
    median = statistics.median(p["acceptance_rate"] for p in prompts if _is_clean(p, analysis))
    yield near(f"{clean.label} acceptance_rate", clean["acceptance_rate"], median, 2 * half(4))
    for prompt in _prompts(figures):
        rate = prompt["mean_accepted"] / (analysis.block_size - 1)
        yield near(f"{prompt.label} acceptance_rate", prompt["acceptance_rate"], rate, 2 * half(4))


def _deciles(figures: Figures, analysis: Act4sAnalysis) -> Iterator[Pair]:
    bins, block = figures.rows("confidence_bins"), figures.block("confidence_bins")
    cycles, count = round(block["cycles"]), analysis.confidence_bins
    edges = [b * cycles // count for b in range(count + 1)]
    for row, (start, end) in zip(bins, itertools.pairwise(edges), strict=False):
        yield near(f"{row.label} n", row["n"], end - start)
    total = sum(row["n"] for row in bins)
    arm = figures.row("confidence_summary", arm="conf_k4")
    yield near(f"{arm.label} cycles", arm["cycles"], total)
    mean = sum(row["n"] * row["mean_accepted"] for row in bins) / total
    yield near(f"{arm.label} mean_accepted_prefix", arm["mean_accepted_prefix"], mean, half(4))
    spread = bins[-1]["mean_accepted"] / bins[0].positive("mean_accepted")
    yield near("confidence_bins spread, last over first bin", block["spread"], spread, half(1))


def _audited(figures: Figures) -> Iterator[Pair]:
    protocol = figures.block("protocol")
    for row in figures.rows("losslessness_in_run"):
        parts = row["identical"] + row["divergent"]
        yield near(f"{row.label} rows_checked", row["rows_checked"], parts)
        if "unexplained" in row.values:
            parts = row["from_exact_ties"] + row["unexplained"]
            yield near(f"{row.label} divergent", row["divergent"], parts)
            whole = protocol["repeats"] * round(row["divergent"] / protocol["repeats"])
            yield near(f"{row.label} divergent, equal repeats", row["divergent"], whole)
            summary = figures.rows(f"{row.value('run')}_summary")
            drafted = sum(each["rows"] for each in summary if each.value("arm") != NATIVE)
            yield near(f"{row.label} rows_checked, from the summary", row["rows_checked"], drafted)
    for row in figures.rows("divergence_audit"):
        in_run = figures.row("losslessness_in_run", run=row.value("run"))
        yield near(f"{row.label} divergences", row["divergences"], in_run["divergent"])
        yield near(f"{row.label} exact_ties", row["exact_ties"], in_run["from_exact_ties"])
        parts = row["within_one_ulp"] + row["beyond_one_ulp"]
        yield near(f"{row.label} within and beyond", row["divergences"], parts)


def _audit_totals(figures: Figures) -> Iterator[Pair]:
    block, rows = figures.block("divergence_audit"), figures.rows("divergence_audit")
    for column in ("divergences", "exact_ties", "beyond_one_ulp"):
        total = sum(row[column] for row in rows)
        yield near(f"divergence_audit total_{column}", block[f"total_{column}"], total)
    gate = figures.row("gates", gate=1)
    yield near("gates 1 audited", gate["audited"], sum(row["divergences"] for row in rows))
    yield near("gates 1 beyond_one_ulp", gate["beyond_one_ulp"], block["total_beyond_one_ulp"])


def _divergent_prompts(figures: Figures) -> Iterator[Pair]:
    prompts = figures.rows("k4_128_divergent_prompts")
    repeats = figures.block("protocol")["repeats"]
    exact = sum(prompt["gap_in_ulps"] == 0 for prompt in prompts)
    row = figures.row("losslessness_in_run", run="confidence")
    recomputed = {
        "divergent": len(prompts),
        "from_exact_ties": exact,
        "unexplained": len(prompts) - exact,
    }
    for column, count in recomputed.items():
        yield near(f"{row.label} {column}", row[column], repeats * count)


def _gates(figures: Figures, analysis: Act4sAnalysis) -> Iterator[Pair]:
    natives = [row for run in NATIVE_RUNS for row in figures.rows(f"{run}_summary", arm=NATIVE)]
    stable = figures.row("gates", gate=0)
    for name, column, decimals in (("ar_tok_s", "tok_s_median", 1), ("sd", "tok_s_sd", 2)):
        over_runs = [row[column] for row in natives]
        ends = zip(stable.numbers(f"{name}_range"), (min(over_runs), max(over_runs)), strict=True)
        for end, (printed, recomputed) in zip(("lowest", "highest"), ends, strict=True):
            figure = f"gates 0 {name}, {end} over all runs"
            yield near(figure, printed, recomputed, half(decimals))
    sweep = figures.rows("ksweep_summary")
    ours = figures.row("ksweep_summary", arm=analysis.arm)
    clean = figures.row("ksweep_summary_clean", arm=analysis.arm)
    for gate, column, recomputed in (
        (2, "value", ours["mean_accepted_prefix"]),
        (3, "value", max(row["speedup_vs_ar"] for row in sweep)),
        (4, "pooled", ours["speedup_vs_ar"]),
        (4, "clean", clean["speedup_vs_ar"]),
    ):
        printed = figures.row("gates", gate=gate)[column]
        yield near(f"gates {gate} {column}", printed, recomputed, half(3) + half(4))
    adaptive = figures.row("gates", gate=5)
    for kind, prefix in (("adaptive", "adapt_"), ("fixed", "uno_k")):
        for ending in ("", "_clean"):
            rows = figures.rows(f"adaptive_summary{ending}")
            of_kind = [row for row in rows if str(row.value("arm")).startswith(prefix)]
            best = max(row["speedup_vs_ar"] for row in of_kind)
            column = f"best_{kind}{ending}"
            yield near(f"gates 5 {column}", adaptive[column], best, half(3) + half(4))


def _category_table(figures: Figures) -> Iterator[Pair]:
    tokens = figures.block("protocol")["generated_tokens"]
    for row in figures.rows("category_k4_table"):
        keys = {"category": row.value("category")}
        of = {k: figures.row("ksweep_by_category", arm=f"uno_k{k}", **keys) for k in (2, 4, 8)}
        for k, arm in of.items():
            printed, exact = row[f"prefix_k{k}"], arm["mean_accepted_prefix"]
            yield near(f"{row.label} prefix_k{k}", printed, exact, half(3) + half(4))
        native = figures.row("ksweep_by_category", arm=NATIVE, **keys)
        speedup = of[4]["tok_s_median"] / native.positive("tok_s_median")
        yield near(f"{row.label} speedup_k4", row["speedup_k4"], speedup, half(3))
        prompts = [p for p in _prompts(figures, tokens) if p.value("category") == keys["category"]]
        looped = statistics.fmean(prompt["looped_fraction"] for prompt in prompts)
        yield near(f"{row.label} ar_loop_fraction", row["ar_loop_fraction"], looped, half(2))


def _choices(figures: Figures) -> Iterator[Pair]:
    for row in figures.rows("adaptive_k_choice_fractions"):
        shares = [row[f"k{k}"] for k in (2, 4, 8)]
        yield near(f"{row.label} shares", 1.0, sum(shares), len(shares) * half(2))


def _ratios(figures: Figures) -> Iterator[Pair]:
    meta, ties = figures.block("meta"), figures.block("tie_rate")
    # Of all parameters, the adapter's among them.
    all_params = meta["adapter_params"] + meta.positive("target_params")
    percent = 100 * meta["adapter_params"] / all_params
    yield near("meta adapter_percent", meta["adapter_percent"], percent, half(4))
    rate = ties["exact_ties"] / ties.positive("positions")
    yield near("tie_rate tie_rate", ties["tie_rate"], rate, half(5))
    earlier = figures.block("prior_and_later_reference")
    speedup = earlier["u4_k4_tok_s"] / earlier.positive("u4_ar_tok_s")
    yield near("u4_k4_speedup_48tok", earlier["u4_k4_speedup_48tok"], speedup, half(3))


def _statements(figures: Figures) -> Iterator[Pair]:
    """What the report says in words about its own tables."""
    said = figures.block("report_statements")
    once, often = (figures.row("controls_summary", arm=f"refine{n}_k4") for n in (1, 4))
    slower = once["tok_s_median"] / often.positive("tok_s_median")
    name = "refine4_times_slower"
    yield near(f"{name} than refine1", said[name], slower, half(1))
    accepted = [row["mean_accepted"] for row in figures.rows("confidence_bins")]
    steps = [later > earlier for earlier, later in itertools.pairwise(accepted)]
    yield near("steps between confidence deciles", said["confidence_steps"], len(steps))
    yield near("confidence deciles, rising steps", said["confidence_rising_steps"], sum(steps))
    for k in (8, 16):
        row = figures.row("ksweep_survival", arm=f"uno_k{k}")
        survival = row.numbers("p_ge_j_from_1")[3]
        yield below(f"{row.label} j=4, said to be below", said["slot_4_survival_below"], survival)
    shares = list(figures.row("ksweep_accepted_histogram", arm="uno_k4").value("p").values())
    yield near("accepted prefix, modes", said["accepted_prefix_modes"], modes(shares))


def modes(shares: list[float]) -> int:
    """Bars of a histogram that are higher than their neighbours."""
    padded = [0.0, *shares, 0.0]
    return sum(a < b > c for a, b, c in zip(padded, padded[1:], padded[2:], strict=False))
