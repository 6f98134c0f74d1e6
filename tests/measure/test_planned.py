"""Before a measurement: is the target that of the plan?"""

from pathlib import Path

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.measure.planned import check_target
from diffdraft.prereg.schema import load_plan

PLAN = load_plan(Path(__file__).parents[2] / "prereg/paired_timing.yaml")
FINGERPRINT, REVISION = "a" * 64, "b" * 40


def plan_of(**pinned):
    model = PLAN.models["tiny"].model_copy(update=pinned)
    return PLAN.model_copy(update={"models": {"tiny": model}})


def test_what_the_plan_does_not_pin_may_be_any(tmp_path):
    check_target(plan_of(), "tiny", tmp_path)
    check_target(plan_of(revision="c"), "other", tmp_path)


def test_what_the_plan_pins(tmp_path):
    files.write_json(tmp_path / "weights.json", {"fingerprint": FINGERPRINT, "revision": REVISION})
    check_target(plan_of(fingerprint=FINGERPRINT, revision=REVISION), "tiny", tmp_path)
    with pytest.raises(
        UserError, match=f"fingerprint: found {FINGERPRINT}; expected c, as planned"
    ):
        check_target(plan_of(fingerprint="c"), "tiny", tmp_path)
    with pytest.raises(UserError, match=f"revision: found {REVISION}; expected c, as planned"):
        check_target(plan_of(revision="c"), "tiny", tmp_path)


def test_a_folder_of_unknown_revision_is_not_the_pinned_one(tmp_path):
    files.write_json(tmp_path / "weights.json", {"fingerprint": FINGERPRINT, "revision": None})
    with pytest.raises(UserError, match=f"revision: found None; expected {REVISION}, as planned"):
        check_target(plan_of(revision=REVISION), "tiny", tmp_path)
