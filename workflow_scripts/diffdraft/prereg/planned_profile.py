"""Is a study planned for a profile?"""

from pathlib import Path

from diffdraft.errors import UserError
from diffdraft.prereg.amendments import load_amended_plan

AMEND = "Amend the plan with a sample and a model for it: workflow_scripts/amend.py"


def require_sample(file: Path, profile: str) -> None:
    """Raise `UserError` unless a plan, as amended, says how much to measure of a profile."""
    if profile not in load_amended_plan(file).samples:
        raise UserError(file, f"samples.{profile}", "nothing", "how much to measure", AMEND)
