"""The audit: an honest history passes; each way to cheat fails at the check made for it."""

import shutil
import subprocess

import pytest
import yaml

from diffdraft import files, git
from diffdraft.errors import UserError
from diffdraft.prereg import audit, audit_evidence, evidence, history, ledger
from diffdraft.prereg.amendments import Change
from diffdraft.prereg.freezing import amend
from diffdraft.prereg.reading import fit
from diffdraft.prereg.schema import load_plan

from .repositories import RESULTS, STUDY, Repository

HISTORY_CHECKS = {
    "nothing lost",
    "ledger only added to",
    "unchanged since frozen",
    "frozen before results",
    "results only added",
    "code descends from plan",
}
GIT_CHECKS = HISTORY_CHECKS | {"as committed"}


def smaller_sample(repository) -> None:
    change = fit(Change, {"field": "samples.tiny.tokens", "becomes": 4}, "--change")
    amend(repository.plan, "the machine is slow", "no result of any kind", [change])


def test_an_honest_history_passes(repository):
    findings = audit.audit(repository.path)
    assert {finding.outcome for finding in findings} == {audit.PASS}
    assert audit.overall(findings) == audit.PASS
    assert {finding.check for finding in findings} >= GIT_CHECKS | {
        "plan schema",
        "ledger chain",
        "bytes against the ledger",
        "plan frozen",
        "manifest",
        "measured as planned",
        "measured cleanly, later",
        "verdict from rows",
    }
    value = audit.to_json(findings)
    assert value["outcome"] == "PASS"
    assert len(value["checks"]) == len(findings)
    assert audit.table(findings).endswith("\nPASS")


def test_a_draft_without_results_passes(tmp_path):
    repository = Repository(tmp_path / "repo")
    repository.start()
    assert set(repository.audit().values()) == {audit.PASS}


def test_a_folder_without_plans_is_refused(tmp_path):
    with pytest.raises(UserError, match="a repository with prereg"):
        audit.audit(tmp_path)


def test_a_shallow_clone_cannot_tell(repository, tmp_path):
    url = f"file://{repository.path}"
    command = ["git", "clone", "--quiet", "--depth", "1", url, str(tmp_path / "shallow")]
    subprocess.run(command, check=True, capture_output=True)
    findings = audit.audit(tmp_path / "shallow")
    untold = {f.check: f.detail for f in findings if f.outcome != audit.PASS}
    assert untold.keys() == HISTORY_CHECKS
    assert all("git fetch --unshallow" in detail for detail in untold.values())
    assert audit.overall(findings) == audit.CANNOT_TELL


def test_a_download_without_history_cannot_tell(repository):
    shutil.rmtree(repository.path / ".git")
    findings = audit.audit(repository.path)
    untold = {f.check: f for f in findings if f.outcome != audit.PASS}
    assert untold.keys() == GIT_CHECKS
    assert all("git clone" in untold[check].detail for check in HISTORY_CHECKS)
    assert {finding.outcome for finding in untold.values()} == {audit.CANNOT_TELL}


