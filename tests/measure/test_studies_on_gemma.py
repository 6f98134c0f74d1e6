"""Act IV-S and rprm on a target of Gemma 3's architecture; texts slide through its windows."""

from diffdraft.measure.speculative import study as module

# isort: split
import shutil

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from diffdraft import files
from diffdraft.config import load_profile
from diffdraft.measure import extraction
from diffdraft.measure.stage0 import run_stage0
from diffdraft.prereg.schema import load_plan
from diffdraft.rows import read_rows
from diffdraft.studies.act4s.design import RUNS
from diffdraft.targets.load import load_target
from tests.decoding import plain_models
from tests.measure import small_decoding, small_study


def make(seed, vocabulary):
    shape = {**plain_models.SHAPE, "vocab_size": vocabulary, "max_position_embeddings": 160}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_models, "SHAPE", shape)
        return plain_models.make_gemma3(seed, tied=True)


def write_gemma(folder, vocabulary, seed=1):
    """A model folder; the tokenizer is there, or comes later."""
    model = make(seed, vocabulary).model
    config = {name: value for name, value in vars(model.args).items() if value is not None}
    files.write_json(folder / "config.json", config)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})


@pytest.fixture(scope="module")
def decoded(tmp_path_factory):
    """Every run of Act IV-S, a few prompts each."""
    folder = tmp_path_factory.mktemp("gemma")

    def write_target(place, tokenizer, seed):
        place.mkdir()
        files.write_text(place / "tokenizer.json", tokenizer.to_str())
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
        files.write_json(place / "tokenizer_config.json", config)
        write_gemma(place, small_decoding.VOCABULARY, seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_decoding, "write_target", write_target)
        patch.setattr(
            small_decoding.parts,
            "make_tiny_random",
            lambda seed, **_: make(seed, small_decoding.VOCABULARY),
        )
        small_decoding.no_waiting(patch)
        small_decoding.few_prompts(patch)
        study = small_decoding.Small(folder)
        sizes = {"tokens": 10, "repeats": 1, "token_counts": [3], "block_sizes": [1, 2, 4, 8]}
        plan = study.plan(folder, sample=sizes, context={"tokens": 6})
        for run in ("ksweep", *(run for run in RUNS if run != "ksweep"), "cost"):
            given = {"shuffled": study.shuffled, "corpus": study.corpus}
            if run == "adaptive":
                given["ksweep"] = folder / "out" / "ksweep.csv"
            module.measure_planned(
                name=run,
                profile_file=study.profile,
                plan_file=plan,
                workload=study.workload,
                target=study.target,
                adapter=study.adapter,
                out_dir=folder / "out",
                work=folder / "work" / run,
                **given,
            )
    return folder / "out"


@pytest.mark.parametrize("run", RUNS)
def test_every_run_of_act4s_and_its_text_is_the_native_one(decoded, run):
    rows = read_rows(decoded / f"{run}.csv", "generations")
    exact = rows[rows["dtype"] == "float32"]
    assert len(exact) and (exact["identical"] == 1).all()


def test_drafts_are_not_all_refused_or_accepted(decoded):
    rows = read_rows(decoded / "controls.csv", "generations")
    assert 0 < rows["accepted"].sum() < rows["offered"].sum()


def test_cost_of_every_width(decoded):
    assert set(read_rows(decoded / "cost.csv", "passes")["width"]) == set(range(1, 6))


def test_rprm_stage_0_and_positions(tmp_path):
    profile, plan = small_study.write_profile(tmp_path), small_study.write_plan(tmp_path)
    corpus = small_study.write_corpus(tmp_path)
    target = tmp_path / "target"
    target.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(corpus / name, target)
    write_gemma(target, small_study.VOCABULARY)
    files.write_json(target / "training.json", {"fingerprint": load_target(target).fingerprint})
    adapters = [
        small_study.write_adapter(tmp_path, profile, target, tag)
        for tag in ("primary", "replication")
    ]
    stage0 = tmp_path / "stage0.json"
    run_stage0(load_profile(profile), load_plan(plan), corpus, target, adapters, stage0)
    failed = [check for check in files.read_json(stage0)["checks"] if not check["holds"]]
    assert not failed
    places = [tmp_path / name for name in ("positions.csv", "meta.json", "work")]
    adapter = adapters[0] / "adapter.safetensors"
    extraction.extract(profile, plan, "primary", corpus, target, adapter, stage0, *places)
    rows = read_rows(places[0], "positions")
    assert len(rows) and rows["accepted"].isin([0, 1]).all()
