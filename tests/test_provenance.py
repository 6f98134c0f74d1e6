"""What a measurement says of itself, and what it must not say."""

import getpass
import json
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from diffdraft import files, provenance


def run_git(repo: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", repo, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path) -> Path:
    repo = tmp_path / "repo"
    repo.mkdir()
    run_git(repo, "init", "--initial-branch=main")
    run_git(repo, "config", "user.name", "Somebody")
    run_git(repo, "config", "user.email", "somebody@example.org")
    (repo / ".gitignore").write_text("build/\n")
    (repo / "plan.yaml").write_text("study: x\n")
    run_git(repo, "add", ".")
    run_git(repo, "commit", "-m", "start")
    return repo


def test_collect_tells_code_plan_and_times(repository):
    start = provenance.begin(repository / "plan.yaml", repository)
    record = provenance.collect(start, repository / "plan.yaml", repository)
    assert record["git_dirty"] is False
    assert len(record["git_sha"]) == 40
    assert record["plan"] == {
        "file": "plan.yaml",
        "sha256": files.sha256_file(repository / "plan.yaml"),
    }
    assert record["start"] == {
        "git_sha": record["git_sha"],
        "git_dirty": False,
        "plan_sha256": record["plan"]["sha256"],
    }
    begun, ended = (datetime.fromisoformat(record[k]) for k in ("started_utc", "ended_utc"))
    assert begun.utcoffset().total_seconds() == 0
    assert begun <= ended
    assert {"numpy", "pandas", "scipy"} <= set(record["packages"])
    assert record["cores"] >= 1
    assert record["cpu"]
    json.dumps(record, allow_nan=False)


def test_dirty_means_changed_or_untracked_but_not_ignored(repository):
    def dirty():
        return provenance.git_state(repository)[1]

    (repository / "build").mkdir()
    (repository / "build" / "rows.csv").write_text("a\n")
    assert dirty() is False
    (repository / "new.py").write_text("")
    assert dirty() is True
    (repository / "new.py").unlink()
    assert dirty() is False
    (repository / "plan.yaml").write_text("study: y\n")
    assert dirty() is True


def test_no_repository_is_null_even_inside_another(repository):
    inner = repository / "build" / "unpacked"
    inner.mkdir(parents=True)
    assert provenance.git_state(inner) == (None, None)


def test_no_git_is_null(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance.git_state(repository) == (None, None)


def test_absolute_paths_host_and_user_stay_out(repository, monkeypatch):
    argv = [
        str(repository / "workflow_scripts" / "x.py"),
        f"--out={repository}/build/o.csv",
        "/home/someone/secret/adapter.safetensors",
        "--tag",
        "a=b",
    ]
    monkeypatch.setattr(sys, "argv", argv)
    record = provenance.collect(provenance.begin(None, repository), None, repository)
    assert record["argv"] == [
        *("workflow_scripts/x.py", "--out=build/o.csv", "adapter.safetensors", "--tag", "a=b"),
    ]
    text = json.dumps({k: v for k, v in record.items() if k != "cpu"})
    assert str(repository) not in text
    assert socket.gethostname() not in text
    assert f'"{getpass.getuser()}"' not in text


def test_packages_that_are_not_installed_are_left_out():
    assert provenance.package_versions(["numpy", "no-such-package"]).keys() == {"numpy"}


def test_the_device_is_told_where_mlx_computes_and_mlx_is_not_loaded_to_ask(monkeypatch):
    import mlx.core  # noqa: F401

    assert provenance.device()["backend"] in ("cpu", "metal", "cuda")
    monkeypatch.delitem(sys.modules, "mlx.core")
    assert provenance.device() is None
    assert "mlx.core" not in sys.modules


def test_packages_that_texts_weights_and_products_come_from_are_told():
    told = provenance.package_versions()
    assert {"mlx", "mlx-lm", "tokenizers", "gguf"} <= set(told)
    assert {"mlx-cpu", "mlx-metal", "mlx-cuda-13"} & set(told)