def test_no_git_cannot_tell(repository, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    details = repository.failures()
    assert details.keys() == GIT_CHECKS
    assert all("git is not installed" in detail for detail in details.values())


def test_a_failure_outweighs_what_cannot_be_told(repository):
    shutil.rmtree(repository.path / ".git")
    repository.plan.write_text(repository.plan.read_text() + "\n")
    assert audit.overall(audit.audit(repository.path)) == audit.FAIL


def rewrite(repository, tmp_path, order) -> Repository:
    """A history with the files of `repository`, committed in another order."""
    other = Repository(tmp_path / "other")
    shutil.copytree(repository.path, other.path, ignore=shutil.ignore_patterns(".git"))
    shutil.rmtree(other.results)
    other.ledger.unlink()
    other.git("init", "--quiet", "--initial-branch=main")
    other.git("config", "user.name", "Somebody")
    other.git("config", "user.email", "somebody@example.org")
    other.commit("code and a draft")
    for step in order:
        if "plan" in step:
            shutil.copy(repository.ledger, other.ledger)
        if "results" in step:
            shutil.copytree(repository.results, other.results)
        other.commit(" and ".join(step))
    return other


def test_results_before_the_freezing_fail(repository, tmp_path):
    other = rewrite(repository, tmp_path, [["results"], ["plan"]])
    assert "a descendant of the freezing" in other.failures()["frozen before results"]


def test_results_in_the_freezing_commit_fail(repository, tmp_path):
    other = rewrite(repository, tmp_path, [["plan", "results"]])
    assert "which also froze the plan" in other.failures()["frozen before results"]


def test_results_that_came_before_went_and_came_back_fail(repository, tmp_path):
    other = rewrite(repository, tmp_path, [["results"]])
    shutil.rmtree(other.results)
    other.commit("remove")
    shutil.copy(repository.ledger, other.ledger)
    other.commit("freeze")
    shutil.copytree(repository.results, other.results)
    other.commit("again")
    assert "frozen before results" in other.failures()


def test_measured_by_code_that_is_not_in_the_history_fails(repository, tmp_path):
    other = rewrite(repository, tmp_path, [["plan"], ["results"]])
    details = other.failures()
    assert details.keys() == {"code descends from plan", "results only added"}
    assert "a commit of this repository" in details["code descends from plan"]


def test_results_on_a_branch_that_does_not_have_the_freezing_fail(repository):
    draft = repository.git("rev-list", "--max-parents=0", "HEAD")
    repository.git("checkout", "--quiet", "-b", "side", draft)
    (repository.results).mkdir(parents=True)
    (repository.results / "early.txt").write_text("a look at the results\n")
    repository.commit("results seen on a branch")
    repository.git("checkout", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-edit", "side")
    repository.git("rm", "--quiet", f"{RESULTS}/early.txt")
    repository.commit("tidy")
    details = repository.failures()
    assert details.keys() == {"frozen before results", "results only added"}


def test_evidence_that_is_not_committed_cannot_be_told(measured):
    measured.promote()
    findings = {f.check: f for f in audit.audit(measured.path)}
    assert findings["results only added"].outcome == audit.CANNOT_TELL
    assert "in no commit" in findings["results only added"].detail
    assert findings["as committed"].outcome == audit.FAIL
    assert RESULTS in findings["as committed"].detail


def test_a_plan_changed_by_one_byte_fails(repository):
    text = repository.plan.read_text()
    repository.plan.write_text(text.replace("bound: 1.0\n", "bound: 0.9\n"))
    details = repository.failures()
    assert "as frozen on" in details["bytes against the ledger"]
    assert "as frozen on" in details["plan frozen"]
    assert repository.plan.read_text() != text


def test_a_plan_changed_and_changed_back_fails(repository):
    text = repository.plan.read_text()
    repository.plan.write_text(text + "# a thought\n")
    repository.commit("edit")
    repository.plan.write_text(text)
    repository.commit("edit back")
    details = repository.failures()
    assert details.keys() == {"unchanged since frozen"}


def test_a_ledger_line_removed_or_reordered_fails(repository):
    smaller_sample(repository)
    repository.commit("amend")
    lines = repository.ledger.read_bytes().splitlines(keepends=True)
    for forged in (lines[1:], lines[::-1]):
        repository.ledger.write_bytes(b"".join(forged))
        details = repository.failures()
        assert "a line was removed or moved" in details["ledger chain"]
        assert "lines added to HEAD's" in details["ledger only added to"]
    repository.ledger.write_bytes(lines[0])
    details = repository.failures()
    assert "lines added to HEAD's" in details["ledger only added to"]
    repository.commit("forget the amendment")
    assert "lines added at the end" in repository.failures()["ledger only added to"]


def test_the_only_line_removed_leaves_results_without_a_frozen_plan(repository):
    repository.ledger.unlink()
    repository.commit("forget")
    details = repository.failures()
    assert "no line for this file" in details["plan frozen"]
    assert "one before" in details["frozen"]
    assert "ledger only added to" in details


def test_a_ledger_written_anew_after_the_results_fails(repository):
    text = repository.plan.read_text().replace("bound: 1.0\n", "bound: 0.9\n")
    repository.plan.write_text(text)
    repository.ledger.unlink()
    ledger.append(repository.prereg, "freeze", repository.plan)
    repository.commit("a better plan")
    details = repository.failures()
    assert {"ledger only added to", "frozen before results", "manifest"} <= details.keys()


def test_an_edited_row_fails(repository):
    path = repository.results / "timing.csv"
    lines = path.read_text().splitlines(keepends=True)
    header = lines[0].split(",")
    for number, line in enumerate(lines[1:], start=1):
        cells = line.split(",")
        if cells[header.index("arm")] == "uno_k4":
            wall = header.index("wall_seconds")
            cells[wall] = str(2 * float(cells[wall]))
            lines[number] = ",".join(cells)
    path.write_text("".join(lines))
    repository.commit("improve")
    details = repository.failures()
    left = {"results only added", "measured as planned"}
    assert details.keys() == {"manifest", "verdict from rows"} | left
    assert "all SLOWER and not all FASTER" in details["verdict from rows"]
    # With the manifest made to agree, the rows still do not give the verdict.
    record = files.sha256_file(path)
    size = path.stat().st_size
    repository.edit_json(
        "MANIFEST.json", lambda m: m["files"]["timing.csv"].update(sha256=record, bytes=size)
    )
    repository.commit("improve the manifest")
    assert repository.failures().keys() == {"verdict from rows"} | left
    # With the metadata made to agree as well, git still has what was measured.
    repository.edit_json("timing_meta.json", lambda m: m["rows"].update({"timing.csv": record}))
    repository.commit("improve the metadata")
    assert repository.failures().keys() == {"verdict from rows", "results only added", "manifest"}


def test_an_edited_verdict_fails(repository):
    repository.edit_json("verdict.json", lambda v: v["carried"].update(verdict="SLOWER"))
    assert {"manifest", "verdict from rows"} <= repository.failures().keys()


def edit_manifest(key, value):
    return lambda manifest: manifest.update({key: value})


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (lambda m: m["files"].pop("cycles.csv"), "files"),
        (lambda m: m["files"]["timing.csv"].update(rows=1), "files.timing.csv"),
        (lambda m: m["files"]["timing.csv"].update(schema_name="cycles"), "files.timing.csv"),
        (lambda m: m["plan"].update(sha256="0" * 64), "plan.sha256"),
        (lambda m: m["plan"].update(file="prereg/other.yaml"), "plan.file"),
        (lambda m: m["model"].update(target="another"), "model.target"),
        (lambda m: m["model"].update(revision="abc"), "model.revision"),
        (edit_manifest("profile", "large"), "profile"),
        (edit_manifest("amendments", ["0" * 64]), "amendments"),
        (edit_manifest("started_utc", "2020-01-01T00:00:00+00:00"), "started_utc"),
        (lambda m: m["model"].update(fingerprint="other"), "model.fingerprint"),
        (lambda m: m["model"]["files"].clear(), "adapter among model.files"),
        (lambda m: m["verdict"]["carried"].update(verdict="SLOWER"), "verdict"),
        (lambda m: m["measurements"]["timing_meta.json"]["code"].update(dirty=True), "measure"),
        (edit_manifest("note", "hello"), "unknown key"),
    ],
)
def test_a_manifest_that_does_not_agree_fails(repository, edit, field):
    repository.edit_json("MANIFEST.json", edit)
    plan = evidence.registered(repository.prereg, STUDY)
    with pytest.raises(UserError, match=rf"MANIFEST\.json: .*{field}"):
        audit_evidence.check_manifest(plan, "tiny", repository.results)


