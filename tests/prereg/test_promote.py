"""Promotion: what is refused, in one line, and that refusing leaves nothing behind."""

import json

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg import ledger, promote
from diffdraft.rows import read_rows

from .repositories import ROWS, Repository


def refused(repository: Repository, match: str) -> str:
    with pytest.raises(UserError, match=match) as caught:
        repository.promote()
    assert "\n" not in str(caught.value)
    assert not repository.results.exists()
    results = repository.path / "results"
    assert not results.exists() or not [p for p in results.rglob("*") if p.is_file()]
    return str(caught.value)


def test_a_measurement_becomes_evidence(measured):
    folder = measured.promote()
    assert folder == measured.results
    assert sorted(path.name for path in folder.iterdir()) == [
        *("MANIFEST.json", "cycles.csv", "timing.csv", "timing_meta.json", "verdict.json"),
    ]
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    assert manifest["files"]["timing.csv"] == {
        "sha256": files.sha256_file(measured.measured / "timing.csv"),
        "bytes": (measured.measured / "timing.csv").stat().st_size,
        "rows": ROWS,
        "schema_name": "timing",
    }
    assert manifest["plan"]["sha256"] == files.sha256_file(measured.plan)
    assert manifest["model"]["fingerprint"] == "f" * 64
    assert set(manifest["model"]["files"]) == {
        "adapters/primary/adapter.safetensors",
        "target/model.safetensors",
        "target/training.json",
    }
    record = manifest["measurements"]["timing_meta.json"]
    assert record["code"]["dirty"] is False
    assert record["hardware"]["cores"] >= 1
    assert record["environment"]["packages"]["numpy"]
    assert manifest["verdict"]["carried"] == {"scope": "all", "verdict": "FASTER"}


def test_evidence_is_never_replaced(measured):
    measured.promote()
    measured.commit("evidence")
    before = (measured.results / "MANIFEST.json").read_bytes()
    with pytest.raises(UserError, match="none yet"):
        measured.promote()
    assert (measured.results / "MANIFEST.json").read_bytes() == before


def test_a_dirty_tree_is_refused(measured):
    (measured.path / "script.py").write_text("")
    refused(measured, "working tree")
    (measured.path / "script.py").unlink()
    measured.plan.write_text(measured.plan.read_text() + "\n")
    refused(measured, "working tree")


def test_no_repository_is_refused(measured):
    (measured.path / ".git").rename(measured.path / "git")
    refused(measured, "a clone with its history")


def test_rows_measured_from_a_dirty_tree_are_refused(measured):
    measured.write_meta(git_dirty=True)
    refused(measured, "git_dirty")
    measured.write_meta(git_dirty=None, git_sha=None)
    refused(measured, "git_dirty")


def test_an_unfrozen_plan_is_refused(measured):
    measured.ledger.unlink()
    measured.commit("no ledger")
    refused(measured, "no line for this file")


def test_a_freezing_that_is_not_committed_is_refused(tmp_path, monkeypatch):
    repository = Repository(tmp_path / "repo")
    repository.start()
    (repository.path / ".gitignore").write_text("build/\nprereg/ledger.jsonl\n")
    repository.commit("hide the ledger")
    ledger.append(repository.prereg, "freeze", repository.plan)
    repository.measure()
    refused(repository, "a committed plan")


def test_a_plan_frozen_after_the_measurement_began_is_refused(measured):
    measured.write_meta(started_utc="2020-01-01T00:00:00+00:00")
    refused(measured, "started_utc")


def test_rows_measured_by_other_code_are_refused(measured):
    measured.write_meta(git_sha="0" * 40)
    refused(measured, "a commit of this repository")
    draft = measured.git("rev-list", "--max-parents=0", "HEAD")
    measured.write_meta(git_sha=draft)
    refused(measured, "a descendant of the freezing")


@pytest.mark.parametrize("name", ["timing.csv", "cycles.csv", "timing_meta.json", "verdict.json"])
def test_an_incomplete_set_of_files_is_refused(measured, name):
    (measured.measured / name).unlink()
    refused(measured, name)


