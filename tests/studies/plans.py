"""Settings for the study tests: those of the committed plans, some made smaller."""

from pathlib import Path

from diffdraft.prereg.schema import load_plan
from diffdraft.studies.paired_timing.settings import PairedTimingAnalysis, PairedTimingSeeds
from diffdraft.studies.rprm.settings import RprmAnalysis, RprmSeeds

ROOT = Path(__file__).parents[2]
RPRM = ROOT / "prereg" / "rprm.yaml"
PAIRED_TIMING = ROOT / "prereg" / "paired_timing.yaml"
PUBLISHED = ROOT / "results" / "published" / "rprm.yaml"


def rprm_settings(**changes) -> tuple[RprmAnalysis, RprmSeeds]:
    """The planned analysis with some numbers changed, and the planned seeds."""
    plan = load_plan(RPRM)
    analysis = RprmAnalysis.from_plan(RPRM, "analysis", {**plan.analysis, **changes})
    return analysis, RprmSeeds.from_plan(RPRM, "seeds", plan.seeds)


def timing_settings(**changes) -> tuple[PairedTimingAnalysis, PairedTimingSeeds]:
    """The planned timing analysis with some numbers changed, and the planned seeds."""
    plan = load_plan(PAIRED_TIMING)
    mapping = {**plan.analysis, **changes}
    analysis = PairedTimingAnalysis.from_plan(PAIRED_TIMING, "analysis", mapping)
    return analysis, PairedTimingSeeds.from_plan(PAIRED_TIMING, "seeds", plan.seeds)
