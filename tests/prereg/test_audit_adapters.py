"""The audit of committed adapters: an honest history passes, and what was done to it is found."""

import json
import shutil
import subprocess

import pytest
from pydantic import create_model

from diffdraft import files
from diffdraft.config import Profile
from diffdraft.prereg import adapter_profile, audit

from .adapters import ADAPTERS, TAGS, Trained

KEPT, MANIFEST = "results only added", "adapter manifest"
CLEAN, PROFILE = "trained cleanly", "trained from the committed profile"


def edit(path, change) -> None:
    value = json.loads(path.read_text())
    change(value)
    files.write_json(path, value)


def committed_anew(trained, change=lambda folder: None) -> Trained:
    """The adapters committed for the first time, with what `change` did to their folder."""
    trained.promote()
    change(trained.evidence)
    trained.commit("adapters")
    return trained


def test_an_honest_history_passes(kept):
    findings = [f for f in audit.audit(kept.path) if f.subject == ADAPTERS]
    assert [f.check for f in findings] == [KEPT, MANIFEST, CLEAN, PROFILE]
    assert {f.outcome for f in findings} == {audit.PASS}, findings
    assert findings[1].detail.startswith(f"{', '.join(TAGS)}: 9 files")
    assert kept.failures() == {}


def test_the_profile_may_change_later(kept):
    kept.change_profile()
    assert kept.failures() == {}


def with_setting(monkeypatch, **default):
    """Today's profile with a setting that was not there when the adapters were trained."""
    grown = create_model("Profile", __base__=Profile, dropout=(float, default.get("value", ...)))
    monkeypatch.setattr(adapter_profile, "Profile", grown)


def test_a_profile_that_this_code_cannot_read_cannot_be_told(kept, monkeypatch):
    with_setting(monkeypatch)
    finding = {f.check: f for f in audit.audit(kept.path) if f.subject == ADAPTERS}[PROFILE]
    assert finding.outcome == audit.CANNOT_TELL
    assert "dropout" in finding.detail and "git checkout" in finding.detail
    assert kept.failures().keys() == {PROFILE}


def test_a_setting_that_came_later_changes_nothing(kept, monkeypatch):
    with_setting(monkeypatch, value=0.0)
    assert kept.failures() == {}


def test_another_profile_under_a_schema_that_adds_to_it_cannot_be_told(trained, monkeypatch):
    committed_anew(trained, forge_profile)
    with_setting(monkeypatch, value=0.0)
    finding = {f.check: f for f in audit.audit(trained.path)}[PROFILE]
    assert finding.outcome == audit.CANNOT_TELL
    assert "adds settings" in finding.detail


def test_a_shallow_clone_and_a_download_cannot_tell(kept, tmp_path):
    command = ["git", "clone", "--quiet", "--depth", "1", f"file://{kept.path}", "shallow"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    shutil.rmtree(kept.path / ".git")
    for repository in (Trained(tmp_path / "shallow"), kept):
        outcomes = {check: out for (check, on), out in repository.audit().items() if on == ADAPTERS}
        assert outcomes == {
            **{KEPT: audit.CANNOT_TELL, PROFILE: audit.CANNOT_TELL},
            **{MANIFEST: audit.PASS, CLEAN: audit.PASS},
        }


def test_adapters_that_are_not_committed_cannot_be_told(trained):
    trained.promote()
    outcomes = trained.audit()
    assert outcomes[KEPT, ADAPTERS] == audit.CANNOT_TELL
    assert ADAPTERS in trained.failures()["as committed"]


def test_a_file_changed_and_changed_back_fails(kept):
    path = kept.evidence / "primary" / "training.csv"
    text = path.read_text()
    path.write_text(text.replace("0.5", "0.4"))
    kept.commit("edit")
    assert kept.failures().keys() == {KEPT, MANIFEST}
    path.write_text(text)
    kept.commit("edit back")
    assert "changes it" in kept.failures()[KEPT]


def test_adapters_replaced_fail(kept, tmp_path):
    shutil.copytree(kept.evidence, tmp_path / "kept")
    shutil.rmtree(kept.evidence)
    kept.commit("remove")
    shutil.copytree(tmp_path / "kept", kept.evidence)
    kept.commit("again")
    details = kept.failures()
    assert details.keys() == {KEPT} and "removes it" in details[KEPT]


def extra_file(folder):
    (folder / "primary" / "notes.txt").write_text("a thought\n")


def extra_adapter(folder):
    shutil.copytree(folder / "primary", folder / "other")


def missing_file(folder):
    (folder / "primary" / "training.csv").unlink()


def missing_adapter(folder):
    shutil.rmtree(folder / "replication")


def other_bytes(folder):
    path = folder / "primary" / "adapter.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")


