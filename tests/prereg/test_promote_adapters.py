"""Promotion of adapters: what is refused, in one line, and that refusing leaves nothing behind."""

import json
import shutil

import pytest

import promote as promote_script
from diffdraft import cli, files
from diffdraft.errors import UserError
from diffdraft.prereg import promote
from diffdraft.prereg.adapter_evidence import MAX_BYTES

from .adapters import STEPS, TAGS, TARGET
from .test_scripts import exit_code

FILES = ("adapter.safetensors", "training.csv", "training.json")


def refused(trained, match: str) -> None:
    with pytest.raises(UserError, match=match) as caught:
        trained.promote()
    assert "\n" not in str(caught.value)
    results = trained.path / "results"
    assert not [path for path in results.rglob("*") if path.is_file()]
    assert not [path for path in trained.build.iterdir() if path.name.endswith(".tmp")]


def test_trained_adapters_become_evidence(trained):
    folder = trained.promote()
    assert folder == trained.evidence
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert there == {"MANIFEST.json", *(f"{tag}/{name}" for tag in TAGS for name in FILES)}
    assert set(manifest["files"]) == there - {"MANIFEST.json"}
    for name, record in manifest["files"].items():
        source = trained.adapters / name
        assert (folder / name).read_bytes() == source.read_bytes()
        assert record == {"bytes": source.stat().st_size, "sha256": files.sha256_file(source)}
    record = json.loads((trained.adapters / "primary" / "training.json").read_text())
    assert (manifest["profile"], manifest["profile_sha256"]) == ("tiny", record["profile_sha256"])
    assert list(manifest["adapters"]) == sorted(TAGS)
    primary = manifest["adapters"]["primary"]
    training = primary.pop("training")
    assert primary == {
        **{"block_size": 8, "steps": STEPS, "seed": 1},
        **{"config_hash": "c" * 64, "target_fingerprint": TARGET},
    }
    assert training["code"] == {"commit": trained.git("rev-parse", "HEAD"), "dirty": False}
    assert training["environment"]["packages"]["numpy"]
    assert training["started_utc"] <= training["ended_utc"]


@pytest.mark.parametrize("tag", TAGS)
def test_an_adapter_that_is_missing_is_refused_since_none_is_added_later(trained, tag):
    shutil.rmtree(trained.adapters / tag)
    refused(trained, f"adapters: found no {tag}; expected all of primary, replication, primary_sh")


def test_what_a_kill_left_is_not_promoted(trained):
    (trained.adapters / ".left.1.tmp").mkdir()
    manifest = json.loads((trained.promote() / "MANIFEST.json").read_text())
    assert set(manifest["adapters"]) == set(TAGS)


def test_evidence_is_never_replaced(kept):
    before = (kept.evidence / "MANIFEST.json").read_bytes()
    kept.write("primary")
    with pytest.raises(UserError, match=r"expected none yet\. Committed adapters are never"):
        kept.promote()
    assert (kept.evidence / "MANIFEST.json").read_bytes() == before


def test_a_dirty_tree_is_refused(trained):
    (trained.path / "script.py").write_text("")
    refused(trained, "working tree")


def test_no_repository_is_refused(trained):
    (trained.path / ".git").rename(trained.path / "git")
    refused(trained, "a clone with its history")


def test_no_adapters_are_refused(trained):
    shutil.rmtree(trained.adapters)
    refused(trained, "adapters: found no primary, no replication, no primary_shuffled")


def test_another_target_is_refused(trained):
    record = trained.build / "target" / "training.json"
    files.write_json(record, {"fingerprint": "e" * 64})
    refused(trained, f"target_fingerprint: found {TARGET}; expected {'e' * 64}, of tiny/target")
    record.unlink()
    refused(trained, "record: found none")
    files.write_json(record.with_name("conversion.json"), {"fingerprint": TARGET})
    trained.promote()


def test_another_profile_than_the_one_that_is_there_is_refused(trained):
    trained.change_profile()
    refused(trained, r"of the profile as it is\. Train again")


def test_a_profile_that_the_commit_of_the_code_lacks_is_refused(trained):
    first = trained.git("rev-list", "--max-parents=0", "HEAD")
    for tag in TAGS:
        start = {"git_sha": first, "git_dirty": False, "plan_sha256": None}
        trained.write(tag, git_sha=first, start=start)
    refused(trained, r"profile: found tiny; expected one in the commit: config/profiles/tiny\.yaml")