def test_rows_that_do_not_give_the_verdict_are_refused(measured):
    path = measured.measured / "verdict.json"
    value = json.loads(path.read_text())
    value["scopes"]["all"]["verdict"] = value["carried"]["verdict"] = "SLOWER"
    files.write_json(path, value)
    refused(measured, "what the rows give")


def test_a_verdict_of_another_plan_is_refused(measured):
    path = measured.measured / "verdict.json"
    value = json.loads(path.read_text()) | {"plan_sha256": "0" * 64}
    files.write_json(path, value)
    refused(measured, "plan_sha256")


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        (",8,", ",4,", "tokens"),
        (",uno_k4,", ",uno_k8,", "arms"),
        ("p01,", "p02,", "prompts"),
    ],
)
def test_a_sample_that_is_not_the_planned_one_is_refused(measured, old, new, match):
    path = measured.measured / "timing.csv"
    header, *lines = path.read_text().splitlines(keepends=True)
    changed = [line.replace(old, new) for line in lines[:-1]]
    path.write_text("".join([header, *changed, lines[-1]]))
    refused(measured, match)


def test_a_wrong_busy_mark_is_refused(measured):
    path = measured.measured / "timing.csv"
    text = path.read_text()
    assert text.count(",0.05,0\n") == ROWS
    path.write_text(text.replace(",0.05,0\n", ",0.95,0\n", 1))
    refused(measured, "busy")


def test_another_target_or_adapter_than_measured_is_refused(measured):
    measured.write_meta(target_fingerprint="e" * 64)
    refused(measured, "which was measured")
    measured.write_meta(adapter_sha256="0" * 64)
    refused(measured, "no adapter of that hash")


def test_any_kind_of_target_is_known_by_its_record(measured):
    record = measured.build / "target" / "training.json"
    record.rename(record.with_name("elsewhere.json"))
    refused(measured, "record: found none")
    record.with_name("elsewhere.json").rename(record.with_name("conversion.json"))
    manifest = json.loads((measured.promote() / "MANIFEST.json").read_text())
    assert "target/conversion.json" in manifest["model"]["files"]


def test_metadata_that_says_too_little_is_refused(measured):
    path = measured.measured / "timing_meta.json"
    value = json.loads(path.read_text())
    del value["seeds"]
    files.write_json(path, value)
    refused(measured, "seeds")


def test_an_interrupted_copy_leaves_nothing(measured, monkeypatch):
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(promote.files, "write_json", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured.promote()
    assert not (measured.path / "results").exists()
    monkeypatch.undo()


def test_an_unfrozen_verdict_is_refused(measured):
    path = measured.measured / "verdict.json"
    files.write_json(path, json.loads(path.read_text()) | {"plan_frozen": None})
    refused(measured, "plan_frozen: found null")


def test_another_commit_at_the_end_than_at_the_start_is_refused(measured):
    start = {
        "git_sha": "0" * 40,
        "git_dirty": False,
        "plan_sha256": files.sha256_file(measured.plan),
    }
    measured.write_meta(start=start)
    refused(measured, "start.git_sha")


def test_row_files_that_changed_since_measured_are_refused(measured):
    path = measured.measured / "cycles.csv"
    path.write_text(path.read_text().replace("\n", "\r\n"))  # the same rows
    refused(measured, "cycles.csv: sha256")


def edit_rows(measured, name, change):
    path = measured.measured / name
    rows = read_rows(path, name.split(".")[0])
    change(rows)
    path.write_text(rows.to_csv(index=False))
    measured.write_meta()


def swapped_order(rows):
    rows.loc[[0, 1], "order"] = [1, 0]


def long_stage(rows):
    rows.loc[0, "prefill_seconds"] = 2 * rows.loc[0, "wall_seconds"]


def lost_token(rows):
    rows.loc[rows.index[rows["arm"] == "uno_k4"][0], "committed"] += 1


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("timing.csv", swapped_order, "order of arms: found .'p00 0'"),
        ("timing.csv", long_stage, "stages take longer than the run: found 1"),
        ("cycles.csv", lost_token, "another number of tokens: found .'p00 0 uno_k4'"),
    ],
)
def test_rows_that_cannot_have_been_measured_so_are_refused(measured, name, change, match):
    edit_rows(measured, name, change)
    refused(measured, match)
