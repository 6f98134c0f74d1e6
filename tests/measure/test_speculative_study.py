from diffdraft.measure.speculative import study as module

# isort: split
import shutil
import subprocess
import sys

import pandas as pd
import pytest
import yaml

from diffdraft import files
from diffdraft.decoding.policy import FixedBlock
from diffdraft.errors import UserError
from diffdraft.measure.speculative import arms, record
from diffdraft.rows import read_rows
from tests.measure import small_decoding as small

pytestmark = pytest.mark.usefixtures("quick")
TIMES = [
    *(f"{name}_seconds" for name in ("wall", "prefill", "draft", "verify", "commit", "overhead")),
    "load_before",
    "busy",
]
ENDINGS = {"": "generations", "_cycles": "draft_cycles", "_divergences": "divergences"}
PROMPTS = small.FEW


def measure(study, name, folder, plan=None, **changes):
    """Measure one run into `folder`; returns its tables by the ending of their names."""
    options = {
        "profile_file": study.profile,
        "plan_file": plan or study.plan(folder),
        "workload": study.workload,
        "target": study.target,
        "adapter": study.adapter,
        "out_dir": folder / "out",
        "work": folder / "work",
        "shuffled": study.shuffled,
        "corpus": study.corpus,
    }
    module.measure_planned(name=name, **{**options, **changes})
    return tables(folder / "out", name)


def tables(out, name):
    return {end: read_rows(out / f"{name}{end}.csv", schema) for end, schema in ENDINGS.items()}


