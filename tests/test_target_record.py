"""The record of a model folder, whichever step made it."""

import subprocess
import sys

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.target_record import (
    RECORDS,
    check_settings,
    described_settings,
    record_file,
    recorded_fingerprint,
    recorded_revision,
)


@pytest.mark.parametrize("name", RECORDS)
def test_each_kind_of_target_is_told_by_its_record(tmp_path, name):
    files.write_json(tmp_path / name, {"fingerprint": "f" * 64})
    assert record_file(tmp_path) == tmp_path / name
    assert recorded_fingerprint(tmp_path) == "f" * 64


def test_no_record_and_two_records_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"record: found none; expected one of training\.json"):
        record_file(tmp_path)
    for name in RECORDS[1:]:
        files.write_json(tmp_path / name, {})
    with pytest.raises(UserError, match=r"found conversion\.json and weights\.json"):
        record_file(tmp_path)


@pytest.mark.parametrize("value", [{}, {"fingerprint": None}, []])
def test_a_record_without_fingerprint_is_refused(tmp_path, value):
    files.write_json(tmp_path / "weights.json", value)
    with pytest.raises(UserError, match=r"weights.json: fingerprint: found none; .* again"):
        recorded_fingerprint(tmp_path)


def test_it_needs_no_mlx(tmp_path):
    code = "import diffdraft.target_record, sys; sys.exit('mlx' in str(sorted(sys.modules)))"
    command = [sys.executable, "-c", code]
    assert subprocess.run(command, cwd="workflow_scripts", check=False).returncode == 0


def test_the_revision_is_that_of_the_hub_or_none(tmp_path):
    assert recorded_revision(tmp_path) is None
    files.write_json(tmp_path / "training.json", {"revision": "a"})
    assert recorded_revision(tmp_path) is None
    for revision in ("b" * 40, None):
        files.write_json(tmp_path / "weights.json", {"revision": revision})
        assert recorded_revision(tmp_path) == revision
    files.write_json(tmp_path / "weights.json", [])
    with pytest.raises(UserError, match=r"weights.json: file: found no record"):
        recorded_revision(tmp_path)


@pytest.fixture
def recorded(tmp_path):
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        files.write_json(tmp_path / name, {"of": name})
    record = {"fingerprint": "f", "files": described_settings(tmp_path)}
    files.write_json(tmp_path / "conversion.json", record)
    return tmp_path


def test_settings_as_recorded(recorded):
    check_settings(recorded)
    check_settings(recorded / "elsewhere")  # no record, so nothing is said


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_the_same_weights_under_other_settings_are_refused(recorded, name):
    files.write_json(recorded / name, {"sliding_window": 1})
    with pytest.raises(UserError, match=f"{name}: sha256: found .* as conversion.json has it"):
        check_settings(recorded)
    (recorded / name).unlink()
    with pytest.raises(UserError, match=f"{name}: sha256: found nothing there"):
        check_settings(recorded)


@pytest.mark.parametrize("content", [[], {"files": []}, {"files": {"config.json": "mine"}}])
def test_a_record_of_another_maker_says_nothing_of_settings(recorded, content):
    (recorded / "conversion.json").unlink()
    files.write_json(recorded / "training.json", content)
    check_settings(recorded)