def test_a_record_of_another_profile_is_refused(trained):
    for tag in TAGS:
        trained.write(tag, profile="other")
    refused(trained, "profile: found other; expected tiny")
    for tag in TAGS:
        trained.write(tag, profile_sha256="0" * 64)
    refused(trained, "of the profile as it is")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"profile_sha256": "0" * 64}, "profile_sha256"),
        ({"target_fingerprint": "e" * 64}, "target_fingerprint"),
        ({"git_sha": "0" * 40}, "git_sha"),
    ],
)
def test_adapters_that_were_not_trained_alike_are_refused(trained, changes, field):
    trained.write("replication", **changes)
    refused(trained, f"replication/training.json: .*{field}: found .*, as in primary")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused(trained, name):
    (trained.adapters / "primary_shuffled" / name).unlink()
    refused(trained, f"primary_shuffled/{name}: file: found nothing there")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_no_repository_should_carry_is_refused(trained, name):
    with (trained.adapters / "primary" / name).open("r+b") as stream:
        stream.truncate(MAX_BYTES + 1)
    refused(trained, f"{name}: bytes: found 16000001; expected at most 16000000")


@pytest.mark.parametrize("kept_bytes", [0, 4, 100, -1])
def test_a_truncated_adapter_is_refused(trained, kept_bytes):
    path = trained.adapters / "primary" / "adapter.safetensors"
    path.write_bytes(path.read_bytes()[:kept_bytes])
    refused(trained, r"adapter\.safetensors: (file|bytes): found")


def test_an_adapter_that_changed_since_it_was_trained_is_refused(trained):
    path = trained.adapters / "primary" / "adapter.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    refused(trained, r"sha256: found .*, as trained \(training\.json\)")


def test_an_adapter_of_another_tag_is_refused(trained):
    shutil.rmtree(trained.adapters / "replication")
    shutil.copytree(trained.adapters / "primary", trained.adapters / "replication")
    refused(trained, "arm: found primary; expected replication")


def test_an_adapter_that_says_otherwise_than_its_record_is_refused(trained):
    path = trained.adapters / "primary" / "training.json"
    files.write_json(path, json.loads(path.read_text()) | {"block_size": 4})
    refused(trained, "metadata.block_size: found 8; expected 4")


def test_a_log_that_lacks_steps_is_refused(trained):
    path = trained.adapters / "primary" / "training.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    refused(trained, "rows: found 2; expected 3, one a step")


def test_a_record_from_before_there_was_provenance_is_refused(trained):
    path = trained.adapters / "primary" / "training.json"
    record = json.loads(path.read_text())
    del record["provenance"]
    files.write_json(path, record)
    refused(trained, r"primary/training\.json: provenance: found nothing; expected this key")


def of_all(trained, **changes) -> None:
    for tag in TAGS:
        trained.write(tag, **changes)


def begun(trained, **changes) -> dict:
    return {"git_sha": trained.git("rev-parse", "HEAD"), "git_dirty": False} | {
        "plan_sha256": None,
        **changes,
    }


def test_training_from_a_dirty_tree_is_refused(trained):
    of_all(trained, git_dirty=True)
    refused(trained, "git_dirty: found true")
    of_all(trained, start=begun(trained, git_dirty=True))
    refused(trained, r"start\.git_dirty: found true")


def test_training_that_went_on_under_other_code_is_refused(trained):
    of_all(trained, start=begun(trained, git_sha="0" * 40))
    refused(trained, r"start\.git_sha")


def test_training_by_code_that_is_not_in_the_history_is_refused(trained):
    of_all(trained, git_sha=None, git_dirty=None)
    refused(trained, "expected code in a repository")
    of_all(trained, git_sha="0" * 40, start=begun(trained, git_sha="0" * 40))
    refused(trained, "expected a commit of this repository")


def test_training_on_a_branch_that_was_left_is_refused(trained):
    trained.git("checkout", "--quiet", "-b", "side")
    (trained.path / "code.py").write_text("")
    trained.commit("code of a branch")
    of_all(trained)
    trained.git("checkout", "--quiet", "main")
    refused(trained, "expected an ancestor of HEAD")


def test_an_interrupted_copy_leaves_nothing(trained, monkeypatch):
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(promote.files, "write_json", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained.promote()
    monkeypatch.undo()
    assert not (trained.path / "results").exists()
    assert sorted(path.name for path in trained.build.iterdir()) == ["adapters", "target"]


def test_the_command(trained, capsys):
    words = ["--repo", trained.path, "--profile", "tiny"]
    assert exit_code(promote_script, *words) == cli.EXIT_USER_ERROR
    both = [*words, "--adapters", "--study", "rprm"]
    assert exit_code(promote_script, *both) == cli.EXIT_USER_ERROR
    assert exit_code(promote_script, *words, "--adapters") == 0
    assert capsys.readouterr().out.endswith("adapters is complete; now commit it\n")
    assert exit_code(promote_script, *words, "--adapters") == cli.EXIT_USER_ERROR
