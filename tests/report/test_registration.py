"""Amendments in the report: why they were made, what they change, and for whom."""

import pytest
import yaml

from diffdraft.report import provenance_pages
from diffdraft.report.registration import registration

CHANGES = [
    {"field": "samples.big", "becomes": {"windows": 8}},
    {"field": "decisions.big", "becomes": "Fewer windows."},
    {"field": "decisions", "becomes": "Ties are broken by the first index."},
    {"field": "exclusions", "becomes": "Row 7."},
]
WORDS = (
    "changes samples.big",
    "decisions of profile big only: Fewer windows.",
    "decisions of all profiles: Ties are broken by the first index.",
    "exclusions of all profiles: Row 7.",
)


@pytest.fixture
def amended(tree, tmp_path):
    """A draft with an amendment beside it."""
    plan = tree.copy(tmp_path / "project").plans[0]
    value = {"study": "rprm", "amendment": 1, "parent": "0" * 64, "reason": "another target"}
    value |= {"seen": "nothing", "results_existed": False, "changes": CHANGES}
    plan.with_name("rprm.amendment-1.yaml").write_text(yaml.safe_dump(value))
    return registration(plan)


def test_an_amendment_says_for_whom_it_states_what(amended):
    plan, amendment = amended.files
    assert (plan.reason, plan.changes) == ("", ())
    assert amendment.reason == "another target"
    assert amendment.changes == WORDS


def test_the_page_shows_it(amended):
    table = provenance_pages._registrations([amended])
    assert table.head[-2:] == ["why amended", "what is amended"]
    plan, amendment = ([cell.text for cell in row] for row in table.rows)
    assert plan[-2:] == ["", ""]
    assert amendment[-2:] == ["another target", "; ".join(WORDS)]
