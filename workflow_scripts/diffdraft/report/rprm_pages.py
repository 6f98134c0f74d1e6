"""Sections of the report on study `rprm`: criteria, figures, model tables."""

from collections.abc import Iterator, Mapping
from typing import Any

from diffdraft.report import cells, criteria, document, figures, style
from diffdraft.report.cells import Cell, Table
from diffdraft.report.document import Block, Picture, Section
from diffdraft.report.inputs import Adapter, Rprm

SCORES = {"auroc": "AUROC", "auprc": "AUPRC", "log_loss": "log loss"}


def criteria_section(study: Rprm) -> Section:
    """Every criterion of every scope, the carrying scope first."""
    plan, verdict = study.plan, study.verdict
    differing = criteria.disagreements(verdict)
    agreeing = [f"Every scope came out {verdict.carried.verdict}, as {verdict.carried.scope} did."]
    details = [
        document.table(criteria.detail(scope, verdict.scopes[scope], scope == plan.scopes.carries))
        for scope in plan.scopes.names()
    ]
    blocks = [
        document.table(criteria.rules(plan)),
        document.paragraph("The verdict of a scope is the first of these that applies:"),
        document.bullets(criteria.verdict_rules(plan)),
        document.table(criteria.overview(verdict, plan)),
        document.bullets(differing or agreeing),
    ]
    return Section("criteria", "Criteria", blocks + details)


def stratum_of(study: Rprm) -> str:
    """The stratum that carries the verdict, which is the one the figures show."""
    return study.plan.scopes.carries.split(".")[1]


def figures_section(study: Rprm) -> Section:
    """The five published plots for each adapter, and the within-offset table that c2 rests on."""
    stratum = stratum_of(study)
    blocks: list[Block] = []
    for adapter in study.adapters:
        blocks.append(document.heading(f"{adapter.tag} adapter, {stratum}"))
        blocks += [document.picture(shown) for shown in pictures(adapter, stratum)]
        blocks.append(document.table(within_offset_table(adapter, stratum)))
    return Section("figures", "Does drafter entropy tell acceptance?", blocks)


def pictures(adapter: Adapter, stratum: str) -> Iterator[Picture]:
    """The plots of one adapter, drawn."""
    tag, analysis, tables = adapter.tag, adapter.analysis[stratum], adapter.tables
    where = f"{tag} adapter, {stratum}, TEST windows."
    yield Picture(
        f"plot1_quintiles_{tag}",
        f"Share of proposals accepted in each quintile of drafter entropy, gap and teacher "
        f"entropy, with Wilson intervals as published (positions taken as independent) and "
        f"intervals over windows; {where}",
        style.png_bytes(figures.quintiles(tag, stratum, analysis, tables["quintiles"])),
    )
    yield Picture(
        f"plot2_within_offset_{tag}",
        f"Share accepted by offset for the lowest and the highest tercile of drafter entropy and "
        f"for all positions; {where}",
        style.png_bytes(figures.within_offset(tag, stratum, analysis, tables["within_offset"])),
    )
    yield Picture(
        f"plot3_shuffled_control_{tag}",
        f"AUROC of progress alone, of progress with drafter entropy, and of progress with entropy "
        f"shuffled within cells; {where}",
        style.png_bytes(figures.shuffled_control(tag, stratum, analysis)),
    )
    yield Picture(
        f"plot4_roc_pr_{tag}",
        f"ROC and precision–recall curves of models 1, 4, 5 and 6; {where}",
        style.png_bytes(figures.roc_pr(tag, stratum, analysis, tables["roc"], tables["pr"])),
    )
    yield Picture(
        f"plot5_calibration_{tag}",
        f"Predicted against observed acceptance of models 1, 5 and 6, by decile of the "
        f"prediction; {where}",
        style.png_bytes(figures.calibration(tag, stratum, analysis, tables["calibration"])),
    )


