"""Snakemake in a fresh clone, as somebody who has just downloaded the project has it."""

import shutil
import subprocess
import uuid
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.workflow import launch

REPOSITORY = Path(__file__).resolve().parents[2]
STUB = Path(__file__).with_name("stub.py")


def command(*arguments):
    return ["--cores", "2", *arguments]


def snakemake(folder, *arguments, **environment):
    """Run Snakemake in a folder; `returncode`, and both outputs in `stdout`."""
    output = folder.parent / f"output-{uuid.uuid4().hex}.txt"
    process = launch.start(folder, command(*arguments), environment, output)
    process.join()
    return SimpleNamespace(returncode=process.exitcode, stdout=output.read_text())


def planned(output):
    """Job counts of a dry run, as Snakemake's own table lists them; none where there is none."""
    lines = iter(output.splitlines())
    counts = {}
    for line in lines:
        if line.split() == ["job", "count"]:
            next(lines)
            for row in lines:
                if not row.strip():
                    return counts
                name, count = row.split()
                counts[name] = int(count)
    return counts


@contextmanager
def adapter_evidence(folder):
    """Evidence of adapters, as far as planning looks at it; the path of its manifest."""
    path = folder / "results/tiny/adapters/MANIFEST.json"
    path.parent.mkdir()
    path.write_text("{}\n")
    yield path
    shutil.rmtree(path.parent)


@pytest.fixture(scope="session")
def clone(tmp_path_factory):
    """A fresh clone, with the evidence that is committed."""
    if not (REPOSITORY / ".git").exists():
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("clone") / "project"
    subprocess.run(["git", "clone", "--quiet", REPOSITORY, folder], check=True)
    return folder


@pytest.fixture(scope="session")
def stub_clone(clone, tmp_path_factory):
    """The clone with every script of a rule replaced by a stub that only writes its outputs."""
    folder = tmp_path_factory.mktemp("stub") / "project"
    shutil.copytree(clone, folder)
    text = "".join(path.read_text() for path in (folder / "rules").glob("*.smk"))
    for script in (folder / "workflow_scripts").glob("*.py"):
        if f" {script.name} " in text:
            shutil.copy(STUB, script)
    return folder