def test_a_file_too_many_or_too_few_fails(repository):
    (repository.results / "notes.txt").write_text("hello\n")
    assert "files" in repository.failures()["manifest"]
    (repository.results / "notes.txt").unlink()
    (repository.results / "cycles.csv").unlink()
    assert "cycles.csv" in repository.failures()["manifest"]


@pytest.mark.parametrize(
    ("edit", "check", "found"),
    [
        (lambda m: m["seeds"].update(bootstrap=7), "measured as planned", "seeds"),
        (lambda m: m["samples"].update(tokens=4), "measured as planned", "samples"),
        (lambda m: m.update(profile="large"), "measured as planned", "profile"),
        (lambda m: m["rows"].pop("cycles.csv"), "measured as planned", "rows"),
        (lambda m: m["rows"].update({"cycles.csv": "0" * 64}), "measured as planned", "sha256"),
        (lambda m: m["provenance"].update(git_dirty=True), "measured cleanly, later", "git_dirty"),
        (
            lambda m: m["provenance"]["start"].update(git_dirty=True),
            "measured cleanly, later",
            "start.git_dirty",
        ),
        (
            lambda m: m["provenance"]["start"].update(git_sha="0" * 40),
            "measured cleanly, later",
            "start.git_sha",
        ),
        (
            lambda m: m["provenance"]["start"].update(plan_sha256="0" * 64),
            "measured cleanly, later",
            "start.plan_sha256",
        ),
        (lambda m: m["provenance"].update(git_sha=None), "code descends from plan", "no commit"),
        (
            lambda m: m["provenance"].update(started_utc="2020-01-01T00:00:00+00:00"),
            "measured cleanly, later",
            "started_utc",
        ),
        (lambda m: m["provenance"].update(git_sha="0" * 40), "code descends from plan", "git_sha"),
    ],
)
def test_metadata_that_is_not_as_planned_fails(repository, edit, check, found):
    repository.edit_json("timing_meta.json", edit)
    assert found in repository.failures()[check]


