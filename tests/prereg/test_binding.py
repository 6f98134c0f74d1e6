"""Rows, metadata, adapters and arms belong together; swapping any of them is found."""

import shutil

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg import binding, evidence, registry
from diffdraft.prereg.evidence import Registered
from diffdraft.prereg.ledger import Entry
from diffdraft.rows import read_rows, write_rows
from tests.synthetic import position_table

from .test_design import measurement, small_plan

STUDY = registry.STUDIES["rprm"]
BLOCKS = {"primary": "8", "replication": "4"}


@pytest.fixture
def folder(tmp_path):
    table = position_table(8)
    write_rows(tmp_path / "positions_primary.csv", table, "positions")
    other = table.copy()
    other["top1_top2_margin"] /= 2
    write_rows(tmp_path / "positions_replication.csv", other, "positions")
    return tmp_path


def metas(folder, **changes):
    """Both metadata files, as measured; `changes` go over the replication's."""
    found = {}
    for number, (tag, block) in enumerate(BLOCKS.items()):
        rows = f"positions_{tag}.csv"
        value = {
            "tag": tag,
            "adapter": {"arm": tag, "block_size": block, "step": "1", "seed": "1"},
            "adapter_sha256": str(number) * 64,
            "rows": {rows: files.sha256_file(folder / rows)},
        }
        value |= changes if tag == "replication" else {}
        found[f"positions_{tag}_meta.json"] = measurement(small_plan(), **value)
    return found


def check(folder, measurements):
    binding.check_rows(STUDY, measurements, folder)
    binding.check_arms(small_plan(), STUDY, measurements, folder)
    binding.check_shared_columns(STUDY, folder)


def swap(left, right):
    kept = left.with_suffix(".kept")
    shutil.move(left, kept)
    shutil.move(right, left)
    shutil.move(kept, right)


def test_what_belongs_together_passes(folder):
    check(folder, metas(folder))


def test_swapped_tables_are_found(folder):
    measurements = metas(folder)
    swap(folder / "positions_primary.csv", folder / "positions_replication.csv")
    with pytest.raises(UserError, match=r"positions_primary\.csv: sha256"):
        check(folder, measurements)


def test_swapped_tables_with_their_metadata_are_found(folder):
    measurements = metas(folder)
    swap(folder / "positions_primary.csv", folder / "positions_replication.csv")
    first, second = measurements
    swapped = {first: measurements[second], second: measurements[first]}
    with pytest.raises(UserError, match=r"positions_primary_meta\.json: rows"):
        check(folder, swapped)
    renamed = {
        name: item.model_copy(update={"rows": {rows: files.sha256_file(folder / rows)}})
        for (rows, name), item in zip(STUDY.metas.items(), swapped.values(), strict=True)
    }
    with pytest.raises(UserError, match=r"positions_primary_meta\.json: tag: found replication"):
        check(folder, renamed)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"adapter": {"arm": "primary", "block_size": "4", "step": "1", "seed": "1"}},
            "adapter.arm: found primary",
        ),
        (
            {"adapter": {"arm": "replication", "block_size": "8", "step": "1", "seed": "1"}},
            "adapter.block_size: found 8; expected 4",
        ),
        ({"adapter_sha256": "0" * 64}, "an adapter of its own"),
        ({"student_ids_sha256": None}, "student_ids_sha256: found nothing"),
    ],
)
def test_an_adapter_of_another_arm_is_found(folder, changes, match):
    with pytest.raises(UserError, match=match):
        check(folder, metas(folder, **changes))


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("clean_token", 1),
        ("teacher_entropy", 1e-3),
        ("corrupt_entropy", 1e-3),
        ("existing_draftability_score", -1e-3),
        ("timestep", -1e-3),
    ],
)
def test_tables_that_disagree_in_what_they_share_are_found(folder, column, change):
    path = folder / "positions_replication.csv"
    rows = read_rows(path, "positions")
    touched = rows["stratum"] == "SCHEDULE"
    if column in ("clean_token", "teacher_entropy"):
        touched |= True
    if column in ("existing_draftability_score", "corrupt_entropy"):
        touched &= rows["n_corrupted_predecessors"] > 0
    rows.loc[touched, column] += change
    if column == "timestep":
        rows["timestep"] = rows["timestep"].clip(0, 1)
    if column == "teacher_entropy":
        still = (rows["n_corrupted_predecessors"] == 0) & (rows["corruption_level"] == 0)
        rows.loc[still, "corrupt_entropy"] = rows["teacher_entropy"]
    write_rows(path, rows, "positions")
    with pytest.raises(UserError, match=f"positions_replication.csv: {column}"):
        check(folder, metas(folder))


def test_tables_of_other_windows_are_found(folder):
    path = folder / "positions_replication.csv"
    rows = read_rows(path, "positions")
    write_rows(path, rows[rows["example_id"] != "w0000r0"], "positions")
    with pytest.raises(UserError, match="other windows"):
        check(folder, metas(folder))


def on_disk(folder, **changes):
    """The plan of both arms as registered, its metadata files written beside the rows."""
    plan = small_plan()
    plan._sha256 = "0" * 64
    for name, item in metas(folder, **changes).items():
        files.write_json(folder / name, item.model_dump(mode="json"))
    entry = Entry.model_construct(sha256=plan.sha256, date="2025-01-01T00:00:00+00:00")
    return Registered(folder / "rprm.yaml", entry, plan, [], STUDY)


def test_the_checks_are_part_of_measured_as_planned(folder, monkeypatch):
    monkeypatch.setattr(Registered, "expected", lambda plan, when: plan.plan)
    assert evidence.check_design(on_disk(folder), "tiny", folder)
    with pytest.raises(UserError, match="an adapter of its own"):
        evidence.check_design(on_disk(folder, adapter_sha256="0" * 64), "tiny", folder)
    registered = on_disk(folder)
    swap(folder / "positions_primary.csv", folder / "positions_replication.csv")
    with pytest.raises(UserError, match=r"positions_primary\.csv: sha256"):
        evidence.check_design(registered, "tiny", folder)
    swap(folder / "positions_primary.csv", folder / "positions_replication.csv")
    rows = read_rows(folder / "positions_replication.csv", "positions")
    rows["clean_token"] += 1
    write_rows(folder / "positions_replication.csv", rows, "positions")
    with pytest.raises(UserError, match="clean_token"):
        evidence.check_design(on_disk(folder), "tiny", folder)
