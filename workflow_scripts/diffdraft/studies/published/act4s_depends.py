"""What hangs on a choice: outcomes that differ along one axis while the others stay fixed."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diffdraft.prereg.verdict import CriterionOutcome
from diffdraft.studies.published.act4s_metrics import ESTIMATORS, RULES, SUBSETS
from diffdraft.studies.published.act4s_readings import Judged
from diffdraft.studies.published.figures import Json

AXES: dict[str, tuple[str, ...]] = {
    "estimator": tuple(ESTIMATORS),
    "subset": tuple(SUBSETS),
    "correctness_rule": tuple(RULES),
}
NAMES = {
    "estimator": "estimator",
    "subset": "subset",
    "correctness_rule": "correctness rule",
    "median_ratio": "the ratio of medians",
    "mean_ratio": "the ratio of means",
    "cycle_ratio": "committed tokens over cycle time",
    "pooled": "all rows",
    "loop_free": "loop-free rows",
    "one_ulp": "the rule of one unit in the last place",
    "exact_tie": "the rule of exact ties",
}
WORDS = {"estimator": "by", "subset": "on", "correctness_rule": "by"}
# Metrics that read better as ratios.
LOG_RATIOS = ("k4_speedup_log", "adaptive_over_fixed", "adaptive_faster_by")


@dataclass(frozen=True)
class Answer:
    """What one reading answers to one question; `shown` is the number behind it, if any."""

    outcome: bool | str
    told: str
    shown: float | None = None


Cell = tuple[str, ...]  # one value of every axis
Pattern = tuple[tuple[str, bool | str], ...]


def answers(judged: Judged) -> dict[str, Answer]:
    """Everything a reading decides, by what it is called."""
    criteria = judged.verdict.criteria
    out = {_called(c.id, [c.id for c in criteria]): _criterion(judged, c) for c in criteria}
    verdict = judged.verdict.verdict
    out["the verdict"] = Answer(verdict, f"is {verdict.rstrip('.')}")
    for finding in judged.findings:
        shown = math.exp(finding.log_ratio)
        out[finding.what] = Answer(finding.outcome, f"is {finding.outcome}", shown)
    return out


def _criterion(judged: Judged, criterion: CriterionOutcome) -> Answer:
    metric, value = judged.decisive(criterion)
    shown = math.exp(value) if metric in LOG_RATIOS else value
    return Answer(criterion.outcome, "holds" if criterion.outcome else "fails", shown)


def _called(name: str, names: Sequence[str]) -> str:
    """`g5_adaptive` is gate 5; of a gate with several criteria, the band is named too."""
    gate, _, band = name.partition("_")
    if not (gate.startswith("g") and gate[1:].isdigit()):
        return name
    alone = sum(other.startswith(f"{gate}_") for other in names) == 1
    return f"gate {gate[1:]}" if alone else f"gate {gate[1:]} ({band})"


def depends_on(judged: Sequence[Judged], counts: Mapping[str, int]) -> list[Json]:
    """One entry for every question and axis whose answer differs along the axis alone.

    Fixed values at which the answers are the same are put together; `where` names only those
    that matter. `counts` are the divergences audited and beyond each rule.
    """
    by_cell = {tuple(each.reading.to_json().values()): answers(each) for each in judged}
    questions = list(next(iter(by_cell.values())))
    out = []
    for what, axis in itertools.product(questions, AXES):
        asked = {cell: found[what] for cell, found in by_cell.items()}
        for pattern, where in _patterns(asked, axis):
            out.append(_entry(what, axis, pattern, where, asked, counts))
    return out


def _patterns(asked: dict[Cell, Answer], axis: str) -> Iterator[tuple[Pattern, Json]]:
    """Answers along an axis that are not all the same, and at which fixed values they occur."""
    others = [name for name in AXES if name != axis]
    found: dict[Pattern, list[Cell]] = {}
    for fixed in itertools.product(*(AXES[name] for name in others)):
        at = dict(zip(others, fixed, strict=True))
        pattern = tuple((value, asked[_cell({**at, axis: value})].outcome) for value in AXES[axis])
        if len({outcome for _, outcome in pattern}) > 1:
            found.setdefault(pattern, []).append(fixed)
    for pattern, cells in found.items():
        for where in _together(cells, others):
            yield pattern, where


def _cell(values: Mapping[str, str]) -> Cell:
    return tuple(values[axis] for axis in AXES)


def _together(cells: list[Cell], others: list[str]) -> list[Json]:
    """Cells as sets of values an axis; where they are not all combinations, split by the last."""
    sets = {
        name: [value for value in AXES[name] if value in column]
        for name, column in zip(others, zip(*cells, strict=True), strict=True)
    }
    if math.prod(len(values) for values in sets.values()) == len(cells):
        return [sets]
    parts = [[cell for cell in cells if cell[-1] == value] for value in sets[others[-1]]]
    return [where for part in parts for where in _together(part, others)]


def _entry(
    what: str,
    axis: str,
    pattern: Pattern,
    where: Json,
    asked: dict[Cell, Answer],
    counts: Mapping[str, int],
) -> Json:
    fixed = [dict(zip(where, values, strict=True)) for values in itertools.product(*where.values())]
    along = {v: [asked[_cell({**at, axis: v})] for at in fixed] for v in AXES[axis]}
    narrow = {name: kept for name, kept in where.items() if len(kept) < len(AXES[name])}
    told = _by_rule(along, counts) if axis == "correctness_rule" else _by_value(axis, along)
    fixed_at = "".join(f", {_named(name, kept)}" for name, kept in narrow.items())
    return {
        "what": what,
        "by": NAMES[axis],
        "where": narrow,
        "readings": dict(pattern),
        "values": {value: _shown(found) for value, found in along.items() if _shown(found)},
        "says": f"{_opening(what)} {told}{fixed_at}.",
    }


def _opening(what: str) -> str:
    """With a capital, unless the first word is an arm's id or a criterion's."""
    return what if "_" in what.split()[0] else what[0].upper() + what[1:]


def _shown(found: Sequence[Answer]) -> list[float]:
    return sorted({answer.shown for answer in found if answer.shown is not None})


def _by_value(axis: str, along: Mapping[str, list[Answer]]) -> str:
    """In words: which outcome by which values of the axis, with the numbers behind it."""
    by_outcome: dict[str, list[str]] = {}
    for value, found in along.items():
        named = f"{NAMES[value]}{_numbers(_shown(found))}"
        by_outcome.setdefault(found[0].told, []).append(named)
    clauses = (f"{told} {WORDS[axis]} {_list(names)}" for told, names in by_outcome.items())
    return ", and ".join(clauses)


def _by_rule(along: Mapping[str, list[Answer]], counts: Mapping[str, int]) -> str:
    strict, relaxed = counts[RULES["exact_tie"]], counts[RULES["one_ulp"]]
    return (
        f"{along['exact_tie'][0].told} by the rule of the design, under which only exact ties are"
        f" excused and {strict} of {counts['audited']} audited divergences are defects, and"
        f" {along['one_ulp'][0].told} by the rule of one unit in the last place that took its place"
        f" after the results were known, under which {relaxed} are"
    )


def _named(axis: str, values: Sequence[str]) -> str:
    return f"{WORDS[axis]} {_list([NAMES[value] for value in values])}"


def _numbers(shown: Sequence[float]) -> str:
    texts = list(dict.fromkeys(f"{number:.4f}" for number in (*shown[:1], *shown[-1:])))
    return f" ({' to '.join(texts)})" if texts else ""


def _list(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
