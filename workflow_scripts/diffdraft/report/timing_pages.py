"""Section of the report on study `paired_timing`."""

import math
from collections.abc import Mapping
from typing import Any

from diffdraft.report import cells, criteria, document, style, timing_figure
from diffdraft.report.cells import Cell, Table
from diffdraft.report.document import Block, Picture, Section
from diffdraft.report.inputs import Timing

Json = Mapping[str, Any]


def timing_section(study: Timing) -> Section:
    """Verdict table, the plot, the ratio by category, and what each arm spent its time on."""
    plan, analysis = study.plan, study.analysis
    scope = plan.scopes.carries
    blocks: list[Block] = [
        document.table(criteria.rules(plan)),
        document.paragraph("The verdict is the first of these that applies:"),
        document.bullets(criteria.verdict_rules(plan)),
        document.table(criteria.detail(scope, study.verdict.scopes[scope], carries=True)),
        document.picture(ratio_picture(analysis)),
        document.table(category_table(analysis)),
        document.table(arm_table(analysis)),
        document.table(prefix_table(analysis)),
    ]
    if plan.exploratory:
        blocks.append(document.heading("Exploratory: shown, never part of a criterion"))
        reasons = [f"{entry.measure}: {entry.reason}" for entry in plan.exploratory]
        blocks.append(document.bullets(reasons))
    blocks.append(document.table(quiet_table(analysis)))
    return Section("timing", "Paired timing", blocks)


def by_category(analysis: Json) -> dict[str, list[Json]]:
    """The prompts of each category, categories in the order of the analysis."""
    groups: dict[str, list[Json]] = {entry["category"]: [] for entry in analysis["categories"]}
    for prompt in analysis["prompts"]:
        groups[prompt["category"]].append(prompt)
    return groups


def ratio_picture(analysis: Json) -> Picture:
    """The plot of per-prompt log ratios."""
    groups = [
        timing_figure.Ratios(category, [prompt["log_ratio"] for prompt in prompts])
        for category, prompts in by_category(analysis).items()
    ]
    mean = analysis["log_ratio"]
    arms = f"{analysis['arms']['baseline']} over {analysis['arms']['arm']}"
    figure = timing_figure.log_ratios(groups, mean["value"], mean["ci_low"], mean["ci_high"], arms)
    caption = (
        "Log ratio of native to drafted wall time, one dot a prompt, by category; the line is the "
        "mean over prompts and the band its interval."
    )
    return Picture("timing_log_ratio", caption, style.png_bytes(figure))


def category_table(analysis: Json) -> Table:
    """One row a category and one for all prompts; only the last has an interval."""
    rows = [
        _category_row(entry, by_category(analysis)[entry["category"]])
        for entry in analysis["categories"]
    ]
    ratio, prefix = analysis["speedup"], analysis["mean_accepted_prefix"]
    everything = [
        cells.text("all prompts"),
        cells.num(analysis["n_prompts"]),
        cells.num(ratio["value"], 3),
        cells.interval(ratio["ci_low"], ratio["ci_high"], 3),
        cells.num(analysis["log_ratio"]["value"]),
        cells.num(prefix["value"], 3),
        Cell(f"share {cells.number(analysis['identical_outputs'])}", numeric=True),
        cells.num(analysis["busy_rows"]),
    ]
    rows.append(everything)
    head = ["category", "prompts", "ratio", "range or interval", "log ratio", "accepted prefix"]
    note = (
        "Ratio: wall time of the baseline arm over that of the drafted arm, repeats and prompts "
        "averaged as logarithms. A category shows the range of its prompts, all prompts the "
        "bootstrap interval over prompts. Same output: prompts whose runs all gave the ids of the "
        "baseline arm; for all prompts, the share of drafted runs that did."
    )
    return Table("Ratio by category", [*head, "same output", "busy rows"], rows, note)


def _category_row(entry: Json, prompts: list[Json]) -> list[Cell]:
    ratios = [prompt["speedup"] for prompt in prompts]
    prefix = math.fsum(p["mean_accepted_prefix"] for p in prompts) / len(prompts)
    identical = sum(prompt["identical"] for prompt in prompts)
    mark = cells.PLAIN if identical == len(prompts) else cells.BAD
    return [
        cells.text(entry["category"]),
        cells.num(entry["n_prompts"]),
        cells.num(math.exp(entry["log_ratio"]), 3),
        cells.interval(min(ratios), max(ratios), 3),
        cells.num(entry["log_ratio"]),
        cells.num(prefix, 3),
        Cell(f"{identical} of {len(prompts)}", mark, numeric=True),
        cells.num(sum(prompt["busy_rows"] for prompt in prompts)),
    ]


def arm_table(analysis: Json) -> Table:
    """Rate, forwards a token and shares of wall time of each arm."""
    arms = analysis["per_arm"]
    measures = list(dict.fromkeys(key for values in arms.values() for key in values))
    rows = [
        [cells.text(measure), *(cells.num(values.get(measure), 3) for values in arms.values())]
        for measure in measures
    ]
    note = "Totals over all runs, described and not judged."
    return Table("Where the time went", ["measure", *arms], rows, note)


def prefix_table(analysis: Json) -> Table:
    """How many draft-verify cycles accepted how many proposals."""
    counts = analysis["accepted_histogram"]
    total = sum(counts)
    rows = [
        [cells.num(accepted), cells.num(count), cells.num(count / total if total else None, 4)]
        for accepted, count in enumerate(counts)
    ]
    head = ["accepted in a cycle", "cycles", "share"]
    return Table("Proposals accepted a cycle", head, rows)


def quiet_table(analysis: Json) -> Table:
    """The log ratio again without prompts that have a row taken on a busy machine."""
    quiet = analysis["log_ratio_without_busy"]
    rows = [
        [
            cells.text(label),
            cells.num(count),
            cells.num(entry["value"]),
            cells.interval(entry["ci_low"], entry["ci_high"]),
        ]
        for label, count, entry in (
            ("all prompts", analysis["n_prompts"], analysis["log_ratio"]),
            ("prompts with no busy row", quiet["n_prompts"], quiet),
        )
    ]
    head = ["prompts", "number", "log ratio", "interval"]
    return Table("Log ratio with and without busy rows", head, rows)
