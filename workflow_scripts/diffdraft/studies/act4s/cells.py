"""The study cut into cells: a run at one length of text and context, all or loop-free prompts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pandas as pd

from diffdraft.stats.paired import PairedLogs, log_times
from diffdraft.studies.act4s.study_rows import RunRows, StudyRows

POOLED, LOOP_FREE = "pooled", "loop_free"
SUBSETS = (POOLED, LOOP_FREE)
PLACE = ["run", "max_tokens", "prompt_tokens"]


@dataclass(frozen=True)
class Cell:
    """Rows of a run that are summarised together; `prompt_tokens` is 0 outside run context."""

    run: str
    max_tokens: int
    prompt_tokens: int
    subset: str
    arms: tuple[str, ...]
    generations: pd.DataFrame = field(repr=False)
    cycles: pd.DataFrame = field(repr=False)

    @property
    def place(self) -> dict[str, str | int]:
        """The columns that say where the cell is, without its subset."""
        return {
            "run": self.run,
            "max_tokens": self.max_tokens,
            "prompt_tokens": self.prompt_tokens,
        }

    @property
    def empty(self) -> bool:
        return self.generations.empty

    def of(self, arm: str) -> pd.DataFrame:
        """Generations of one arm."""
        return self.generations[self.generations["arm"] == arm]

    def cycles_of(self, arm: str) -> pd.DataFrame:
        """Draft-verify cycles of one arm, those of repeat 0."""
        return self.cycles[self.cycles["arm"] == arm]


Cells = Mapping[tuple[str, int, int, str], Cell]


def cells_of(study: StudyRows) -> dict[tuple[str, int, int, str], Cell]:
    """All cells of the timed runs, empty ones too, in the order of the plan."""
    made = [cell for name, run in study.timed().items() for cell in _cells(name, run, study)]
    return {(cell.run, cell.max_tokens, cell.prompt_tokens, cell.subset): cell for cell in made}


def _cells(name: str, run: RunRows, study: StudyRows) -> Iterator[Cell]:
    for tokens in run.design.max_tokens:
        for context in run.design.contexts:
            generations = _at(run.generations, tokens, context)
            cycles = _at(run.cycles, tokens, context)
            clean = loop_free_prompts(generations, study)
            place = (name, tokens, context)
            yield Cell(*place, POOLED, run.design.arms, generations, cycles)
            kept = (frame[frame["prompt_id"].isin(clean)] for frame in (generations, cycles))
            yield Cell(*place, LOOP_FREE, run.design.arms, *kept)


def _at(rows: pd.DataFrame, tokens: int, context: int) -> pd.DataFrame:
    found = rows[rows["max_tokens"] == tokens]
    return found[found["prompt_tokens"] == context] if context else found


def native_texts(generations: pd.DataFrame, study: StudyRows) -> pd.DataFrame:
    """The native generation of every prompt of a cell, that of repeat 0."""
    rows = generations[generations["arm"] == study.analysis.baseline_arm]
    return rows[rows["repeat"] == 0].set_index("prompt_id")


def loop_free_prompts(generations: pd.DataFrame, study: StudyRows) -> list[str]:
    """Prompts whose native text hardly repeats itself."""
    looped = native_texts(generations, study)["looped_fraction"]
    return list(looped.index[looped < study.analysis.loop_free_below])


def paired_logs(cell: Cell, study: StudyRows) -> PairedLogs:
    """Log walls of the arms of a cell that is not empty, clustered by prompt."""
    analysis = study.analysis
    return PairedLogs.of(
        log_times(cell.generations),
        analysis.resamples,
        study.seeds.bootstrap,
        analysis.interval_percentiles,
    )


def headline(cells: Cells, run: str, study: StudyRows, subset: str = POOLED) -> Cell:
    """The cell of a run that has one length of text and no contexts."""
    return cells[run, study.sample.tokens, 0, subset]
