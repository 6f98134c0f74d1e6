"""Measured as planned: each size, seed and model that is not is named."""

import pytest

from diffdraft.errors import UserError
from diffdraft.prereg import registry
from diffdraft.prereg.design import check_measurements, check_samples
from diffdraft.prereg.manifest import Measurement, measurement_record
from diffdraft.prereg.reading import fit
from diffdraft.rows import write_rows
from tests.synthetic import position_table

from .examples import parse_dict, unpinned

SIZES = {"windows": 8, "batches": 2}


def small_plan(**model):
    value = unpinned()
    value["samples"]["tiny"] |= SIZES
    value["models"]["tiny"] |= model
    return parse_dict(value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Position rows of two adapters, eight windows in each stratum."""
    folder = tmp_path_factory.mktemp("rows")
    for tag in ("primary", "replication"):
        write_rows(folder / f"positions_{tag}.csv", position_table(8), "positions")
    return folder


def test_the_planned_windows_pass(folder):
    check_samples(small_plan(), "tiny", folder, registry.STUDIES["rprm"])


@pytest.mark.parametrize(
    ("sizes", "match"),
    [
        ({"windows": 4, "batches": 1}, "windows in FULL: found 8; expected 4, as planned"),
        ({"block_size": 6}, "positions in FULL"),
        ({"window_tokens": 64}, "position - offset"),
        ({"strata": ["FULL"]}, "strata"),
    ],
)
def test_windows_that_are_not_the_planned_ones_are_named(folder, sizes, match):
    value = unpinned()
    value["samples"]["tiny"] |= SIZES | sizes
    with pytest.raises(UserError, match=match):
        check_samples(parse_dict(value), "tiny", folder, registry.STUDIES["rprm"])


def test_a_profile_the_plan_does_not_have_is_refused(folder):
    with pytest.raises(UserError, match="one of tiny"):
        check_samples(small_plan(), "large", folder, registry.STUDIES["rprm"])


def measurement(plan, **changes) -> Measurement:
    record = {
        "git_sha": "a" * 40,
        "git_dirty": False,
        "started_utc": "2026-01-01T00:00:00+00:00",
        "ended_utc": "2026-01-01T00:01:00+00:00",
        "plan": {"file": "prereg/rprm.yaml", "sha256": plan.sha256 or "0" * 64},
        "start": {"git_sha": "a" * 40, "git_dirty": False, "plan_sha256": "0" * 64},
    }
    value = {
        "study": "rprm",
        "profile": "tiny",
        "plan_sha256": plan.sha256 or "0" * 64,
        "target_fingerprint": "f" * 64,
        "target_revision": "abc",
        "adapter_sha256": "0" * 64,
        "adapter": {"arm": "primary", "block_size": "8", "step": "1", "seed": "1"},
        "profile_sha256": "a" * 64,
        "rows": {},
        "student_ids_sha256": "1" * 64,
        "seeds": plan.seeds,
        "samples": plan.samples["tiny"].model_dump(),
        "provenance": record,
    }
    return fit(Measurement, value | changes, "meta.json")


def check(plan, folder, *measurements) -> None:
    named = {f"meta_{number}.json": m for number, m in enumerate(measurements)}
    check_measurements(plan, "tiny", named, folder)


@pytest.fixture
def pinned():
    """A plan that pins its model, with a digest as if read from a file."""
    plan = small_plan(revision="abc", fingerprint="f" * 64, profile_sha256="a" * 64)
    plan._sha256 = "0" * 64
    return plan


def test_the_planned_model_passes(pinned, folder):
    check(pinned, folder, measurement(pinned), measurement(pinned, adapter_sha256="2" * 64))


@pytest.mark.parametrize(
    "changes",
    [
        {"target_revision": "abd"},
        {"target_revision": None},
        {"target_fingerprint": "e" * 64},
        {"plan_sha256": "3" * 64},
        {"study": "paired_timing"},
        {"profile_sha256": "b" * 64},
        {"seeds": {"split": 1}},
    ],
)
def test_metadata_that_is_not_as_planned_is_named(pinned, folder, changes):
    (field,) = changes
    with pytest.raises(UserError, match=rf"meta_1\.json: {field}"):
        check(pinned, folder, measurement(pinned), measurement(pinned, **changes))


@pytest.mark.parametrize("field", ["git_sha", "git_dirty"])
def test_metadata_without_a_commit_have_no_place_in_a_manifest(field):
    plan = small_plan()
    unknown = measurement(plan).provenance.model_copy(update={field: None})
    item = measurement(plan).model_copy(update={"provenance": unknown})
    with pytest.raises(UserError, match=rf"meta\.json: provenance\.{field}: found null"):
        measurement_record(item, "meta.json")


def test_a_workload_other_than_planned_is_named(folder):
    value = unpinned("paired_timing")
    value["samples"]["tiny"]["workload_sha256"] = "c" * 64
    plan = parse_dict(value)
    plan._sha256 = "0" * 64
    item = measurement(plan, study="paired_timing", workload_sha256="c" * 64)
    check(plan, folder, item)
    other = item.model_copy(update={"workload_sha256": "d" * 64})
    with pytest.raises(UserError, match="workload_sha256: found dddd"):
        check(plan, folder, other)


def test_both_adapters_see_one_target_and_the_same_windows(folder):
    plan = small_plan()
    plan._sha256 = "0" * 64
    for field in ("target_fingerprint", "student_ids_sha256"):
        with pytest.raises(UserError, match=f"different values of {field}: found 2"):
            check(plan, folder, measurement(plan), measurement(plan, **{field: "9" * 64}))
