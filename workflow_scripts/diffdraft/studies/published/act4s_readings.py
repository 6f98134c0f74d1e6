"""Every reading of the published Act IV-S figures, judged by our plan with our verdict engine."""

from dataclasses import dataclass

from diffdraft.errors import UserError
from diffdraft.prereg.schema import Plan
from diffdraft.prereg.verdict import CriterionOutcome, Part, ScopeVerdict, judge_scope
from diffdraft.studies.act4s.settings import Act4sAnalysis
from diffdraft.studies.published.act4s_metrics import (
    RULES,
    Finding,
    Reading,
    all_readings,
    findings,
    metrics,
)
from diffdraft.studies.published.figures import Figures, Json

COUNTED = RULES["one_ulp"]  # the metric of the plan's correctness criterion


@dataclass(frozen=True)
class Judged:
    """One reading, its verdict by the plan, and what it says about single arms."""

    reading: Reading
    verdict: ScopeVerdict
    findings: list[Finding]

    @property
    def passed(self) -> dict[str, bool]:
        return {criterion.id: criterion.outcome for criterion in self.verdict.criteria}

    def to_json(self) -> Json:
        return {
            **self.reading.to_json(),
            "verdict": self.verdict.verdict,
            "criteria": [self._criterion(outcome) for outcome in self.verdict.criteria],
            "findings": [finding.to_json() for finding in self.findings],
        }

    def _criterion(self, outcome: CriterionOutcome) -> Json:
        parts = [self._part(part) for part in outcome.parts]
        metric, value = self.decisive(outcome)
        own = {"id": outcome.id, "outcome": outcome.outcome, "metric": metric, "value": value}
        return {**own, "parts": parts}

    def _part(self, part: Part) -> Json:
        shown = part.model_dump(include={"statistic", "value", "operator", "bound", "outcome"})
        return {"metric": self.counted(part.metric), **shown}

    def decisive(self, outcome: CriterionOutcome) -> tuple[str, float]:
        """Metric and value of the first part that came out as the criterion did."""
        part = next(part for part in outcome.parts if part.outcome == outcome.outcome)
        assert part.value is not None
        return self.counted(part.metric), part.value

    def counted(self, metric: str) -> str:
        """The metric's name by the reading's rule of correctness."""
        return RULES[self.reading.correctness_rule] if metric == COUNTED else metric


def judge_readings(plan: Plan, figures: Figures, analysis: Act4sAnalysis) -> list[Judged]:
    """Judge all readings.

    The plan's correctness criterion asks for no divergence beyond one unit in the last place; a
    reading with another rule puts that rule's count in its place. Raises `UserError` for a
    figure that is not there, or a criterion on a metric that the figures cannot give.
    """
    return [_judge(plan, figures, reading, analysis) for reading in all_readings()]


def _judge(plan: Plan, figures: Figures, reading: Reading, analysis: Act4sAnalysis) -> Judged:
    values = metrics(figures, reading, analysis)
    values[COUNTED] = values[RULES[reading.correctness_rule]]
    scope = ".".join(reading.to_json().values())
    verdict = judge_scope(plan, scope, values, figures.file)
    return Judged(reading, verdict, list(findings(figures, reading, analysis)))


def as_published(judged: Judged, figures: Figures) -> Json:
    """Gate by gate: what the original wrote, and what its own reading gives by our plan.

    The criteria of gate N are those whose id begins with `gN_`. A gate with several is a scale:
    the last one that passes is what it came to.
    """
    rows = figures.rows("gates")
    gates = [_gate(judged.passed, row.value("gate"), str(row.value("result"))) for row in rows]
    if not any(gate["criteria"] for gate in gates):
        raise UserError(figures.file, "gates", "no criterion of the plan", "criteria gN_...")
    verdict = _said(judged.verdict.verdict, str(figures.block("gates").value("verdict")))
    equal = verdict["equal"] and all(gate["equal"] for gate in gates)
    return {
        "reading": judged.reading.to_json(),
        "equal": equal,
        "verdict": verdict,
        "gates": gates,
    }


def _gate(passed: dict[str, bool], number: int, printed: str) -> Json:
    criteria = {name: out for name, out in passed.items() if name.startswith(f"g{number}_")}
    bands = [name.split("_", 1)[1] for name in criteria]
    replayed: object
    published: object
    if len(criteria) > 1:
        replayed = next((b for b, name in _from_the_top(bands, criteria) if criteria[name]), None)
        published = next((band for band in reversed(bands) if band in printed), None)
    else:
        replayed = next(iter(criteria.values()), None)
        published = printed.startswith("PASS")
    pair = {"replayed": replayed, "published": published, "equal": replayed == published}
    return {"gate": number, "result": printed, "criteria": criteria, **pair}


def _from_the_top(bands: list[str], criteria: dict[str, bool]) -> list[tuple[str, str]]:
    return list(zip(bands, criteria, strict=True))[::-1]


def _said(replayed: str, printed: str) -> Json:
    """Our rules have no string for what follows theirs in the printed verdict."""
    equal = printed.startswith(replayed)
    beyond = printed.removeprefix(replayed).strip() if equal else ""
    pair = {"replayed": replayed, "published": printed, "equal": equal}
    return {**pair, "without_a_rule": beyond}
