"""From windows to the position table, against the published layout computed the slow way."""

import shutil

import mlx.core as mx
import numpy as np
import pytest
import yaml

from diffdraft import files, rows
from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import load_adapter
from diffdraft.measure import extraction
from diffdraft.measure.stage0 import run_stage0
from diffdraft.measure.windows import planned_windows
from diffdraft.prereg.schema import load_plan
from diffdraft.profile_digest import profile_digest
from diffdraft.targets.load import load_target
from tests.measure import small_study as small


class Study:
    """Paths of a small study, and its steps."""

    def __init__(self, folder):
        self.folder = folder
        self.profile = small.write_profile(folder)
        self.plan = small.write_plan(folder)
        self.corpus = small.write_corpus(folder)
        self.target = small.write_target(folder, self.profile, self.corpus)
        self.adapters = [
            small.write_adapter(folder, self.profile, self.target, tag)
            for tag in ("primary", "replication")
        ]
        self.stage0 = folder / "stage0.json"

    def run_stage0(self):
        profile, plan = load_profile(self.profile), load_plan(self.plan)
        run_stage0(profile, plan, self.corpus, self.target, self.adapters, self.stage0)

    def extract(self, tag="primary", out="out"):
        extraction.extract(
            self.profile,
            self.plan,
            tag,
            self.corpus,
            self.target,
            self.folder / tag / "adapter.safetensors",
            self.stage0,
            self.folder / out / "positions.csv",
            self.folder / out / "meta.json",
            self.folder / "work",
        )
        return self.folder / out / "positions.csv"


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    study = Study(tmp_path_factory.mktemp("study"))
    study.run_stage0()
    return study


@pytest.fixture
def copy(study, tmp_path):
    shutil.copytree(study.folder, tmp_path / "study")
    again = Study.__new__(Study)
    again.folder = tmp_path / "study"
    for name in ("profile", "plan", "corpus", "target", "stage0"):
        setattr(again, name, again.folder / getattr(study, name).relative_to(study.folder))
    again.adapters = [again.folder / path.name for path in study.adapters]
    return again


def test_table_equals_the_slow_way(study):
    """mlx_lm's own forward with its time loop, NumPy statistics in float64, row by row."""
    frame = rows.read_rows(study.extract(), "positions")
    assert len(frame) == 2 * small.BATCHES * small.BATCH_SIZE * (small.BLOCK - 1)
    target = load_target(study.target)
    adapter = load_adapter(
        target.model, target.fingerprint, study.folder / "primary" / "adapter.safetensors"
    )
    windows = planned_windows(load_plan(study.plan), "tiny", study.corpus, target.noise_high)
    seed = small.WINDOW - small.BLOCK - 1

    def softmax(logits):
        e = np.exp(np.array(logits, dtype=np.float64))
        return e / e.sum(-1, keepdims=True)

    for index in range(small.BATCHES):
        batch = windows.batch(index)
        for stratum, noise in batch.noise.items():
            ids = mx.concatenate([batch.windows_BW[:, : seed + 1], noise.ids], axis=1)
            full = softmax(target.model(batch.windows_BW[:, :-1]))[:, seed + 1 :]
            corrupt = softmax(target.model(ids))[:, seed + 1 :]
            gate = mx.broadcast_to(mx.arange(ids.shape[1]) > seed, ids.shape)
            with adapter.rows(gate.astype(mx.float32)):
                student = softmax(target.model(ids))[:, seed + 1 :]
            for b in range(small.BATCH_SIZE):
                chosen = frame[
                    (frame.example_id == f"w{index:04d}r{b}") & (frame.stratum == stratum)
                ]
                p, q, c = student[b], full[b], corrupt[b]
                assert chosen.proposed_token.tolist() == p.argmax(-1).tolist()
                assert chosen.verifier_token.tolist() == q.argmax(-1).tolist()
                clean = np.array(batch.windows_BW)[b, seed + 2 :]
                assert chosen.clean_token.tolist() == clean.tolist()
                entropy = -(p * np.log(p)).sum(-1)
                np.testing.assert_allclose(chosen.entropy, entropy, atol=1e-4)
                np.testing.assert_allclose(
                    chosen.normalized_entropy, entropy / np.log(small.VOCABULARY), atol=1e-4
                )
                gap = np.abs(q - c).sum(-1)
                np.testing.assert_allclose(chosen.existing_draftability_score, gap, atol=1e-4)
                top = np.sort(p, axis=-1)
                np.testing.assert_allclose(chosen.top1_probability, top[:, -1], atol=1e-4)
                margin = top[:, -1] - top[:, -2]
                np.testing.assert_allclose(chosen.top1_top2_margin, margin, atol=1e-4)
                h_full, h_corrupt = -(q * np.log(q)).sum(-1), -(c * np.log(c)).sum(-1)
                np.testing.assert_allclose(chosen.teacher_entropy, h_full, atol=1e-4)
                np.testing.assert_allclose(chosen.corrupt_entropy, h_corrupt, atol=1e-4)