def cut(folder):
    path = folder / "primary" / "adapter.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def other_log(folder):
    path = folder / "primary" / "training.csv"
    path.write_text(path.read_text().replace("0.5", "0.4"))


def no_manifest(folder):
    (folder / "MANIFEST.json").unlink()


def in_manifest(change):
    return lambda folder: edit(folder / "MANIFEST.json", change)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (extra_file, "primary/notes.txt"),
        (extra_adapter, "other/adapter.safetensors"),
        (missing_file, "training.csv: file: found nothing there"),
        (missing_adapter, "adapters: found no replication"),
        (other_bytes, "sha256: found"),
        (cut, "as its header says"),
        (other_log, "files.primary/training.csv"),
        (no_manifest, "MANIFEST.json: file: found nothing there"),
        (in_manifest(lambda v: v.update(more=1)), "more: found an unknown key"),
        (in_manifest(lambda v: v.pop("profile_sha256")), "profile_sha256: found nothing"),
        (in_manifest(lambda v: v.update(profile_sha256="0" * 64)), "profile_sha256"),
        (in_manifest(lambda v: v.update(profile="other")), "profile: found other; expected tiny"),
        (in_manifest(lambda v: v["adapters"]["primary"].update(steps=4)), "adapters.primary"),
        (in_manifest(lambda v: v["adapters"].pop("primary")), "adapters: found"),
        (in_manifest(lambda v: v["files"].pop("primary/training.csv")), "files: found"),
        (
            in_manifest(lambda v: v["files"]["primary/training.csv"].update(bytes=1)),
            "files.primary/training.csv",
        ),
    ],
)
def test_a_manifest_that_does_not_fit_the_files_fails(trained, change, match):
    details = committed_anew(trained, change).failures()
    assert match in details[MANIFEST]
    assert "\n" not in details[MANIFEST]


def test_adapters_under_another_profile_fail(trained):
    trained.promote()
    trained.evidence.parent.rename(trained.evidence.parents[1] / "other")
    trained.commit("adapters")
    assert "profile: found tiny; expected other" in trained.failures()[MANIFEST]


def in_records(**changes):
    """All records and the manifest changed alike, as who forges would."""

    def change(folder):
        for tag in TAGS:
            edit(folder / tag / "training.json", lambda v: v["provenance"].update(changes))

    return change


def test_training_from_a_dirty_tree_fails(trained):
    assert "git_dirty" in committed_anew(trained, in_records(git_dirty=True)).failures()[CLEAN]


def test_training_by_later_or_unknown_code_fails(trained):
    trained.promote()
    (trained.path / "later.py").write_text("")
    trained.git("add", "later.py")
    trained.git("commit", "--quiet", "--message", "later code")
    side = trained.git("rev-parse", "HEAD")
    trained.git("reset", "--quiet", "--hard", "HEAD~")
    in_records(git_sha=side)(trained.evidence)
    trained.commit("adapters")
    assert "an ancestor of" in trained.failures()[KEPT]
    in_records(git_sha="0" * 40)(trained.evidence)
    trained.commit("unknown")
    assert "a commit of this repository" in trained.failures()[PROFILE]


def forge_profile(folder):
    """Records and manifest say another profile, and agree."""
    for path in (*(folder / tag / "training.json" for tag in TAGS), folder / "MANIFEST.json"):
        edit(path, lambda value: value.update(profile_sha256="0" * 64))
    for tag in TAGS:
        path = folder / tag / "training.json"
        record = {"bytes": path.stat().st_size, "sha256": files.sha256_file(path)}
        name = f"{tag}/training.json"
        edit(folder / "MANIFEST.json", lambda v: v["files"].update({name: record}))  # noqa: B023


def test_another_profile_than_that_of_the_code_fails(trained):
    details = committed_anew(trained, forge_profile).failures()
    assert details.keys() == {PROFILE}
    assert f"profile_sha256: found {'0' * 64}; expected" in details[PROFILE]