def test_code_from_before_the_freezing_fails(repository):
    draft = repository.git("rev-list", "--max-parents=0", "HEAD")
    repository.edit_json("timing_meta.json", lambda m: m["provenance"].update(git_sha=draft))
    assert "a descendant" in repository.failures()["code descends from plan"]


def test_an_amendment_after_the_results_must_say_so_and_changes_nothing(repository):
    smaller_sample(repository)
    repository.commit("amend")
    findings = {f.check: f for f in audit.audit(repository.path)}
    assert {f.outcome for f in findings.values()} == {audit.PASS}
    assert "exploratory" in findings["amendment label"].detail


def test_an_amendment_with_a_false_label_fails(repository):
    kept = repository.path / "kept"
    shutil.move(repository.path / "results", kept)  # hidden, so that the label comes out false
    smaller_sample(repository)
    shutil.move(kept, repository.path / "results")
    repository.commit("amend")
    details = repository.failures()
    assert details.keys() == {"amendment label"}
    assert "holds results" in details["amendment label"]


def test_a_new_profile_beside_it_does_not_make_a_label_true(repository):
    """Results of tiny exist; the label is of the new profile only, which has none."""
    plan = load_plan(repository.plan)
    changes = [
        {"field": "samples.big", "becomes": plan.samples["tiny"].model_dump()},
        {"field": "models.big", "becomes": {"target": "a larger one"}},
        {"field": "decisions", "becomes": "Ties are broken by the first index."},
    ]
    words = {"study": STUDY, "amendment": 1, "reason": "r", "seen": "s", "results_existed": False}
    path = repository.prereg / f"{STUDY}.amendment-1.yaml"

    def forge(changes):
        value = {**words, "parent": plan.sha256, "changes": changes}
        path.write_text(yaml.safe_dump(value))
        ledger.append(repository.prereg, "amend", path, plan.sha256)
        repository.commit("amend")
        return {f.check: f for f in audit.audit(repository.path)}["amendment label"]

    start = git.head(repository.path)
    assert "holds results" in forge(changes).detail
    repository.git("reset", "--quiet", "--hard", start)
    finding = forge([*changes[:2], {**changes[2], "field": "decisions.big"}])
    assert (finding.outcome, finding.detail) == (audit.PASS, "before any results of big")
    repository.git("reset", "--quiet", "--hard", start)
    forge([{**changes[2], "field": "decisions.big"}])
    assert "a profile that the plan has" in repository.failures()["amendments chained"]


