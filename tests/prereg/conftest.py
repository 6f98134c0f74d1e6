"""Fixtures of the plan tests."""

import pytest

from diffdraft.prereg.schema import Plan, parse_plan

from .examples import plan_text


@pytest.fixture
def rprm() -> Plan:
    """The committed plan of `rprm`."""
    return parse_plan(plan_text("rprm").encode(), "prereg/rprm.yaml")
