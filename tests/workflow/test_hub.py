"""The rules of a hub profile, unchanged, on a small model of the 4B's configuration."""

import json
import os
import runpy
import shutil

import mlx.core as mx
import numpy as np
import pytest

from diffdraft import files
from diffdraft.measure.speculative import by_hand
from diffdraft.rows import read_rows
from tests.hub import standin
from tests.measure import small_decoding
from tests.workflow.conftest import planned, snakemake

ADAPTER = "adapter.safetensors"


@pytest.fixture(scope="module")
def place(clone, tmp_path_factory):
    """A clone with the profile `standin`, and beside it model, text and drafter."""
    folder = tmp_path_factory.mktemp("hub") / "project"
    shutil.copytree(clone, folder)
    drafter = folder.parent / "drafter.safetensors"
    standin.write_profile(folder / "config/profiles/standin.yaml", drafter)
    standin.write_model(folder.parent / "model")
    standin.write_text(folder.parent / "text")
    return folder


def run(folder, *arguments, dry=(), **more):
    given = {"model": folder.parent / "model", "text": folder.parent / "text", **more}
    words = [f"{key}={value}" for key, value in given.items() if value]
    # No hub is there to answer, nor is a cache of it.
    quiet = {"HF_HOME": str(folder.parent / "nothing"), "HF_HUB_OFFLINE": "1"}
    words = ["--config", "profile=standin", *words, "--", *arguments]
    return snakemake(folder, *dry, *words, **quiet)


def test_target_corpus_and_drafters_by_the_rules(place):
    drafter = place.parent / "drafter.safetensors"
    tags = ("primary", "replication")
    names = [f"build/standin/adapters/{tag}/adapter.safetensors" for tag in tags]
    done = run(place, *names, adapter=drafter)
    assert done.returncode == 0, done.stdout
    target, corpus = place / "build/standin/target", place / "build/standin/corpus"
    shards = sorted(target.glob("*.safetensors"))
    assert len(shards) == standin.SHARDS and all(shard.is_symlink() for shard in shards)
    weights = json.loads((target / "weights.json").read_text())
    assert weights["revision"] is None and "plain folder" in weights["revision_known_by"]
    source = place.parent / "model" / shards[0].name
    assert weights["files"][shards[0].name]["sha256"] == files.sha256_file(source)
    assert len(np.load(corpus / "train.npy")) == 12 * standin.WINDOW
    fetched, metadata = mx.load(str(place / names[0]), return_metadata=True)
    assert len(fetched) == len(mx.load(str(drafter)))
    assert (place / "build/standin/adapters/primary/fetched.json").exists()
    trained, other = mx.load(str(place / names[1]), return_metadata=True)
    assert metadata["target_fingerprint"] == other["target_fingerprint"]
    assert any(mx.abs(tensor).max() > 0 for name, tensor in trained.items() if "lora_b" in name)


def test_what_lies_at_a_given_path_is_looked_at_again(place):
    drafter, text = place.parent / "drafter.safetensors", place.parent / "text/train.txt"
    wanted = [f"build/standin/adapters/primary/{ADAPTER}", "build/standin/corpus/corpus.json"]

    def again():
        return run(place, *wanted, adapter=drafter, dry=["--dry-run"]).stdout

    assert "Nothing to be done" in again()
    os.utime(drafter, (1, 1))
    assert set(planned(again())) == {"fetch_adapter", "total"}
    os.utime(text, (1, 1))
    assert {"fetch_adapter", "fetch_corpus"} <= set(planned(again()))


def test_the_drafter_measures_on_what_the_rules_made(place, monkeypatch):
    """The plans have no sample of it, so by hand: a run of Act IV-S on the same files."""
    small_decoding.no_waiting(monkeypatch)
    small_decoding.few_prompts(monkeypatch)
    out, built = place.parent / "by_hand", place / "build/standin"
    words = ["--target", built / "target", "--adapter", built / "adapters/primary" / ADAPTER]
    words += ["--workload", place / "config/workloads/general.yaml", "--out-dir", out]
    words += ["--tokens", 4, "--repeats", 1, "ksweep", "--block-sizes", "4"]
    parser = runpy.run_path(str(place / "workflow_scripts/spec_decode.py"))["make_parser"]()
    by_hand.run(parser.parse_args([str(word) for word in words]))
    rows = read_rows(out / "main_ksweep.csv", "generations")
    assert set(rows["arm"]) == {"ar", "uno_k4", "uno_k4_again"}
    assert len(rows) == 3 * small_decoding.FEW


def test_a_study_without_a_plan_ends_before_any_job(place):
    done = run(place, "act4s")
    errors = [line for line in done.stdout.splitlines() if line.startswith("error")]
    assert done.returncode == 3
    assert len(errors) == 1
    said = (
        "error: prereg/act4s.yaml: samples.standin: found nothing; expected how much to measure. "
    )
    assert errors[0].startswith(said) and "workflow_scripts/amend.py" in errors[0]


def test_a_dry_run_tells_what_is_missing(place):
    done = run(place, "act4s", dry=["--dry-run"], model=None, text=None)
    assert planned(done.stdout)["time_act4s"] == 5, done.stdout
    for words in (
        "model: MISSING: nobody/stand-in: snapshot: ",
        f"hf download nobody/stand-in --revision {standin.REVISION}",
        "text: MISSING: Salesforce/wikitext: snapshot: ",
        "plan of act4s: MISSING: prereg/act4s.yaml: samples.standin: ",
        "--config adapter=FILE-OR-URL",
        "disk: 0.0 GB for the weights; ",
        "memory: decoding in bfloat16: 8.9 GB ",
        "time: training primary: 0.0 h (3 steps of 1.4 s)",
    ):
        assert words in done.stdout, (words, done.stdout)


def test_the_studies_of_another_profile_are_told_its_prompts(place):
    done = run(place, "act4s", "paired_timing", dry=["--dry-run", "--printshellcmds"])
    commands = [line for line in done.stdout.splitlines() if "--adapter" in line]
    for script, times in {"measure_act4s.py": 8, "time_paired.py": 1}.items():
        told = [command for command in commands if f" {script} " in command]
        assert len(told) == times, done.stdout
        assert all(" --workload config/workloads/general.yaml " in command for command in told)


def test_without_model_and_hub_the_error_names_the_command(place):
    shutil.rmtree(place / "build", ignore_errors=True)
    done = run(place, "fetch_target", model=None)
    errors = [line for line in done.stdout.splitlines() if line.startswith("error")]
    assert done.returncode == 1
    assert len(errors) == 1 and errors[0].startswith("error: nobody/stand-in: hub: found ")
    assert f"hf download nobody/stand-in --revision {standin.REVISION}" in errors[0]
    assert not list((place / "build/standin/target").glob("*"))


def test_only_a_profile_of_the_hub_takes_a_model(place):
    done = snakemake(place, "--dry-run", "--config", "model=x", "--", "all")
    assert done.returncode == 3
    assert "error: config: model: found x; expected a profile with a target of the hub" in (
        done.stdout
    )