def test_an_amended_sample_is_the_one_expected(measured):
    smaller_sample(measured)
    measured.commit("amend")
    measured.write_meta()  # begun after the amendment, but with the rows from before it
    with pytest.raises(UserError, match="tokens: found"):
        measured.promote()
    measured.measure()
    measured.promote()
    measured.commit("evidence")
    findings = {f.check: f for f in audit.audit(measured.path)}
    assert {f.outcome for f in findings.values()} == {audit.PASS}
    assert findings["amendment label"].detail == "before any results of tiny"


def test_pins_can_be_amended(measured):
    changes = [
        fit(Change, {"field": field, "becomes": "d" * 64}, "--change")
        for field in ("models.tiny.profile_sha256", "samples.tiny.workload_sha256")
    ]
    amend(measured.plan, "a misprint in a prompt", "no result of any kind", changes)
    measured.commit("amend")
    measured.write_meta()
    with pytest.raises(UserError, match="profile_sha256: found aaaa"):
        measured.promote()
    measured.write_meta(profile_sha256="d" * 64, workload_sha256="d" * 64)
    measured.promote()


def test_an_edited_or_unregistered_amendment_fails(repository):
    smaller_sample(repository)
    repository.commit("amend")
    path = repository.prereg / f"{STUDY}.amendment-1.yaml"
    text = path.read_text()
    path.write_text(text.replace("slow", "fast"))
    assert "amendments chained" in repository.failures()
    path.write_text(text)
    (repository.prereg / f"{STUDY}.amendment-2.yaml").write_text(text)
    assert "amendment-2" in repository.failures()["amendments chained"]


def test_results_of_an_unknown_study_fail(repository):
    shutil.copytree(repository.results, repository.path / "results" / "tiny" / "other")
    outcomes = repository.audit()
    assert outcomes["plan frozen", "results/tiny/other"] == audit.FAIL


def test_the_audit_changes_nothing(repository):
    before = repository.git("status", "--porcelain"), git.head(repository.path)
    audit.audit(repository.path)
    assert (repository.git("status", "--porcelain"), git.head(repository.path)) == before


def test_results_changed_and_changed_back_fail(repository):
    path = repository.results / "cycles.csv"
    text = path.read_text()
    path.write_text(text + "\n")
    repository.commit("edit")
    path.write_text(text)
    repository.commit("edit back")
    details = repository.failures()
    assert details.keys() == {"results only added"}
    assert "changes it" in details["results only added"]


def test_results_replaced_fail(repository, tmp_path):
    shutil.copytree(repository.results, tmp_path / "kept")
    shutil.rmtree(repository.results)
    repository.commit("remove")
    shutil.copytree(tmp_path / "kept", repository.results)
    repository.commit("again")
    details = repository.failures()
    assert details.keys() == {"results only added"}
    assert "removes it" in details["results only added"]


def test_results_removed_for_good_fail(repository):
    shutil.rmtree(repository.results)
    repository.commit("an unwanted verdict")
    details = repository.failures()
    assert details.keys() == {"nothing lost"}
    assert "removes it" in details["nothing lost"]


