from diffdraft.measure import paired_timing as module

# isort: split
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import mlx.core as mx
import pytest
import yaml
from mlx.utils import tree_flatten

from diffdraft import files
from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import save_adapter
from diffdraft.measure.workloads import load_workload
from diffdraft.rows import read_rows
from diffdraft.targets.architecture import model_config
from diffdraft.targets.corpus import train_tokenizer
from diffdraft.targets.random import TINY
from diffdraft.training.adapter import adapter_spec
from tests.decoding import parts

ROOT = Path(__file__).resolve().parents[2]
PROFILE = ROOT / "config" / "profiles" / "tiny.yaml"
WORKLOAD = ROOT / "config" / "workloads" / "tiny.yaml"
SMALL = {
    "vocab_size": 600,
    "num_hidden_layers": 2,
    "full_attention_interval": 2,
    "tie_word_embeddings": False,
}
TIMES = [
    "wall_seconds",
    "prefill_seconds",
    "draft_seconds",
    "verify_seconds",
    "commit_seconds",
    "load_before",
    "busy",
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model folder of random weights and an adapter file with random B."""
    folder = tmp_path_factory.mktemp("models")
    text = {**TINY, **SMALL}
    target = parts.make_tiny_random(1, **text)
    files.write_json(folder / "config.json", model_config(text))
    weights = dict(tree_flatten(target.model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    workload = load_workload(WORKLOAD)
    tokenizer = train_tokenizer([prompt.text for prompt in workload.prompts], 600)
    files.write_text(folder / "tokenizer.json", tokenizer.to_str())
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    files.write_json(folder / "tokenizer_config.json", config)
    settings = load_profile(PROFILE).adapters["primary"]
    adapter = parts.randomise(parts.Adapter.attach(target.model, adapter_spec(settings)))
    metadata = {
        "study": "rprm",
        "arm": "primary",
        "step": settings.optimiser.steps,
        "seed": settings.optimiser.seed,
        "block_size": settings.block_size,
        "config_hash": "c0",
        "target_fingerprint": target.fingerprint,
    }
    save_adapter(folder / "adapter.safetensors", adapter, metadata)
    return folder


def write_plan(folder, **changes):
    plan = yaml.safe_load((ROOT / "prereg" / "paired_timing.yaml").read_text())
    plan["models"]["tiny"].pop("profile_sha256", None)
    plan["models"]["tiny"] |= changes.pop("model", {})
    plan["samples"]["tiny"] |= {"tokens": 4, "abba_blocks": 1} | changes.pop("sample", {})
    path = folder / "paired_timing.yaml"
    path.write_text(yaml.safe_dump(plan | changes))
    return path


def measure(models, plan, out, work):
    names = ("timing.csv", "cycles.csv", "timing_meta.json")
    adapter = models / "adapter.safetensors"
    module.measure(PROFILE, plan, WORKLOAD, models, adapter, *(out / name for name in names), work)
    timing, cycles = (read_rows(out / name, name[:6]) for name in names[:2])
    return timing, cycles, files.read_json(out / names[2])


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(module, "Protocol", partial(module.Protocol, load=lambda: 0.25))


@pytest.fixture(scope="module")
def whole(models, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Protocol", partial(module.Protocol, load=lambda: 0.25))
        folder = tmp_path_factory.mktemp("whole")
        return *measure(models, write_plan(folder), folder, folder / "work"), folder / "work"


def test_rows_of_every_planned_run(whole):
    timing, cycles, *_ = whole
    assert len(timing) == 27 * 4
    assert timing["prompt_id"].nunique() == 27
    assert timing["order"].tolist() == list(range(108))
    assert set(timing["tokens"]) == {4}
    assert set(timing["load_before"]) == {0.25}
    drafted = timing[timing["arm"] == "uno_k4"]
    assert (drafted["forwards"] == 1 + 2 * drafted["cycles"]).all()
    assert (timing[timing["arm"] == "ar"]["forwards"] == 4).all()
    keys = ["prompt_id", "repeat", "arm"]
    sums = cycles.groupby(keys)[["accepted", "offered", "committed"]].sum()
    expected = drafted.set_index(keys)[["accepted", "offered", "tokens"]]
    assert (sums.to_numpy() == expected.loc[sums.index].to_numpy()).all()


def test_all_arms_wrote_the_same_text(whole):
    assert (whole[0].groupby("prompt_id")["token_ids_sha"].nunique() == 1).all()
    assert whole[0]["token_ids_sha"].nunique() > 20


def test_meta_says_what_was_measured(whole, models):
    meta = whole[2]
    assert meta["arms"] == ["ar", "uno_k4"]
    assert meta["adapter_sha256"] == files.sha256_file(models / "adapter.safetensors")
    assert meta["samples"]["tokens"] == 4
    assert meta["seeds"]["draft_noise"] == 20260905
    assert meta["plan_sha256"] == meta["provenance"]["plan"]["sha256"]
    assert meta["adapter"]["arm"] == "primary"
    assert set(meta["rows"]) == {"timing.csv", "cycles.csv"}
    assert meta["provenance"]["start"]["plan_sha256"] == meta["plan_sha256"]
    assert str(models) not in str(meta)


def test_seeds_and_samples_are_of_the_identity(whole):
    identity = files.read_json(whole[3] / "run.json")["identity"]
    assert identity["seeds"] == whole[2]["seeds"]
    assert identity["samples"] == whole[2]["samples"]


def test_an_interrupted_run_ends_as_an_uninterrupted_one(whole, models, tmp_path, monkeypatch):
    """The 24 prompts done before are kept; the run is cut again at the 26th."""
    timing, cycles, _, work = whole
    shutil.copytree(work, tmp_path / "work")
    for piece in sorted((tmp_path / "work").glob("0*.json"))[24:]:
        piece.unlink()
    plan, real, timed = write_plan(tmp_path), module.time_prompt, []

    def interrupted(prompt, index, *rest):
        if index == 25 and "cut" not in timed:
            timed.append("cut")
            raise KeyboardInterrupt
        timed.append(index)
        return real(prompt, index, *rest)

    monkeypatch.setattr(module, "time_prompt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(models, plan, tmp_path / "out", tmp_path / "work")
    assert not (tmp_path / "out").exists()
    again, cycles_again, _ = measure(models, plan, tmp_path / "out", tmp_path / "work")
    assert timed == [24, "cut", 25, 26]
    assert again.drop(columns=TIMES).equals(timing.drop(columns=TIMES))
    assert cycles_again.equals(cycles)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"sample": {"workload_sha256": "0" * 64}}, "workload_sha256: found "),
        ({"model": {"profile_sha256": "0" * 64}}, "profile_sha256: found "),
        ({"sample": {"prompts": 36}}, "27 prompts in 9 categories; expected 36 prompts in 9"),
        ({"sample": {"block_size": 8}}, "arms: found uno_k4; expected arms out of ar, uno_k8"),
        ({"seeds": {"bootstrap": 1}}, "seeds.draft_noise: found nothing"),
        ({"sample": {"tokens": 600}}, "to generate; expected a context of 512"),
    ],
)
def test_a_plan_that_does_not_fit(models, tmp_path, changes, line):
    with pytest.raises(UserError) as caught:
        measure(models, write_plan(tmp_path, **changes), tmp_path / "out", tmp_path / "work")
    assert line in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_plan_without_the_profile(models, tmp_path):
    plan = yaml.safe_load(write_plan(tmp_path).read_text())
    for field in ("samples", "models"):
        plan[field]["other"] = plan[field].pop("tiny")
    (tmp_path / "paired_timing.yaml").write_text(yaml.safe_dump(plan))
    with pytest.raises(UserError, match=r"samples.tiny: found nothing; expected a sample of prom"):
        measure(models, tmp_path / "paired_timing.yaml", tmp_path / "out", tmp_path / "work")


def test_the_command_tells_bad_input_in_one_line(models, tmp_path):
    options = {
        "profile": PROFILE,
        "plan": write_plan(tmp_path),
        "workload": WORKLOAD,
        "target": models,
        "adapter": tmp_path / "none.safetensors",
        "timing": tmp_path / "out" / "timing.csv",
        "cycles": tmp_path / "out" / "cycles.csv",
        "meta": tmp_path / "out" / "meta.json",
        "work": tmp_path / "work",
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    script = ROOT / "workflow_scripts" / "time_paired.py"
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith(f"error: {options['adapter']}: file: found")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_target_of_another_revision_is_refused_before_anything_is_timed(models, tmp_path):
    plan = write_plan(tmp_path, model={"revision": "a" * 40})
    with pytest.raises(UserError, match=r"revision: found None; expected a{40}, as planned"):
        measure(models, plan, tmp_path / "out", tmp_path / "work")
    assert not (tmp_path / "work").exists()
