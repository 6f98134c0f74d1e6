"""The script that trains adapters: what a file of it says, normal and as a control."""

import shutil

import pytest
import yaml

from diffdraft import files
from diffdraft.code_digest import code_digest
from diffdraft.config import load_profile
from diffdraft.layers.adapter_file import load_adapter, read_adapter
from diffdraft.prereg.adapter_evidence import adapter_manifest
from diffdraft.profile_digest import profile_digest
from diffdraft.targets.load import load_target
from diffdraft.training.loop import hash_config
from tests.kill.steps import SCRIPTS, run_here
from tests.measure import small_study as small


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    profile = small.write_profile(folder)
    values = yaml.safe_load(profile.read_text())
    for adapter in values["adapters"].values():
        adapter["optimiser"] |= {"steps": 3, "checkpoint_every": 2, "batch_size": 2}
        adapter["optimiser"] |= {"warmup_steps": 1}
    files.write_text(profile, yaml.safe_dump(values))
    corpus = small.write_corpus(folder)
    return folder, profile, corpus, small.write_target(folder, profile, corpus)


def train(study, name, *flags, tag="primary"):
    folder, profile, corpus, target = study
    out = folder / name
    options = {"profile": profile, "tag": tag, "corpus": corpus, "target": target}
    options |= {"out": out, "work": folder / "work"}  # one folder for both kinds, as it may be
    words = [word for option, value in options.items() for word in (f"--{option}", str(value))]
    run_here(["python", str(SCRIPTS / "train_adapter.py"), *words, *flags])
    return out / "adapter.safetensors"


@pytest.fixture(scope="module")
def normal(study):
    return train(study, "normal")


@pytest.fixture(scope="module")
def shuffled(study):
    return train(study, "shuffled", "--shuffle-targets")


def test_normal_adapter_keeps_its_names_and_its_configuration_hash(study, normal):
    _, profile, corpus, target = study
    _, metadata = read_adapter(normal)
    assert (metadata["study"], metadata["arm"]) == ("rprm", "primary")
    settings = load_profile(profile).adapters["primary"]
    assert metadata["config_hash"] == hash_config(
        adapter=settings.model_dump(),
        corpus=files.sha256_file(corpus / "train.npy"),
        target=load_target(target).fingerprint,
    )


def test_control_says_what_it_is_and_is_trained_alike(normal, shuffled):
    (tensors, metadata), (others, plain) = read_adapter(shuffled), read_adapter(normal)
    assert (metadata["study"], metadata["arm"]) == ("act4s", "primary_shuffled")
    assert metadata["config_hash"] != plain["config_hash"]
    for name in ("step", "seed", "block_size", "target_fingerprint", "spec"):
        assert metadata[name] == plain[name]
    assert set(tensors) == set(others)
    assert any((tensors[name] != others[name]).any() for name in tensors)
    record = files.read_json(shuffled.parent / "training.json")
    assert record["arm"] == "primary_shuffled"
    assert record["sha256"] == files.sha256_file(shuffled)


def test_record_says_what_it_was_trained_with(study, normal):
    record = files.read_json(normal.parent / "training.json")
    assert record["profile"] == load_profile(study[1]).name
    assert record["profile_sha256"] == profile_digest(load_profile(study[1]))
    assert record["code_digest"] == code_digest(SCRIPTS / "train_adapter.py")
    assert {"git_sha", "git_dirty", "packages", "cpu", "blas"} <= set(record["provenance"])
    assert record["provenance"]["plan"] is None
    assert str(study[0]) not in str(record)


def test_a_run_that_goes_on_keeps_the_first_start(study, normal):
    record = files.read_json(normal.parent / "training.json")
    path = study[0] / "work" / f"{record['config_hash'][:16]}.start.json"
    first = files.read_json(path)
    assert first["started_utc"] == record["provenance"]["started_utc"]
    files.write_json(path, first | {"started_utc": "2020-01-01T00:00:00Z", "git_sha": "0" * 40})
    provenance = files.read_json(train(study, "later").parent / "training.json")["provenance"]
    files.write_json(path, first)
    assert provenance["started_utc"] == "2020-01-01T00:00:00Z"
    assert provenance["start"]["git_sha"] == "0" * 40


def test_what_training_leaves_is_what_promotion_reads(study, normal, shuffled, tmp_path):
    shutil.copytree(normal.parent, tmp_path / "primary")
    replication = train(study, "replication", tag="replication")
    shutil.copytree(replication.parent, tmp_path / "replication")
    shutil.copytree(shuffled.parent, tmp_path / "primary_shuffled")
    manifest = adapter_manifest(tmp_path)
    assert list(manifest.adapters) == ["primary", "replication", "primary_shuffled"]
    assert manifest.adapters["primary"].steps == 3
    assert len(manifest.files) == 9


def test_control_fits_the_target_it_was_trained_on(study, shuffled):
    target = load_target(study[3])
    load_adapter(target.model, target.fingerprint, shuffled)


@pytest.mark.parametrize("flags", [(), ("--shuffle-targets",)])
def test_the_same_command_again_makes_the_same_file(study, normal, shuffled, flags):
    again = train(study, "again", *flags)
    assert again.read_bytes() == (shuffled if flags else normal).read_bytes()