def test_both_adapters_see_the_same_windows_and_noise(study):
    metas, frames = [], []
    for tag in ("primary", "replication"):
        path = study.extract(tag, out=tag + "_out")
        frames.append(rows.read_rows(path, "positions"))
        metas.append(files.read_json(path.with_name("meta.json")))
    assert metas[0]["student_ids_sha256"] == metas[1]["student_ids_sha256"]
    shared = ["clean_token", "verifier_token", "teacher_entropy", "existing_draftability_score"]
    for column in shared:
        assert frames[0][column].equals(frames[1][column])
    assert not frames[0]["entropy"].equals(frames[1]["entropy"])


def test_uncorrupted_rows_have_exactly_no_gap(study):
    frame = rows.read_rows(study.extract(), "positions")
    clean = frame[(frame.corruption_level == 0) & (frame.n_corrupted_predecessors == 0)]
    assert len(clean) > 0
    assert (clean.existing_draftability_score == 0).all()
    assert (clean.corrupt_entropy == clean.teacher_entropy).all()


def test_killed_extraction_goes_on_and_ends_the_same(copy, monkeypatch):
    monkeypatch.setattr(extraction, "BATCHES_PER_PIECE", 2)
    shutil.rmtree(copy.folder / "work", ignore_errors=True)
    whole = copy.extract(out="whole").read_bytes()
    shutil.rmtree(copy.folder / "work")
    made = []

    def dying(adapter, batch, index, seed_row, inner=extraction.batch_rows):
        made.append(index)
        if index == 3 and made.count(3) == 1:
            raise KeyboardInterrupt
        return inner(adapter, batch, index, seed_row)

    monkeypatch.setattr(extraction, "batch_rows", dying)
    with pytest.raises(KeyboardInterrupt):
        copy.extract(out="again")
    assert not (copy.folder / "again" / "positions.csv").exists()
    assert copy.extract(out="again").read_bytes() == whole
    assert made.count(0) == made.count(1) == 1  # the finished piece was kept


def test_pool_too_small_for_the_plan(copy):
    small.write_corpus(copy.folder, n_windows=9)
    with pytest.raises(UserError, match="9 windows of 24 tokens; expected 10, each once"):
        copy.extract()


def test_extraction_refuses_what_stage0_has_not_passed(copy):
    record = files.read_json(copy.stage0)
    record["subject"]["primary_sha256"] = "0" * 64
    files.write_json(copy.stage0, record)
    with pytest.raises(UserError, match=r"subject\.primary_sha256"):
        copy.extract()


@pytest.mark.parametrize("field", extraction.STAGE0_SUBJECT)
def test_extraction_refuses_what_stage0_passed_for_something_else(tmp_path, field):
    identity = dict.fromkeys((*extraction.STAGE0_SUBJECT, "adapter_sha256"), "a" * 64)
    subject = dict.fromkeys((*extraction.STAGE0_SUBJECT, "primary_sha256"), "a" * 64)
    files.write_json(tmp_path / "stage0.json", {"subject": subject})
    extraction.check_stage0(tmp_path / "stage0.json", {**identity, "tag": "primary"})
    for wrong in ({**subject, field: "b" * 64}, {k: v for k, v in subject.items() if k != field}):
        files.write_json(tmp_path / "stage0.json", {"subject": wrong})
        with pytest.raises(UserError, match=rf"subject\.{field}"):
            extraction.check_stage0(tmp_path / "stage0.json", {**identity, "tag": "primary"})


def test_meta_binds_rows_adapter_and_profile(study):
    path = study.extract(out="bound")
    meta = files.read_json(path.with_name("meta.json"))
    assert meta["rows"] == {"positions.csv": files.sha256_file(path)}
    assert meta["adapter"]["arm"] == meta["tag"] == "primary"
    assert meta["profile_sha256"] == profile_digest(load_profile(study.profile))
    assert meta["provenance"]["start"]["plan_sha256"] == meta["plan_sha256"]