def test_published_figures_changed_fail(repository):
    path = repository.path / "results/published/figures.yaml"
    path.parent.mkdir()
    path.write_text("auroc: 0.7\n")
    repository.commit("published")
    assert repository.failures() == {}
    path.write_text("auroc: 0.9\n")
    repository.commit("better")
    assert "published/figures.yaml" in repository.failures()["nothing lost"]


@pytest.mark.parametrize("name", [f"{RESULTS}/cycles.csv", f"prereg/{STUDY}.yaml"])
def test_a_file_that_is_not_as_committed_is_named(repository, name):
    (repository.path / name).write_bytes((repository.path / name).read_bytes() + b"\n")
    assert name in repository.failures()["as committed"]
    repository.git("add", name)
    assert name in repository.failures()["as committed"]


@pytest.mark.parametrize("profile", ["tiny", "other"])
def test_results_removed_before_the_freezing_fail(tmp_path, profile):
    repository = Repository(tmp_path / "repo")
    repository.start()
    early = repository.path / "results" / profile / STUDY
    early.mkdir(parents=True)
    (early / "timing.csv").write_text("a look\n")
    repository.commit("results of a draft")
    assert "one before the results in" in draft_failure(repository, early)
    repository.freeze()
    assert "a descendant of the freezing" in repository.failures()["frozen before results"]


def draft_failure(repository, early) -> str:
    shutil.rmtree(early)
    repository.commit("tidy")
    return repository.failures()["frozen"]


def test_results_measured_by_later_code_fail(repository):
    (repository.path / "later.py").write_text("")
    later = repository.commit("later code")

    def edit(meta):
        meta["provenance"].update(git_sha=later)
        meta["provenance"]["start"].update(git_sha=later)

    repository.edit_json("timing_meta.json", edit)
    assert "an ancestor of" in history_failure(repository)


def history_failure(repository) -> str:
    return repository.failures()["results only added"]


def test_results_added_by_a_merge_itself_are_seen(tmp_path):
    """Neither parent has them; the merge is also the commit that brings in the frozen plan."""
    repository = Repository(tmp_path / "repo")
    repository.start()
    repository.git("checkout", "--quiet", "-b", "side")
    repository.freeze()
    repository.git("checkout", "--quiet", "main")
    (repository.path / "code.py").write_text("")
    repository.commit("code")
    repository.git("merge", "--quiet", "--no-commit", "--no-ff", "side")
    repository.results.mkdir(parents=True)
    (repository.results / "timing.csv").write_text("rows\n")
    merge = repository.commit("merge, and more")
    assert history.result_commits(repository.path, STUDY) == [merge]
    shutil.rmtree(repository.results)
    repository.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    assert history.result_commits(repository.path, STUDY) == []


def test_an_unexpected_error_in_a_check_is_a_failure(repository, monkeypatch):
    def broken(*arguments: object) -> str:
        raise KeyError("a key\nand a line")

    monkeypatch.setattr(audit_evidence, "check_manifest", broken)
    details = repository.failures()
    assert details.keys() == {"manifest"}
    assert "KeyError" in details["manifest"]
    assert "\n" not in details["manifest"]


def test_an_object_that_git_lacks_cannot_be_told(repository):
    """A damaged store is not a history without the file."""
    blob = repository.git("rev-parse", f"HEAD:prereg/{STUDY}.yaml")
    (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert git.blob(repository.path, "HEAD", "prereg/none.yaml") is None
    with pytest.raises(git.GitUnavailable):
        git.blob(repository.path, "HEAD", f"prereg/{STUDY}.yaml")
    outcomes = repository.audit()
    assert outcomes["unchanged since frozen", f"prereg/{STUDY}.yaml"] == audit.CANNOT_TELL


def test_what_a_kill_left_is_not_read_as_a_study(repository):
    shutil.copytree(repository.results, repository.results.with_name(".paired_timing.1.tmp"))
    repository.commit("left over")
    assert set(repository.audit().values()) == {audit.PASS}
