"""The plans as drafted or frozen, and metrics that pass every criterion of one."""

import copy
from functools import cache
from pathlib import Path

import yaml

from diffdraft.prereg.reading import fit
from diffdraft.prereg.schema import Plan

PREREG = Path(__file__).parents[2] / "prereg"
STUDIES = ("rprm", "paired_timing")


def plan_text(study: str) -> str:
    return (PREREG / f"{study}.yaml").read_text(encoding="utf-8")


@cache
def _plan_dict(study: str) -> dict:
    return yaml.safe_load(plan_text(study))


def plan_dict(study: str = "rprm") -> dict:
    """A plan as YAML gives it; a copy, to be changed at will."""
    return copy.deepcopy(_plan_dict(study))


def unpinned(study: str = "rprm") -> dict:
    """A plan without digests of profile and workload, which tests have others of."""
    plan = plan_dict(study)
    plan["models"]["tiny"].pop("profile_sha256", None)
    plan["samples"]["tiny"].pop("workload_sha256", None)
    return plan


def parse_dict(plan: dict) -> Plan:
    return fit(Plan, plan, "plan.yaml")


PASSING = {
    "quintile_inversions": {"value": 0},
    "quintile_max_inversion": {"value": 0.0},
    "cells_adequate": {"value": 7},
    "cells_signed": {"value": 7},
    "auroc_gain_4_over_1": {"value": 0.07, "ci_low": 0.02, "ci_high": 0.09},
    "auroc_4_minus_shuffled_p97_5": {"value": 0.04},
    "auroc_gain_6_over_5": {"value": 0.03, "ci_low": 0.01, "ci_high": 0.05},
    "logloss_reduction_6_over_5": {"value": 0.02, "ci_low": 0.01, "ci_high": 0.03},
    "n_windows": {"value": 1280},
    "acceptance_test": {"value": 0.3},
    "auroc_gain_margin": {"value": None},
}


def passing_metrics(plan: Plan) -> dict:
    """Metrics of `rprm` that pass all six criteria in every scope."""
    scope = {name: {"ci_low": None, "ci_high": None} | m for name, m in PASSING.items()}
    return {
        "study": plan.study,
        "scopes": {name: {m: dict(v) for m, v in scope.items()} for name in plan.scopes.names()},
    }
