"""Fixtures of the plan tests."""

import shutil

import pytest

from diffdraft.prereg.schema import Plan, parse_plan

from .adapters import Trained
from .examples import plan_text
from .repositories import Repository, honest, use_toy_metrics


@pytest.fixture(scope="session")
def rprm() -> Plan:
    """The committed plan of `rprm`."""
    return parse_plan(plan_text("rprm").encode(), "prereg/rprm.yaml")


@pytest.fixture(scope="session")
def honest_history(tmp_path_factory):
    """A repository whose audit passes. Copy it before changing it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_toy_metrics(monkeypatch)
        return honest(tmp_path_factory.mktemp("honest") / "repo")


@pytest.fixture(scope="session")
def measured_history(tmp_path_factory):
    """A repository with a frozen plan and a measurement that is not promoted yet."""
    repository = Repository(tmp_path_factory.mktemp("measured") / "repo")
    repository.start()
    repository.freeze()
    repository.measure()
    return repository


@pytest.fixture
def repository(honest_history, tmp_path, monkeypatch) -> Repository:
    """A copy of the honest history, with the short analysis in place."""
    use_toy_metrics(monkeypatch)
    shutil.copytree(honest_history.path, tmp_path / "repo")
    return Repository(tmp_path / "repo")


@pytest.fixture
def measured(measured_history, tmp_path, monkeypatch) -> Repository:
    """A copy of the measured history, with the short analysis in place."""
    use_toy_metrics(monkeypatch)
    shutil.copytree(measured_history.path, tmp_path / "repo")
    return Repository(tmp_path / "repo")


@pytest.fixture(scope="session")
def trained_history(tmp_path_factory):
    """A repository with trained adapters that are not promoted yet."""
    repository = Trained(tmp_path_factory.mktemp("trained") / "repo")
    repository.train()
    return repository


@pytest.fixture
def trained(trained_history, tmp_path) -> Trained:
    """A copy of it."""
    shutil.copytree(trained_history.path, tmp_path / "repo")
    return Trained(tmp_path / "repo")


@pytest.fixture
def kept(trained) -> Trained:
    """The same, its adapters promoted and committed."""
    trained.promote()
    trained.commit("adapters")
    return trained