@pytest.fixture(scope="module")
def ksweep(study, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        small.no_waiting(patch)
        small.few_prompts(patch)
        folder = tmp_path_factory.mktemp("ksweep")
        sweep = {"block_sizes": [1, 2, 4, 8]}
        return measure(study, "ksweep", folder, study.plan(folder, sample=sweep)), folder


def test_every_arm_of_every_prompt_and_repeat(ksweep):
    rows = ksweep[0][""]
    names = ["ar", "uno_k1", "uno_k2", "uno_k4", "uno_k8", "uno_k4_again"]
    assert set(rows["arm"]) == set(names)
    assert (rows.groupby(["prompt_id", "arm"])["repeat"].agg(sorted).map(tuple) == (0, 1)).all()
    assert rows["prompt_id"].nunique() == PROMPTS
    assert rows["order"].tolist() == list(range(PROMPTS * len(names) * 2))
    assert set(rows["tokens"]) == {4}
    assert set(rows["load_before"]) == {small.LOAD}
    assert set(rows["dtype"]) == {"float32"}


def test_float32_text_is_the_native_one_and_repeats_decode_the_same(ksweep):
    rows = ksweep[0][""]
    assert (rows["identical"] == 1).all()
    assert ksweep[0]["_divergences"].empty
    assert (rows.groupby(["prompt_id", "arm"])["trace_sha"].nunique() == 1).all()
    first = rows[rows["arm"] == "uno_k4"].set_index(["prompt_id", "repeat"])["trace_sha"]
    again = rows[rows["arm"] == "uno_k4_again"].set_index(["prompt_id", "repeat"])["trace_sha"]
    assert first.equals(again.loc[first.index])
    assert rows.groupby("prompt_id")["token_ids"].first().nunique() > 1


def test_cycles_add_up_to_their_generation(ksweep):
    rows, cycles = ksweep[0][""], ksweep[0]["_cycles"]
    drafted = rows[(rows["repeat"] == 0) & (rows["arm"] != "ar")].set_index(["prompt_id", "arm"])
    sums = cycles.groupby(["prompt_id", "arm"])[["committed", "accepted", "offered", "forwards"]]
    found = sums.sum().loc[drafted.index]
    assert (found["committed"] == drafted["tokens"]).all()
    assert (found["accepted"] == drafted["accepted"]).all()
    assert (found["forwards"] + 1 == drafted["forwards"]).all()
    assert (rows[rows["arm"] == "ar"]["forwards"] == 4).all()


def test_meta_says_what_was_measured(ksweep, study):
    folder = ksweep[1]
    meta = files.read_json(folder / "out" / "ksweep_meta.json")
    plan = yaml.safe_load((folder / "act4s.yaml").read_text())
    assert (meta["study"], meta["profile"], meta["run"]) == ("act4s", "tiny", "ksweep")
    assert meta["plan_sha256"] == meta["provenance"]["plan"]["sha256"]
    assert meta["adapter_sha256"] == files.sha256_file(study.adapter)
    assert meta["shuffled_adapter_sha256"] is None
    assert meta["adapter"]["arm"] == "primary"
    assert meta["seeds"] == plan["seeds"]
    assert meta["samples"]["block_sizes"] == [1, 2, 4, 8]
    assert meta["workload_sha256"] == files.sha256_file(study.workload)
    assert meta["rows"] == {
        name: files.sha256_file(folder / "out" / name)
        for name in ("ksweep.csv", "ksweep_cycles.csv", "ksweep_divergences.csv")
    }
    assert "blas_threads" in meta["provenance"]
    assert str(folder) not in str(meta)


def test_baseline_has_every_length_and_the_same_beginning(study, tmp_path):
    rows = measure(study, "baseline", tmp_path)[""]
    assert sorted(rows["max_tokens"].unique()) == [3, 5]
    assert set(rows["arm"]) == {"ar", "uno_k4"}
    text = rows[rows["arm"] == "ar"].groupby(["prompt_id", "max_tokens"])["token_ids"].first()
    for prompt in rows["prompt_id"].unique():
        assert text[prompt, 5].startswith(text[prompt, 3] + " ")


def test_contexts_of_a_passage_end_alike(study, tmp_path):
    rows = measure(study, "context", tmp_path)[""]
    assert set(rows["prompt_id"]) == {"passage_00", "passage_01"}
    assert set(rows["category"]) == {"context"}
    assert (rows.groupby("prompt_tokens").size() == 2 * 2 * 2).all()
    assert sorted(rows["prompt_tokens"].unique()) == [5, 20]
    meta = files.read_json(tmp_path / "out" / "context_meta.json")
    assert meta["corpus_sha256"] == files.sha256_file(study.corpus / "prompts.npy")


def test_controls_draft_with_what_they_are_named_after(study, tmp_path):
    rows = measure(study, "controls", tmp_path)[""]
    kinds = rows.groupby("arm")["kind"].first().to_dict()
    assert kinds == {
        "ar": "ar",
        "uno_k4": "uno",
        "refine2_k4": "refine",
        "ngram2_k4": "ngram",
        "untrained_k4": "untrained",
        "shuffled_k4": "shuffled",
        "random_k4": "random",
    }
    assert (rows["identical"] == 1).all()
    cycles, forwards = rows["cycles"], rows["forwards"]
    extra = rows["kind"].map({"refine": 3, "ngram": 1, "random": 1}).fillna(2)
    drafted = rows["kind"] != "ar"
    assert (forwards[drafted] == 1 + extra[drafted] * cycles[drafted]).all()
    meta = files.read_json(tmp_path / "out" / "controls_meta.json")
    assert meta["shuffled_adapter_sha256"] == files.sha256_file(study.shuffled)


def test_adaptive_arms_take_the_costs_of_the_sweep(study, tmp_path, ksweep):
    sweep = ksweep[1] / "out" / "ksweep.csv"
    rows = measure(study, "adaptive", tmp_path, ksweep=sweep)[""]
    assert set(rows["arm"]) >= {"adapt_entropy", "adapt_ev", "adapt_confidence", "uno_k8"}
    assert (rows["identical"] == 1).all()
    meta = files.read_json(tmp_path / "out" / "adaptive_meta.json")
    assert meta["ksweep_sha256"] == files.sha256_file(sweep)
    assert set(meta["cost_ms"]) == {"2", "4", "8"}


def test_costs_are_the_medians_of_a_cycle(ksweep):
    """Against a loop over the rows."""
    sweep = ksweep[1] / "out" / "ksweep.csv"
    per_cycle = [
        1000
        * (row.draft_seconds + row.verify_seconds + row.commit_seconds + row.overhead_seconds)
        / row.cycles
        for row in ksweep[0][""].itertuples()
        if row.arm == "uno_k4"
    ]
    costs = module.cost_table(sweep, [2, 4])
    assert costs[4] == pytest.approx(pd.Series(per_cycle).median(), rel=1e-12)
    with pytest.raises(UserError, match="arm: found no rows of uno_k16"):
        module.cost_table(sweep, [4, 16])


def test_confidence_writes_a_row_for_every_offered_slot(study, tmp_path):
    made = measure(study, "confidence", tmp_path)
    slots = read_rows(tmp_path / "out" / "confidence_slots.csv", "slots")
    cycles = made["_cycles"].set_index(["prompt_id", "cycle"])
    counts = slots.groupby(["prompt_id", "cycle"]).size()
    assert counts.equals(cycles["offered"].loc[counts.index].rename(None))
    accepted = slots.groupby(["prompt_id", "cycle"])["accepted"].sum()
    assert (accepted == cycles["accepted"].loc[accepted.index]).all()
    meta = files.read_json(tmp_path / "out" / "confidence_meta.json")
    assert "confidence_slots.csv" in meta["rows"]


def test_precision_runs_in_both_and_audits_what_differs(study, tmp_path, monkeypatch):
    """A wrong token is planted in every draft of block size 4."""
    real = arms.decode

    def planted(target, drafter, acceptance, policy, *rest, **options):
        trace = real(target, drafter, acceptance, policy, *rest, **options)
        if drafter is not None and policy == FixedBlock(4) and len(trace.tokens) > 2:
            trace.tokens[2] = (trace.tokens[2] + 1) % small.VOCABULARY
        return trace

    monkeypatch.setattr(arms, "decode", planted)
    made = measure(study, "precision", tmp_path)
    rows, found = made[""], made["_divergences"]
    assert rows.groupby("dtype").size().to_dict() == {"float32": 15, "bfloat16": 15}
    assert set(rows["repeat"]) == {0}
    assert set(rows.loc[rows["identical"] == 0, "arm"]) == {"uno_k4"}
    key = ["prompt_id", "arm", "dtype", "repeat"]
    left = rows[rows["identical"] == 0].sort_values(key, ignore_index=True)
    found = found.sort_values(key, ignore_index=True)
    assert len(left) == 10
    assert left[key].equals(found[key])
    assert set(found["position"]) == {2}
    ids = left["token_ids"].str.split().str[2].astype(int)
    assert (found["spec_token"] == ids).all()
    # Cycles do not name a precision, so they are of the first one.
    first = rows[(rows["dtype"] == "float32") & (rows["arm"] != "ar")]
    assert len(made["_cycles"]) == first["cycles"].sum()
    ties = read_rows(tmp_path / "out" / "ties.csv", "ties")
    assert ties.groupby("dtype").size().to_dict() == {"float32": 20, "bfloat16": 20}


def test_native_decoding_that_does_not_repeat_is_audited_too(study, tmp_path, monkeypatch):
    """Against its repeat 0, while drafts are compared with the native run of their own repeat."""
    real, calls = arms.decode, []

    def planted(target, drafter, *rest, **options):
        trace = real(target, drafter, *rest, **options)
        calls.append(drafter)
        if drafter is None and calls.count(None) == 3 + 2 * 3:  # after the warm-up, in repeat 1
            trace.tokens[1] = (trace.tokens[1] + 1) % small.VOCABULARY
        return trace

    monkeypatch.setattr(arms, "decode", planted)
    plan = study.plan(tmp_path, sample={"token_counts": [4]})
    made = measure(study, "baseline", tmp_path, plan)
    found, rows = made["_divergences"], made[""]
    assert sorted(found["arm"]) == ["ar", "uno_k4"]
    assert set(found["position"]) == {1}
    assert set(found["repeat"]) == {1}
    assert found["prompt_id"].nunique() == 1
    assert (rows["identical"] == 0).sum() == 2


def test_cost_times_every_width_in_both_precisions(study, tmp_path):
    module.measure_planned(
        study.profile,
        study.plan(tmp_path),
        study.workload,
        "cost",
        study.target,
        study.adapter,
        tmp_path / "out",
        tmp_path / "work",
    )
    rows = read_rows(tmp_path / "out" / "cost.csv", "passes")
    whole = rows[rows["part"] == "whole"]
    assert set(rows["dtype"]) == {"float32", "bfloat16"}
    counts = whole.groupby(["dtype", "kind", "width"]).size()
    assert (counts == 2).all()
    assert set(whole["width"]) == set(range(1, 6))
    meta = files.read_json(tmp_path / "out" / "cost_meta.json")
    assert meta["rows"] == {"cost.csv": files.sha256_file(tmp_path / "out" / "cost.csv")}


def test_an_interrupted_run_ends_as_an_uninterrupted_one(study, ksweep, tmp_path, monkeypatch):
    """Prompts done before are kept, the next ones are warmed up once and timed."""
    whole, folder = ksweep
    shutil.copytree(folder / "work", tmp_path / "work")
    for piece in sorted((tmp_path / "work").glob("0*.json"))[2:]:
        piece.unlink()
    real, timed = record.time_unit, []
    warm_up = record.warm_up
    monkeypatch.setattr(record, "warm_up", lambda *a: (timed.append("warm"), warm_up(*a)))

    def interrupted(unit, *rest):
        if unit.place == 3 and "cut" not in timed:
            timed.append("cut")
            raise KeyboardInterrupt
        timed.append(unit.place)
        return real(unit, *rest)

    monkeypatch.setattr(record, "time_unit", interrupted)
    plan = folder / "act4s.yaml"
    with pytest.raises(KeyboardInterrupt):
        measure(study, "ksweep", tmp_path, plan)
    assert not (tmp_path / "out").exists()
    again = measure(study, "ksweep", tmp_path, plan)
    assert timed == ["warm", 2, "cut", "warm", 3, 4]
    assert again[""].drop(columns=TIMES).equals(whole[""].drop(columns=TIMES))
    assert again["_cycles"].equals(whole["_cycles"])


def test_pieces_of_another_measurement_are_not_kept(study, ksweep, tmp_path):
    identity = files.read_json(ksweep[1] / "work" / "run.json")["identity"]
    for name in ("seeds", "samples", "adapter_sha256", "shuffled_adapter_sha256", "cost_ms"):
        assert name in identity
    assert identity["arms"][0] == "ar"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"sample": {"workload_sha256": "0" * 64}}, "workload_sha256: found "),
        ({"model": {"profile_sha256": "0" * 64}}, "profile_sha256: found "),
        ({"sample": {"prompts": 36}}, "27 prompts in 9 categories; expected 36 prompts in 9"),
        ({"sample": {"block_sizes": [2, 32]}}, "arms: found no uno_k32; expected every arm"),
        ({"seeds": {"bootstrap": 1}}, "seeds.draft_noise: found nothing"),
        ({"sample": {"tokens": 200}}, "to generate; expected a context of 96"),
        ({"sample": {"tokens": 78}}, "78 to generate and blocks of 16; expected what a context"),
    ],
)
def test_a_plan_that_does_not_fit(study, tmp_path, changes, line):
    changes["sample"] = {"block_sizes": [1, 16]} | changes.get("sample", {})
    plan = study.plan(tmp_path, **changes)
    with pytest.raises(UserError) as caught:
        measure(study, "ksweep", tmp_path, plan)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_plan_with_another_sample_for_the_profile(study, tmp_path):
    plan = yaml.safe_load(study.plan(tmp_path).read_text())
    for field in ("samples", "models"):
        plan[field]["other"] = plan[field].pop("tiny")
    (tmp_path / "act4s.yaml").write_text(yaml.safe_dump(plan))
    with pytest.raises(UserError, match=r"samples.tiny: found nothing; expected a sample of gen"):
        measure(study, "ksweep", tmp_path, tmp_path / "act4s.yaml")


