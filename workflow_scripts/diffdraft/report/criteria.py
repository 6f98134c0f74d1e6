"""Tables of criteria: value, interval, bound, outcome; and ours beside the published ones."""

from collections.abc import Iterator

from diffdraft.prereg.criteria import AllOf, AnyOf, Condition, Leaf, When
from diffdraft.prereg.schema import Plan
from diffdraft.prereg.verdict import CriterionOutcome, Part, ScopeVerdict, Verdict
from diffdraft.report import cells
from diffdraft.report.cells import Cell, Table

OPERATORS = {">": ">", ">=": "≥", "<": "<", "<=": "≤", "==": "="}


def rules(plan: Plan) -> Table:
    """What each criterion says and exactly when it is met, and how criteria give a verdict."""
    rows = [
        [cells.text(entry.id), cells.text(entry.claim), cells.text(formula(entry.passes_when))]
        for entry in plan.criteria
    ]
    return Table("Criteria of the plan", ["criterion", "claim", "met when"], rows)


def formula(condition: Condition) -> str:
    """A condition of the plan in words and signs."""
    match condition:
        case AllOf():
            return " and ".join(_inner(inner) for inner in condition.all)
        case AnyOf():
            return " or ".join(_inner(inner) for inner in condition.any)
        case Leaf():
            return f"{_name(condition)} {needs(condition)}"


def _inner(condition: Condition) -> str:
    text = formula(condition)
    return text if isinstance(condition, Leaf) else f"({text})"


def verdict_rules(plan: Plan) -> list[str]:
    """The verdict rules in order, one line each; the first that applies gives the verdict."""
    return [f"{rule.verdict}: {_when(rule.when)}" for rule in plan.rules()] + [
        f"{plan.verdict_strings()[-1]}: otherwise"
    ]


def _when(when: When) -> str:
    parts = {"all of": when.all, "any of": when.any, "none of": when.none}
    return "; ".join(f"{words} {', '.join(ids)}" for words, ids in parts.items() if ids)


def disagreements(verdict: Verdict) -> list[str]:
    """Scopes whose verdict is not the carried one; none of them changes it."""
    carried = verdict.carried
    return [
        f"{scope} came out {judged.verdict}, {carried.scope} {carried.verdict}"
        for scope, judged in verdict.scopes.items()
        if judged.verdict != carried.verdict
    ]


def overview(verdict: Verdict, plan: Plan) -> Table:
    """Criteria down, scopes across: which is met where, and the verdict each scope gets."""
    scopes = plan.scopes.names()
    rows = [
        [cells.text(entry.id)]
        + [cells.outcome(by_id(verdict.scopes[scope])[entry.id].outcome) for scope in scopes]
        for entry in plan.criteria
    ]
    verdicts = [cells.text(verdict.scopes[scope].verdict) for scope in scopes]
    rows.append([cells.text("verdict"), *verdicts])
    heads = [scope + (" (carries)" if scope == plan.scopes.carries else "") for scope in scopes]
    return Table("Every criterion in every scope", ["criterion", *heads], rows)


def detail(scope: str, judged: ScopeVerdict, carries: bool) -> Table:
    """One scope: each comparison with the value, its interval, the operator and the bound."""
    rows = [row for criterion in judged.criteria for row in _criterion_rows(criterion)]
    role = "carries the verdict" if carries else "reported, does not decide"
    head = ["criterion", "metric", "value", "interval", "needs", "part", "outcome"]
    return Table(f"{scope}: {judged.verdict} ({role})", head, rows)


def _criterion_rows(criterion: CriterionOutcome) -> Iterator[list[Cell]]:
    for index, part in enumerate(criterion.parts):
        first = index == 0
        yield [
            cells.text(criterion.id if first else ""),
            cells.text(_name(part)),
            cells.num(compared(part)),
            cells.interval(part.ci_low, part.ci_high),
            Cell(needs(part), numeric=True),
            cells.outcome(part.outcome),
            cells.outcome(criterion.outcome) if first else cells.text(""),
        ]


def compared(part: Part) -> float | None:
    """The number that a part compares with its bound."""
    return {"value": part.value, "ci_low": part.ci_low, "ci_high": part.ci_high}[part.statistic]


def needs(part: Part | Leaf) -> str:
    """Operator and bound of one comparison, no digit of the plan's bound lost or added."""
    return f"{OPERATORS[part.operator]} {part.bound:.15g}".replace("-", "−")


def failures(judged: ScopeVerdict) -> list[tuple[str, str]]:
    """Id of each failed criterion, and the comparisons that failed in it as one line."""
    return [
        (criterion.id, "; ".join(_shortfall(part) for part in criterion.parts if not part.outcome))
        for criterion in judged.criteria
        if not criterion.outcome
    ]


def _shortfall(part: Part) -> str:
    return f"{_name(part)} is {cells.number(compared(part))}, needed {needs(part)}"


def _name(part: Part | Leaf) -> str:
    return part.metric if part.statistic == "value" else f"{part.metric} ({part.statistic})"


def beside(scope: str, ours: ScopeVerdict, theirs: ScopeVerdict) -> Table:
    """One scope of two verdicts over the same plan, comparison by comparison."""
    published = by_id(theirs)
    rows = [
        _beside_row(our, their)
        for criterion in ours.criteria
        for our, their in zip(criterion.parts, published[criterion.id].parts, strict=True)
    ]
    head = ["metric", "ours", "interval", "published", "interval", "difference", "needs", "part"]
    return Table(scope, head, rows)


def _beside_row(ours: Part, theirs: Part) -> list[Cell]:
    return [
        cells.text(_name(ours)),
        cells.num(compared(ours)),
        cells.interval(ours.ci_low, ours.ci_high),
        cells.num(compared(theirs)),
        cells.interval(theirs.ci_low, theirs.ci_high),
        cells.difference(compared(ours), compared(theirs)),
        Cell(needs(ours), numeric=True),
        cells.agreement(ours.outcome == theirs.outcome),
    ]


def unlike(ours: ScopeVerdict, theirs: ScopeVerdict) -> list[str]:
    """Ids of the criteria that one of two verdicts meets and the other does not."""
    published = by_id(theirs)
    return [c.id for c in ours.criteria if c.outcome != published[c.id].outcome]


def by_id(judged: ScopeVerdict) -> dict[str, CriterionOutcome]:
    """The criteria of a scope by id."""
    return {criterion.id: criterion for criterion in judged.criteria}
