import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tokenizers import Tokenizer

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.hub import rows
from diffdraft.hub import text as module
from diffdraft.hub.snapshot import cached_snapshot
from tests.hub import standin


@pytest.fixture
def text(source, tmp_path):
    return shutil.copytree(source / "text", tmp_path / "text")


@pytest.fixture
def build(source, profile, tmp_path):
    """Build the corpus from a text, and return its folder."""

    def run(text, target=source / "model", vocab_size=512):
        module.build_text(profile.corpus, vocab_size, text, target, tmp_path / "out")
        return tmp_path / "out"

    return run


def refused(build, *arguments, **options):
    with pytest.raises(UserError) as caught:
        build(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_long_rows_in_order_each_with_an_end(source, build, profile):
    out = build(source / "text")
    tokenizer = Tokenizer.from_file(str(source / "model/tokenizer.json"))
    texts = (source / "text/train.txt").read_text().split("\n")
    ids = [i for row in texts if len(row) >= 200 for i in [*tokenizer.encode(row).ids, 0]]
    n = profile.corpus.splits["train"].windows * standin.WINDOW
    assert np.load(out / "train.npy").tolist() == ids[:n]
    assert np.load(out / "train.npy").dtype == np.int32


def test_record_tells_settings_and_hashes(source, build, profile):
    record = json.loads((build(source / "text") / "corpus.json").read_text())
    digest = files.sha256_file(source / "text/validation.txt")
    assert record["files"]["validation.txt"]["sha256"] == digest
    assert record["revision"] is None
    assert record["settings"] == profile.corpus.model_dump()
    assert set(record["splits"]) == {"train", "dev", "extract", "prompts"}


def test_snapshot_of_the_cache_has_a_revision(source, build, profile, monkeypatch):
    corpus = profile.corpus
    place = cached_snapshot(corpus.dataset, corpus.revision, "dataset")
    shutil.copytree(source / "text", place / corpus.configuration)
    monkeypatch.setattr(module, "download", lambda *options, **more: place)
    record = json.loads((build(None) / "corpus.json").read_text())
    assert record["revision"] == corpus.revision


def test_another_revision_is_refused(source, build, profile):
    place = cached_snapshot(profile.corpus.dataset, "f" * 40, "dataset")
    shutil.copytree(source / "text", place)
    assert f"revision: found {'f' * 40}; expected {profile.corpus.revision}" in refused(
        build, place
    )


def test_hub_that_does_not_answer_is_told_with_the_command(build, profile):
    said = refused(build, None)
    assert said.startswith("Salesforce/wikitext: hub: found ")
    assert f"--revision {profile.corpus.revision} --repo-type dataset" in said


def test_part_that_is_not_there(text, build):
    (text / "validation.txt").unlink()
    assert "validation: found no file of it; expected validation.parquet, its numbered" in refused(
        build, text
    )


def test_part_too_short_for_a_window(text, build):
    files.write_text(text / "validation.txt", "short")
    assert "splits.dev: found fewer tokens in validation than a window of 24" in refused(
        build, text
    )


def test_more_ids_than_rows_of_the_embedding(source, build):
    assert "ids: found " in refused(build, source / "text", vocab_size=100)


def test_no_end_of_text(model, source, build):
    files.write_json(model / "tokenizer_config.json", {"eos_token": "<none>"})
    assert "eos_token: found <none>; expected a token" in refused(
        build, source / "text", target=model
    )


@pytest.mark.parametrize("content", ["[1]", '{"eos_token": {}}', '{"eos_token": 3}', "{}"])
def test_tokenizer_settings_of_another_shape(model, source, build, content):
    (model / "tokenizer_config.json").write_text(content)
    said = refused(build, source / "text", target=model)
    assert "tokenizer_config.json: " in said and "found " in said


def test_a_tokenizer_that_is_none(model, source, build):
    (model / "tokenizer.json").write_text("[1]")
    assert "tokenizer.json: file: found " in refused(build, source / "text", target=model)


def test_full_disk_leaves_nothing(source, build, monkeypatch, tmp_path):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    assert "dev.npy: disk: found No space left" in refused(build, source / "text")
    assert not list((tmp_path / "out").iterdir())


def test_parquet_reads_alike_where_there_is_pyarrow(source, text, build, monkeypatch):
    plain = np.load(build(source / "text") / "dev.npy")
    texts = (text / "validation.txt").read_text().split("\n")
    (text / "validation.txt").unlink()
    (text / "validation-00000-of-00001.parquet").write_bytes(b"PAR1")
    table = pd.DataFrame({"text": texts})
    monkeypatch.setattr(rows.pd, "read_parquet", lambda path, columns: table[columns])
    assert np.array_equal(np.load(build(text) / "dev.npy"), plain)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ImportError("none"), "format: found Parquet, and no pyarrow; expected pyarrow"),
        (
            ValueError("torn\nfile"),
            "file: found ValueError torn; expected Parquet with a column text",
        ),
        (OSError("torn\npage"), "file: found OSError torn; expected Parquet with a column text"),
        (OSError(), "file: found OSError ; expected Parquet with a column text"),
    ],
)
def test_parquet_that_cannot_be_read(text, build, monkeypatch, error, said):
    def fail(path, columns):
        raise error

    (text / "validation.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(rows.pd, "read_parquet", fail)
    assert said in refused(build, text)


@pytest.mark.parametrize("row", [None, 3, float("nan"), b"bytes"])
def test_parquet_with_a_row_that_is_no_text(text, build, monkeypatch, row):
    (text / "validation.parquet").write_bytes(b"PAR1")
    table = pd.DataFrame({"text": ["a text", row]}, dtype=object)
    monkeypatch.setattr(rows.pd, "read_parquet", lambda path, columns: table[columns])
    said = refused(build, text)
    assert f"validation.parquet: text: found {row!r} in row 1; expected a text" in said


def test_real_parquet_reads_as_its_text(source, text, build):
    pytest.importorskip("pyarrow")
    plain = np.load(build(source / "text") / "dev.npy")
    texts = (text / "validation.txt").read_text().split("\n")
    pd.DataFrame({"text": texts}).to_parquet(text / "validation.parquet")
    assert np.array_equal(np.load(build(text) / "dev.npy"), plain)
    whole = (text / "validation.parquet").read_bytes()
    for torn in (b"", whole[: len(whole) // 2], whole[:-60] + bytes(52) + whole[-8:]):
        (text / "validation.parquet").write_bytes(torn)
        assert "validation.parquet: file: found " in refused(build, text)


@pytest.mark.parametrize(
    "names",
    [
        ["train-00001-of-00002.parquet"],
        ["train-00000-of-00002.parquet"],
        ["train-00000-of-00001.parquet", "train-00000-of-00002.parquet"],
        ["train.parquet", "train-00000-of-00001.parquet"],
    ],
)
def test_a_shard_missing_is_another_text(text, build, names):
    for name in names:
        (text / name).write_bytes(b"PAR1")
    said = refused(build, text)
    assert f"train: found {', '.join(sorted(names))}; expected each of" in said


def test_what_only_begins_as_a_part_is_none_of_it(text, profile):
    (text / "train_small.parquet").write_bytes(b"PAR1")
    assert rows.part_files(text, profile.corpus, "train") == [text / "train.txt"]


@pytest.mark.parametrize("how", ["link", "inside", "dots"])
def test_a_snapshot_is_told_however_it_is_spelled(source, build, profile, tmp_path, how):
    corpus = profile.corpus
    place = cached_snapshot(corpus.dataset, "f" * 40, "dataset")
    shutil.copytree(source / "text", place / corpus.configuration)
    (tmp_path / "link").symlink_to(place)
    spelled = {
        "link": tmp_path / "link",
        "inside": place / corpus.configuration,
        "dots": place / corpus.configuration / "..",
    }
    assert f"revision: found {'f' * 40}" in refused(build, spelled[how])


def test_records_of_a_download_count_for_a_folder_inside(text, build, profile):
    inside = text / profile.corpus.configuration
    inside.mkdir()
    for path in text.glob("*.txt"):
        path.rename(inside / path.name)
    record = text / ".cache/huggingface/download" / inside.name / "train.txt.metadata"
    files.write_text(record, f"{'f' * 40}\netag\n1.0\n")
    assert f"revision: found {'f' * 40}" in refused(build, inside)
    files.write_text(record, f"{profile.corpus.revision}\netag\n1.0\n")
    assert json.loads((build(inside) / "corpus.json").read_text())["revision"]


def test_a_model_is_no_text(source, build, profile):
    place = cached_snapshot(profile.corpus.dataset, profile.corpus.revision, "model")
    shutil.copytree(source / "text", place)
    assert "kind: found model; expected dataset" in refused(build, place)
