"""The commands, as a user types them: exit codes, one line on bad input, files written."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import amend as amend_script
import audit as audit_script
import freeze as freeze_script
import promote as promote_script
from diffdraft import cli
from diffdraft.prereg import audit, ledger

from .repositories import STUDY, Repository

SCRIPTS = Path(__file__).parents[2] / "workflow_scripts"


def exit_code(script, *arguments) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.run(script.parser(), script.main, [str(a) for a in arguments])
    return caught.value.code or 0


def test_freeze_then_amend(tmp_path, capsys):
    repository = Repository(tmp_path / "repo")
    repository.start()
    assert exit_code(freeze_script, repository.plan) == 0
    assert "commit them alone" in capsys.readouterr().out
    assert exit_code(freeze_script, repository.plan) == cli.EXIT_USER_ERROR
    assert capsys.readouterr().err.count("\n") == 1
    texts = ["--reason", "the machine is slow", "--seen", "nothing"]
    change = ["--change", "samples.tiny.tokens", "4"]
    assert exit_code(amend_script, repository.plan, *texts, *change) == 0
    assert (repository.prereg / f"{STUDY}.amendment-1.yaml").exists()
    forbidden = ["--change", "criteria", "[]"]
    assert exit_code(amend_script, repository.plan, *texts, *forbidden) == cli.EXIT_USER_ERROR
    assert "a new study" in capsys.readouterr().err
    assert len(ledger.read(repository.prereg)) == 2


def test_promote_then_audit(measured, tmp_path, capsys):
    arguments = ["--repo", measured.path, "--profile", "tiny", "--study", STUDY]
    assert exit_code(promote_script, *arguments) == 0
    measured.commit("evidence")
    assert exit_code(promote_script, *arguments) == cli.EXIT_USER_ERROR
    report = tmp_path / "audit.json"
    assert exit_code(audit_script, "--repo", measured.path, "--json", report) == 0
    assert json.loads(report.read_text())["outcome"] == audit.PASS
    assert capsys.readouterr().out.endswith("\nPASS\n")
    measured.plan.write_text("study: broken\n")
    assert exit_code(audit_script, "--repo", measured.path) == 1
    measured.git("checkout", "--quiet", "--", ".")
    (measured.path / ".git").rename(measured.path / "git")
    assert exit_code(audit_script, "--repo", measured.path) == 2


def test_a_command_from_the_shell_gives_one_line_and_exit_3(tmp_path):
    command = [sys.executable, str(SCRIPTS / "freeze.py"), str(tmp_path / "none.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == cli.EXIT_USER_ERROR
    assert done.stderr.count("\n") == 1
    assert "none.yaml: file: found nothing there; expected a plan" in done.stderr
