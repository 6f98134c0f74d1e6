"""Sections of the report on study `act4s`, the speculative decoder."""

from diffdraft.report import act4s_detail_tables as details
from diffdraft.report import act4s_tables as tables
from diffdraft.report import cells, criteria, document
from diffdraft.report.act4s_inputs import Act4s
from diffdraft.report.act4s_pictures import show
from diffdraft.report.document import Block, Section


def main_sections(study: Act4s) -> list[Section]:
    """What the verdict rests on: criteria, speed, estimators, correctness."""
    return [
        criteria_section(study),
        speed_section(study),
        estimators_section(study),
        correctness_section(study),
    ]


def detail_sections(study: Act4s) -> list[Section]:
    """What explains the result; on the page only."""
    return [
        scopes_section(study),
        arms_section(study),
        drafts_section(study),
        cost_section(study),
        adaptive_section(study),
        context_section(study),
        degeneration_section(study),
        confidence_section(study),
    ]


def _detail(name: str, title: str, blocks: list[Block]) -> Section:
    return Section(f"act4s-{name}", f"Act IV-S: {title}", blocks, in_summary=False)


def criteria_section(study: Act4s) -> Section:
    """The criteria, what every scope makes of them, and the scope that carries in full."""
    plan, verdict = study.plan, study.verdict
    carried = verdict.carried
    agreeing = [f"Every scope came out {carried.verdict}, as {carried.scope} did."]
    blocks = [
        document.table(criteria.rules(plan)),
        document.paragraph("The verdict of a scope is the first of these that applies:"),
        document.bullets(criteria.verdict_rules(plan)),
        document.paragraph(
            f"Scope {plan.scopes.carries} carries the verdict; the others are the published "
            "estimators. Those have no interval, so the point stands for both its bounds."
        ),
        document.table(criteria.overview(verdict, plan)),
        document.bullets(criteria.disagreements(verdict) or agreeing),
        document.table(criteria.detail(carried.scope, verdict.scopes[carried.scope], carries=True)),
    ]
    return Section("act4s", "Act IV-S: criteria and verdict", blocks)


def scopes_section(study: Act4s) -> Section:
    """Every comparison under the published estimators, and what was declared exploratory."""
    blocks = [
        document.table(criteria.detail(scope, study.verdict.scopes[scope], carries=False))
        for scope in study.plan.scopes.reported
    ]
    if study.plan.exploratory:
        reasons = [f"{entry.measure}: {entry.reason}" for entry in study.plan.exploratory]
        blocks.append(document.heading("Exploratory: shown, never part of a criterion"))
        blocks.append(document.bullets(reasons))
    return _detail("scopes", "criteria by the published estimators", blocks)


def subset_line(study: Act4s) -> str:
    """Which prompts the tables are of, and that none is loop-free where that is so."""
    settings = study.plan.analysis
    clean, total = study.analysis["n_loop_free_prompts"], study.analysis["n_prompts"]
    rule = (
        f"a share below {settings['loop_free_below']} of the {settings['loop_ngram']}-grams of "
        "the native text are repeats"
    )
    if not clean:
        return f"No prompt is loop-free ({rule}), so every figure is of all {total} prompts."
    return f"{clean} of {total} prompts are loop-free: {rule}."


def speed_section(study: Act4s) -> Section:
    """Speed of the fixed block sizes, over prompts, categories and lengths."""
    native, busy = study.analysis["native"], study.analysis["busy_rows"]
    machine = [
        "Native runs that repeat the tokens of the first: share "
        f"{cells.number(native['reproducible'])}, standard deviation "
        f"{cells.number(native['repeat_sd_log'], 4)} of the logarithm of their time.",
        f"Runs taken while the machine was busy, and kept: {cells.number(busy)}.",
    ]
    blocks = [
        document.paragraph(subset_line(study)),
        document.bullets(machine),
        document.table(tables.speed_table(study)),
        show(study, "block_size"),
        show(study, "category"),
        show(study, "length"),
        show(study, "forwards"),
    ]
    return Section("act4s-speed", "Act IV-S: is it faster?", blocks)


def estimators_section(study: Act4s) -> Section:
    """How the answer depends on the estimator."""
    unsure = [entry for entry in study.analysis["estimators"] if not entry["signs_agree"]]
    total = len(study.analysis["estimators"])
    line = f"In {len(unsure)} of {total} comparisons with native the estimators differ in sign."
    blocks = [document.paragraph(line), document.table(tables.estimator_table(study))]
    return Section("act4s-estimators", "Act IV-S: does the answer hang on the estimator?", blocks)


def correctness_section(study: Act4s) -> Section:
    """Whether the output is the target's own, under three rules side by side."""
    blocks = [
        document.table(details.audit_table(study)),
        document.table(details.ties_table(study)),
    ]
    return Section("act4s-correctness", "Act IV-S: is the output native?", blocks)


def arms_section(study: Act4s) -> Section:
    """Every arm of every run, and every paired comparison."""
    described = [[cells.text(arm.id), cells.text(arm.description)] for arm in study.plan.arms]
    blocks = [
        document.paragraph(subset_line(study)),
        document.table(cells.Table("Arms of the plan", ["arm", "what it does"], described)),
        *(document.table(table) for table in tables.arm_tables(study)),
        document.heading("Paired comparisons"),
        *(document.table(table) for table in tables.comparison_tables(study)),
    ]
    return _detail("arms", "the arms", blocks)


def drafts_section(study: Act4s) -> Section:
    """What the verifier accepts, and what the controls show of it."""
    names = ("survival", "histogram", "refinement", "controls")
    return _detail("drafts", "what is accepted", [show(study, name) for name in names])


def cost_section(study: Act4s) -> Section:
    """Where the time goes, and what the cost of forwards would allow."""
    blocks = [
        show(study, "stages"),
        document.table(details.cost_model_table(study)),
        show(study, "cost_curve"),
        document.table(details.fits_table(study)),
        show(study, "cost_parts"),
        show(study, "break_even"),
        document.table(details.break_even_table(study)),
    ]
    return _detail("cost", "where the time goes", blocks)


def adaptive_section(study: Act4s) -> Section:
    """Widths chosen while decoding."""
    blocks = [show(study, "adaptive"), document.table(details.choices_table(study))]
    return _detail("adaptive", "widths chosen while decoding", blocks)


def context_section(study: Act4s) -> Section:
    """Speed-up after longer contexts."""
    blocks = [show(study, "context"), document.table(details.context_table(study))]
    return _detail("context", "longer contexts", blocks)


def degeneration_section(study: Act4s) -> Section:
    """What repetition of the text does to acceptance."""
    blocks = [
        show(study, "degeneration"),
        document.table(details.degeneration_table(study)),
        document.table(details.phases_table(study)),
    ]
    return _detail("degeneration", "text that repeats itself", blocks)


def confidence_section(study: Act4s) -> Section:
    """Whether the drafter's confidence tells what is accepted."""
    spread = study.analysis["confidence"]["spread"]
    line = (
        "Accepted a cycle in the most confident bin over that in the least confident one: "
        f"{cells.number(spread, 2)}."
    )
    blocks = [
        show(study, "confidence"),
        document.paragraph(line),
        document.table(details.confidence_table(study)),
    ]
    return _detail("confidence", "the drafter's confidence", blocks)