def edit_yaml(path, edit):
    value = yaml.safe_load(path.read_text())
    edit(value)
    files.write_text(path, yaml.safe_dump(value, sort_keys=False))


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (lambda adapter: adapter.update(rank=3), r"metadata\.spec\.rank"),
        (lambda adapter: adapter.update(alpha=5.0), r"metadata\.spec\.alpha"),
        (lambda adapter: adapter.update(placement=["mlp"]), r"metadata\.spec\.placement"),
        (lambda adapter: adapter["optimiser"].update(steps=7), r"metadata\.step"),
        (lambda adapter: adapter["optimiser"].update(seed=7), r"metadata\.seed"),
        (lambda adapter: adapter.update(block_size=6), r"metadata\.block_size"),
    ],
)
def test_an_adapter_other_than_the_profiles_is_refused(copy, edit, field):
    edit_yaml(copy.profile, lambda value: edit(value["adapters"]["primary"]))
    with pytest.raises(UserError, match=rf"adapter\.safetensors: {field}"):
        copy.extract()


def test_an_adapter_of_another_arm_or_block_size_is_refused(copy):
    edit_yaml(copy.plan, lambda plan: plan["arms"][0].update(trained_block_size=8))
    with pytest.raises(UserError, match=r"metadata\.block_size: found 4; expected 8"):
        copy.extract()
    shutil.copy(copy.folder / "replication" / "adapter.safetensors", copy.folder / "primary")
    with pytest.raises(UserError, match=r"metadata\.arm: found replication; expected primary"):
        copy.extract()


def test_a_profile_other_than_planned_is_refused(copy):
    found = profile_digest(load_profile(copy.profile))
    edit_yaml(copy.plan, lambda plan: plan["models"]["tiny"].update(profile_sha256="0" * 64))
    with pytest.raises(UserError, match=f"profile_sha256: found {found}; .* amendment"):
        copy.extract()


def test_a_target_other_than_planned_is_refused(copy):
    edit_yaml(copy.plan, lambda plan: plan["models"]["tiny"].update(fingerprint="f" * 64))
    with pytest.raises(UserError, match=r"fingerprint: found .* as planned"):
        copy.extract()


def test_stage0_records_every_check(study):
    record = files.read_json(study.stage0)
    assert all(check["holds"] for check in record["checks"])
    found = {check["id"].split(".")[0] for check in record["checks"]}
    assert found == {
        "target",
        "adapter",
        "axis",
        "drafting",
        "predictor",
        "acceptance",
        "data",
    }


def document_in_two_splits(study):
    record = files.read_json(study.corpus / "corpus.json")
    record["splits"]["dev"]["documents"] = record["splits"]["train"]["documents"]
    files.write_json(study.corpus / "corpus.json", record)
    return r"data\.splits"


def other_fingerprint(study):
    files.write_json(study.target / "training.json", {"fingerprint": "0" * 64})
    return "stage 0: target"


def same_adapter_twice(study):
    shutil.copy(
        study.folder / "primary" / "adapter.safetensors",
        study.folder / "replication" / "adapter.safetensors",
    )
    return r"adapter\.replication"


def doubled_window(study):
    stream = np.load(study.corpus / "extract.npy")
    stream[len(stream) // 2 :] = stream[: len(stream) // 2]  # 6 different windows, 10 planned
    np.save(study.corpus / "extract.npy", stream)
    return r"data\.windows"


@pytest.mark.parametrize(
    "spoil", [document_in_two_splits, other_fingerprint, same_adapter_twice, doubled_window]
)
def test_stage0_refuses(copy, spoil):
    copy.stage0.unlink()
    pattern = spoil(copy)
    with pytest.raises(UserError, match=pattern):
        copy.run_stage0()
    assert not copy.stage0.exists()


def test_every_window_begins_as_a_text_does(copy):
    """The later part of a text too, where the corpus says what texts begin with."""
    plan = load_plan(copy.plan)
    bare = planned_windows(plan, "tiny", copy.corpus, 5)
    files.write_json(copy.corpus / "corpus.json", {"start_token": 7})
    begun = planned_windows(plan, "tiny", copy.corpus, 5)
    for index in bare.indices():
        plain, windows = (np.array(made.batch(index).windows_BW) for made in (bare, begun))
        assert (windows[:, 0] == 7).all() and (windows[:, 1:] == plain[:, 1:]).all()
    assert bare.digest() != begun.digest()
