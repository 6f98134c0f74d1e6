"""The lock files: complete, pinned by hash, tied to no index and no machine, in step."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
LOCKS = {"requirements.lock": "models", "envs/analysis.lock": "analysis"}
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


def test_all_that_is_declared_is_locked():
    assert declared("models", "dev") <= set(entries("requirements.lock"))
    assert declared() <= set(entries("envs/analysis.lock"))


def test_analysis_is_a_part_of_the_whole_and_has_no_mlx():
    whole, part = entries("requirements.lock"), entries("envs/analysis.lock")
    assert not [name for name in part if name.startswith("mlx")]
    for name, versions in part.items():
        assert {version for version, _ in versions} <= {version for version, _ in whole[name]}, name


def test_linux_and_macos_are_served():
    locked = entries("requirements.lock")
    assert "sys_platform == 'linux'" in locked["mlx-cpu"][0][1]
    assert "sys_platform == 'darwin'" in locked["mlx-metal"][0][1]


@pytest.mark.parametrize("lock", LOCKS)
def test_environment_specification_has_the_locked_versions(lock):
    specification = yaml.safe_load((REPOSITORY / "envs" / f"{LOCKS[lock]}.yaml").read_text())
    pip = specification["dependencies"][-1]["pip"]
    assert pip == [
        f"{name}=={version} {marker}".strip()
        for name, versions in entries(lock).items()
        for version, marker in versions
    ]
