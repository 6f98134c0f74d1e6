"""The lock files: complete, pinned by hash, tied to no index and no machine, in step."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
ENVS = REPOSITORY / "envs"
WHOLE = "requirements.lock"
# Each lock file and the extras that it is made of.
LOCKS = {
    WHOLE: ("models", "cpu", "dev"),
    "envs/analysis.lock": (),
    "envs/gemma.lock": ("models", "cpu", "gemma"),
    "envs/hub.lock": ("models", "cpu", "hub"),
    "envs/cuda.lock": ("models", "cuda"),
}
SPECIFICATIONS = {
    WHOLE: "models",
    "envs/analysis.lock": "analysis",
    "envs/gemma.lock": "gemma",
    "envs/hub.lock": "hub",
}
ENTRY = re.compile(
    r"^([a-z0-9][a-z0-9-]*)==(\S+)(.*?)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.M
)


def entries(lock):
    """{name: [(version, marker)]} of a lock file; every line must belong to an entry."""
    text = (REPOSITORY / lock).read_text()
    found = {}
    for name, version, marker, _ in ENTRY.findall(text):
        found.setdefault(name, []).append((version, marker.strip()))
    left = [line for line in ENTRY.sub("", text).splitlines() if line and line[0] != "#"]
    assert not left, left
    return found


def declared(*extras):
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][name] for name in extras)]
    return {re.match(r"[a-z0-9-]+", line)[0] for lines in lists for line in lines}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_is_a_version_with_hashes_and_nothing_else(lock):
    assert len(entries(lock)) > 20


@pytest.mark.parametrize("lock", LOCKS)
def test_all_that_is_declared_is_locked(lock):
    assert declared(*LOCKS[lock]) <= set(entries(lock))


def test_every_lock_file_and_environment_is_known_here():
    assert {WHOLE, *(f"envs/{path.name}" for path in ENVS.glob("*.lock"))} == set(LOCKS)
    assert {path.stem for path in ENVS.glob("*.yaml")} == set(SPECIFICATIONS.values())


def test_no_lock_file_names_a_registry():
    for lock in LOCKS:
        assert "://" not in (REPOSITORY / lock).read_text(), lock


@pytest.mark.parametrize("lock", [lock for lock in LOCKS if lock != WHOLE])
def test_all_lock_files_have_the_same_versions(lock):
    whole, part = entries(WHOLE), entries(lock)
    for name in part.keys() & whole.keys():
        assert {version for version, _ in part[name]} <= {version for version, _ in whole[name]}


def test_analysis_is_a_part_of_the_whole_and_has_no_mlx():
    part = set(entries("envs/analysis.lock"))
    assert part <= set(entries(WHOLE))
    assert not [name for name in part if name.startswith("mlx")]


def test_only_the_extra_brings_the_large_packages():
    large = {name for name in entries("envs/gemma.lock") if name.startswith("gemma3-270m")}
    assert len(large) == 5  # one that says what it is, and four chunks
    for lock in set(LOCKS) - {"envs/gemma.lock"}:
        assert not large & set(entries(lock)), lock


def test_linux_and_macos_are_served():
    for lock in (WHOLE, "envs/gemma.lock", "envs/hub.lock"):
        assert "sys_platform == 'linux'" in entries(lock)["mlx-cpu"][0][1]
    for lock in (WHOLE, "envs/gemma.lock", "envs/hub.lock", "envs/cuda.lock"):
        assert "sys_platform == 'darwin'" in entries(lock)["mlx-metal"][0][1]


def test_cuda_has_its_own_library_and_not_that_of_the_cpu():
    locked = entries("envs/cuda.lock")
    assert "sys_platform == 'linux'" in locked["mlx-cuda-13"][0][1]
    assert not {"mlx-cpu", "scipy-openblas32"} & set(locked)


def test_all_parts_of_mlx_have_one_version():
    found = {
        name: {version for version, _ in versions}
        for lock in LOCKS
        for name, versions in entries(lock).items()
        if name in ("mlx", "mlx-cpu", "mlx-metal", "mlx-cuda-13")
    }
    assert len(found) == 4
    assert len(set.union(*found.values())) == 1


@pytest.mark.parametrize("lock", SPECIFICATIONS)
def test_environment_specification_has_the_locked_versions(lock):
    specification = yaml.safe_load((ENVS / f"{SPECIFICATIONS[lock]}.yaml").read_text())
    pip = specification["dependencies"][-1]["pip"]
    assert pip == [
        f"{name}=={version} {marker}".strip()
        for name, versions in entries(lock).items()
        for version, marker in versions
    ]


def deployed(rule_file):
    """The environment specifications that the rules of a file name."""
    text = (REPOSITORY / "rules" / rule_file).read_text()
    return {Path(name).stem for name in re.findall(r'"\.\./(envs/\S+)"', text)}


def test_every_specification_that_a_rule_names_is_there():
    for path in (REPOSITORY / "rules").glob("*.smk"):
        assert deployed(path.name) <= set(SPECIFICATIONS.values()), path


@pytest.mark.parametrize(
    ("rule_file", "extra"), [("target_packaged.smk", "gemma"), ("corpus_hub.smk", "hub")]
)
def test_a_rule_that_needs_an_extra_deploys_it(rule_file, extra):
    (specification,) = deployed(rule_file)
    lock = next(lock for lock, name in SPECIFICATIONS.items() if name == specification)
    assert declared(extra) <= set(entries(lock))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The Makefile and the lock files beside an environment whose Python installs nothing."""
    shutil.copytree(ENVS, tmp_path / "envs")
    for name in ("Makefile", WHOLE):
        shutil.copy(REPOSITORY / name, tmp_path / name)
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@" >> installed\n')
    python.chmod(0o755)
    shutil.copy(python, python.with_name("python3.11"))
    monkeypatch.setenv("PATH", str(python.parent), prepend=":")
    return tmp_path


def make(project, *words):
    return subprocess.run(
        ["make", *words, "VENV=venv"], cwd=project, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("installed", "words", "has", "brings"),
    [
        ("envs/cuda.lock", ["gemma", "LOCK=envs/cuda.lock"], "cuda", "cpu"),
        ("envs/cuda.lock", ["hub", "LOCK=envs/cuda.lock"], "cuda", "cpu"),
        ("envs/cuda.lock", ["gemma"], "cuda", "cpu"),
        ("envs/cuda.lock", ["venv/from-lock"], "cuda", "cpu"),
        (WHOLE, ["venv/from-lock", "LOCK=envs/cuda.lock"], "cpu", "cuda"),
    ],
)
def test_one_back_end_is_not_installed_over_another(project, installed, words, has, brings):
    shutil.copy(project / installed, project / "venv/from-lock")
    os.utime(project / "venv/from-lock", (0, 0))
    done = make(project, *words)
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error")]
    assert done.returncode != 0
    assert error.startswith(f"error: VENV: venv: found mlx-{has} there; expected another ")
    assert error.endswith(f"which brings mlx-{brings}")
    assert not (project / "installed").exists()


@pytest.mark.parametrize("extra", ["gemma", "hub"])
def test_an_extra_is_added_to_the_back_end_that_it_brings(project, extra):
    shutil.copy(project / WHOLE, project / "venv/from-lock")
    done = make(project, extra)
    assert done.returncode == 0, done.stderr
    assert f"--require-hashes -r envs/{extra}.lock" in (project / "installed").read_text()
    assert (project / f"venv/from-{extra}-lock").is_file()
