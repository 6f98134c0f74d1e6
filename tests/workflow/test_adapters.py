"""Trained here or taken from evidence: which of the two runs, and what a change of mind reruns."""

import shutil

import pytest

from tests.workflow.conftest import adapter_evidence, planned, snakemake

TAGS = ("primary", "replication", "primary_shuffled")
NAMES = [f"build/tiny/adapters/{tag}/adapter.safetensors" for tag in TAGS]


@pytest.fixture(scope="module")
def project(stub_clone, tmp_path_factory):
    """A clone with stubs and evidence of adapters; its target is there already."""
    folder = tmp_path_factory.mktemp("adapters") / "project"
    shutil.copytree(stub_clone, folder)
    with adapter_evidence(folder):
        done = snakemake(folder, "train_target")
        assert done.returncode == 0, done.stdout
        yield folder


def jobs(project, *words):
    """What a dry run plans for all adapters."""
    found = planned(snakemake(project, "--dry-run", *words, "--", *NAMES).stdout)
    found.pop("total", None)
    return found


def source(project):
    """Which script made the adapters that are there."""
    return {(project / name).read_text() for name in NAMES}


def test_evidence_is_taken_unless_training_is_asked_for(project):
    taken = {"take_adapter": 3}
    trained = {"train_adapter": 2, "train_shuffled_adapter": 1}
    assert jobs(project) == jobs(project, "--config", "adapter=committed") == taken
    assert jobs(project, "--config", "adapter=train") == trained

    for key, expected, other in (
        ("train", "train_adapter", taken),
        ("committed", "take_adapter", trained),
    ):
        words = ("--config", f"adapter={key}")
        done = snakemake(project, *words, "--", *NAMES)
        assert done.returncode == 0, done.stdout
        assert source(project) == {expected}
        assert jobs(project, *words) == {}
        switched = "committed" if key == "train" else "train"
        assert jobs(project, "--config", f"adapter={switched}") == other


def test_another_manifest_is_taken_anew_and_its_file_time_is_nothing(project):
    manifest = project / "results/tiny/adapters/MANIFEST.json"
    assert snakemake(project, "--", *NAMES).returncode == 0
    manifest.touch()
    assert jobs(project) == {}
    manifest.write_text("[]\n")
    assert jobs(project) == {"take_adapter": 3}


def test_decoding_needs_no_corpus_for_adapters_that_are_taken(project):
    shutil.rmtree(project / "build/tiny/adapters", ignore_errors=True)
    assert "build_corpus" not in jobs(project)


def test_a_file_of_that_name_is_given_as_a_path(project):
    done = snakemake(project, "--dry-run", "--config", "adapter=./train", "--", *NAMES)
    expected = "train or committed, or a profile with a target of the hub"
    assert f"error: config: adapter: found ./train; expected {expected}" in done.stdout
