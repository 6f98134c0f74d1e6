"""The row files of the study in a folder, read against the design of the plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.schema import DecodingSample, Plan
from diffdraft.rows import read_rows
from diffdraft.studies.act4s.design import RUNS, TIMED_RUNS, RunDesign, designs
from diffdraft.studies.act4s.settings import Act4sAnalysis, Act4sSeeds


@dataclass(frozen=True)
class RunRows:
    """The rows of one run as they were measured."""

    file: Path
    design: RunDesign
    generations: pd.DataFrame = field(repr=False)
    cycles: pd.DataFrame = field(repr=False)
    divergences: pd.DataFrame = field(repr=False)

    def beside(self, ending: str) -> Path:
        """A file of the same run, such as its cycles."""
        return self.file.with_name(f"{self.file.stem}_{ending}.csv")


@dataclass(frozen=True)
class StudyRows:
    """Everything that was measured, with what the plan says of it."""

    sample: DecodingSample
    analysis: Act4sAnalysis
    seeds: Act4sSeeds
    runs: Mapping[str, RunRows]
    slots: pd.DataFrame = field(repr=False)
    ties: pd.DataFrame = field(repr=False)
    passes: pd.DataFrame = field(repr=False)

    def timed(self) -> dict[str, RunRows]:
        """The runs whose clock counts."""
        return {name: self.runs[name] for name in TIMED_RUNS}


def read_study(folder: Path, plan: Plan, plan_file: Path) -> StudyRows:
    """Read all row files of `folder`.

    Raises:
        UserError: a plan without the numbers of this analysis, a profile without a sample, or a
            file that is missing or damaged.
    """
    analysis = Act4sAnalysis.from_plan(plan_file, "analysis", plan.analysis)
    seeds = Act4sSeeds.from_plan(plan_file, "seeds", plan.seeds)
    sample = planned_sample(folder, plan, plan_file)
    check_block_size(analysis, sample, plan_file)
    runs = {
        name: RunRows(
            folder / f"{name}.csv",
            design,
            read_rows(folder / f"{name}.csv", "generations"),
            read_rows(folder / f"{name}_cycles.csv", "draft_cycles"),
            read_rows(folder / f"{name}_divergences.csv", "divergences"),
        )
        for name, design in designs(sample, analysis.baseline_arm).items()
    }
    slots = read_rows(folder / "confidence_slots.csv", "slots")
    ties = read_rows(folder / "ties.csv", "ties")
    passes = read_rows(folder / "cost.csv", "passes")
    return StudyRows(sample, analysis, seeds, runs, slots, ties, passes)


def planned_sample(folder: Path, plan: Plan, plan_file: Path) -> DecodingSample:
    """The plan's sample of the profile that the metadata of every run names."""
    metas = [folder / f"{name}_meta.json" for name in (*RUNS, "cost")]
    profiles = [_profile(meta) for meta in metas]
    for meta, profile in zip(metas, profiles, strict=True):
        if profile != profiles[0]:
            raise UserError(meta, "profile", profile, f"{profiles[0]}, as in {metas[0].name}")
    return plan.sample_of(DecodingSample, profiles[0], plan_file)


def _profile(meta: Path) -> str:
    content = files.read_json(meta)
    profile = content.get("profile") if isinstance(content, dict) else None
    if not isinstance(profile, str):
        raise UserError(meta, "profile", profile or "nothing", "the name of a profile")
    return profile


def check_block_size(analysis: Act4sAnalysis, sample: DecodingSample, plan_file: Path) -> None:
    """K of the primary claim is the sample's, and in the sweep, which has its A/A twin."""
    k = analysis.block_size
    if sample.block_size != k or k not in sample.block_sizes:
        found = f"{k}, where the sample has {sample.block_size} and sweeps {sample.block_sizes}"
        raise UserError(plan_file, "analysis.block_size", found, "the sample's, and in its sweep")