def within_offset_table(adapter: Adapter, stratum: str) -> Table:
    """Acceptance and AUROC at each offset of one scope."""
    rows = [
        [cells.text(f"+{entry['offset']}"), cells.num(int(entry["n"]))]
        + [cells.num(entry[k]) for k in ("acceptance", "auroc_neg_entropy", "auroc_neg_gap")]
        + [_share(entry, "low"), _share(entry, "high"), cells.text(cells.yes_no(entry["adequate"]))]
        for entry in adapter.analysis[stratum]["within_offset"]
    ]
    head = ["offset", "n", "acceptance", "AUROC of −entropy", "AUROC of −gap"]
    head += ["low tercile", "high tercile", "adequate"]
    note = "Terciles of drafter entropy: acceptance, and the number of positions in brackets."
    return Table(f"Within offset: {adapter.tag}.{stratum}", head, rows, note)


def _share(entry: Mapping[str, Any], side: str) -> Cell:
    share, n = entry[f"acc_{side}"], entry[f"n_{side}"]
    return Cell(f"{cells.number(share, 4)} ({n})", numeric=True)


def models_section(study: Rprm) -> Section:
    """Scores of the eight models and of the exploratory measures, in every scope."""
    strata = list(study.adapters[0].analysis)
    blocks = [document.table(models_table(study, stratum)) for stratum in strata]
    reasons = [f"{entry.measure}: {entry.reason}" for entry in study.plan.exploratory]
    blocks.append(document.heading("Exploratory: shown, never part of a criterion"))
    if reasons:
        blocks.append(document.bullets(reasons))
    blocks += [document.table(diagnostics_table(study)), document.table(spearman_table(study))]
    return Section("models", "Scores of the models", blocks, in_summary=False)


def models_table(study: Rprm, stratum: str) -> Table:
    """AUROC, AUPRC and log loss of every model on TEST of one stratum, adapters side by side."""
    head = ["model"] + [f"{a.tag} {name}" for a in study.adapters for name in SCORES.values()]
    rows = [
        [cells.text(label)] + [_score(a, stratum, key, s) for a in study.adapters for s in SCORES]
        for key, label in figures.MODEL_LABELS.items()
    ]
    note = "Fitted on FIT windows, scored on TEST windows; the shuffled control is a mean."
    return Table(f"{stratum}: held-out scores", head, rows, note)


def _score(adapter: Adapter, stratum: str, model: str, score: str) -> Cell:
    return cells.num(adapter.analysis[stratum]["models"][model].get(score))


def _scopes(study: Rprm) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (f"{a.tag}.{stratum}", analysis)
        for a in study.adapters
        for stratum, analysis in a.analysis.items()
    ]


def diagnostics_table(study: Rprm) -> Table:
    """AUROC of progress with another measure in place of entropy, and its gain over progress."""
    scopes = _scopes(study)
    measures = scopes[0][1]["diagnostic_alternatives"]
    rows = [
        [cells.text(measure)]
        + [_gain(analysis["diagnostic_alternatives"][measure]) for _, analysis in scopes]
        for measure in measures
    ]
    head = ["progress and", *(scope for scope, _ in scopes)]
    return Table("AUROC with another measure (gain over progress alone)", head, rows)


def _gain(entry: Mapping[str, float | None]) -> Cell:
    gain = cells.difference(entry["delta_vs_progress"], 0.0, 4).text
    return Cell(f"{cells.number(entry['auroc'], 4)} ({gain})", numeric=True)


def spearman_table(study: Rprm) -> Table:
    """Rank correlation of each predictor with acceptance on TEST."""
    scopes = _scopes(study)
    rows = [
        [cells.text(predictor)] + [cells.num(a["spearman_test"][predictor]) for _, a in scopes]
        for predictor in scopes[0][1]["spearman_test"]
    ]
    head = ["predictor", *(scope for scope, _ in scopes)]
    return Table("Spearman correlation with acceptance", head, rows)