@pytest.mark.parametrize(
    ("run", "missing"), [("controls", "shuffled"), ("context", "corpus"), ("adaptive", "ksweep")]
)
def test_what_a_run_needs_is_asked_for(study, tmp_path, run, missing):
    with pytest.raises(UserError, match=f"--{missing}: file: found nothing; expected what the"):
        measure(study, run, tmp_path, **{missing: None})


def test_an_adapter_of_another_target_is_refused(study, tmp_path):
    with pytest.raises(UserError, match=r"target_fingerprint: found .* It belongs to another"):
        measure(study, "ksweep", tmp_path, target=study.other_target)
    assert not (tmp_path / "out").exists()


def test_the_adapters_cannot_be_swapped(study, tmp_path):
    with pytest.raises(UserError, match=r"metadata.arm: found primary_shuffled; expected primary"):
        measure(study, "controls", tmp_path, adapter=study.shuffled)
    with pytest.raises(UserError, match=r"metadata.arm: found primary; expected primary_shuffled"):
        measure(study, "controls", tmp_path, shuffled=study.adapter)


def test_weights_that_moved_void_the_run(study, tmp_path, monkeypatch):
    def moved(run, benches, request, shards):
        target = next(iter(benches.values())).target
        layer = target.model.language_model.model.layers[0].mlp.gate_proj
        base = getattr(layer, "base", layer)
        base.weight = base.weight + 1
        return [{"generations": [], "draft_cycles": []}]

    monkeypatch.setattr(record, "time_run", moved)
    monkeypatch.setattr(record, "divergences", lambda *_: [])
    with pytest.raises(RuntimeError, match="target weights changed"):
        measure(study, "ksweep", tmp_path)
    assert not (tmp_path / "out").exists()


def test_the_command_tells_bad_input_in_one_line(study, tmp_path):
    options = {
        "profile": study.profile,
        "plan": study.plan(tmp_path),
        "run": "ksweep",
        "workload": study.workload,
        "target": study.target,
        "adapter": tmp_path / "none.safetensors",
        "out-dir": tmp_path / "out",
        "work": tmp_path / "work",
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    script = small.ROOT / "workflow_scripts" / "measure_act4s.py"
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith(f"error: {options['adapter']}: file: found")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
