import errno
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from diffdraft import disk, files
from diffdraft.errors import UserError
from diffdraft.hub import target as module
from diffdraft.hub.snapshot import cached_snapshot
from diffdraft.target_record import recorded_fingerprint
from diffdraft.targets.architecture import build, initialise
from diffdraft.targets.load import load_target
from tests.hub import standin

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refused(*arguments):
    with pytest.raises(UserError) as caught:
        module.make_target(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def answers(monkeypatch, result):
    """Let the hub answer with a folder, or with an error."""
    asked = []

    def snapshot_download(repo, **options):
        asked.append({"repo": repo, **options})
        if isinstance(result, Exception):
            raise result
        return str(result)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return asked


def test_loads_as_the_model_that_was_stored(source, profile, tmp_path):
    module.make_target(profile.target, source / "model", tmp_path / "out")
    model = build(standin.architecture())
    initialise(model, 7, init_std=0.2)
    loaded = dict(tree_flatten(load_target(tmp_path / "out").model.parameters()))
    for name, tensor in tree_flatten(model.parameters()):
        assert loaded[name].dtype == mx.bfloat16
        # Norm weights are stored less 1, which rounds otherwise.
        assert mx.allclose(loaded[name], tensor, rtol=8e-3, atol=8e-3), name


def test_weights_are_linked_and_recorded(source, profile, tmp_path):
    module.make_target(profile.target, source / "model", tmp_path / "out")
    shard = tmp_path / "out/model-00003-of-00003.safetensors"
    assert shard.is_symlink() and shard.resolve() == (source / "model" / shard.name).resolve()
    record = json.loads((tmp_path / "out/weights.json").read_text())
    names = {path.name for path in (source / "model").iterdir()}
    assert set(record["files"]) == names
    assert record["files"][shard.name] == {
        "bytes": shard.stat().st_size,
        "sha256": files.sha256_file(shard),
    }


@pytest.mark.parametrize("declared", [(), ("config.json", "weights.json")])
def test_what_an_earlier_snapshot_left_goes(source, profile, tmp_path, declared):
    """Snakemake removes the outputs that a rule declares, and leaves the rest."""
    out = tmp_path / "out"
    module.make_target(profile.target, source / "model", out)
    (out / "model-00009-of-00009.safetensors").symlink_to(source / "gone")
    for name in declared:
        (out / name).unlink()
    module.make_target(profile.target, source / "model", out)
    assert len(list(out.glob("*.safetensors"))) == standin.SHARDS
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["out"]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def somebodys_model(source, out):
    shutil.copytree(source / "model", out)


def snapshot_of_the_cache(source, out):
    out.mkdir()
    for path in (source / "model").iterdir():
        (out / path.name).symlink_to(path)


def thesis(source, out):
    files.write_text(out / "thesis.txt", "years of work")


def own_settings(source, out):
    files.write_text(out / "settings.json", "{}")


def folder_by_a_name_of_ours(source, out):
    files.write_text(out / "config.json" / "thesis.txt", "years of work")


@pytest.mark.parametrize(
    "fill",
    [somebodys_model, snapshot_of_the_cache, thesis, own_settings, folder_by_a_name_of_ours],
)
def test_a_folder_of_something_else_is_left_alone(source, profile, tmp_path, fill):
    out = tmp_path / "out"
    fill(source, out)
    before = contents(out)
    assert f"{out}: folder: found " in refused(profile.target, source / "model", out)
    assert contents(out) == before


@pytest.mark.parametrize("through", ["out", "link", "out/../out"])
def test_the_source_is_no_place_to_write_to(source, profile, tmp_path, through):
    """Made here once, it is a model folder like any other, and may be a source."""
    out = tmp_path / "out"
    module.make_target(profile.target, source / "model", out)
    (tmp_path / "link").symlink_to(out)
    before = contents(out)
    said = refused(profile.target, tmp_path / through, out)
    assert "folder: found the model folder itself; expected another folder" in said
    assert contents(out) == before
    module.make_target(profile.target, out, tmp_path / "other")
    assert contents(out) == before


def test_only_what_a_model_folder_needs_is_copied(model, profile, tmp_path):
    for name in ("training.json", "conversion.json", "weights.json", "trainer_state.json"):
        files.write_json(model / name, {"fingerprint": "somebody's"})
    files.write_json(model / "generation_config.json", {"eos_token_id": 1})
    module.make_target(profile.target, model, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").glob("*.json")}
    settings = {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"}
    assert names == {*settings, "model.safetensors.index.json", "weights.json"}
    assert recorded_fingerprint(tmp_path / "out") == load_target(tmp_path / "out").fingerprint


def test_the_record_has_the_fingerprint_that_adapters_are_bound_to(source, profile, tmp_path):
    module.make_target(profile.target, source / "model", tmp_path / "out")
    recorded = recorded_fingerprint(tmp_path / "out")
    assert recorded == load_target(tmp_path / "out").fingerprint


def test_hub_gives_the_pinned_snapshot_and_data_only(source, profile, tmp_path, monkeypatch):
    place = cached_snapshot(profile.target.repo, standin.REVISION)
    shutil.copytree(source / "model", place)
    asked = answers(monkeypatch, place)
    module.make_target(profile.target, None, tmp_path / "out")
    assert asked[0]["revision"] == standin.REVISION
    assert asked[0]["allow_patterns"] == ["*.safetensors", "*.json"]
    record = json.loads((tmp_path / "out/weights.json").read_text())
    assert record["revision"] == standin.REVISION


@pytest.mark.parametrize(
    "error", [ConnectionError("no route\nto it"), TimeoutError("slow"), RuntimeError("odd")]
)
def test_hub_that_does_not_answer(profile, tmp_path, monkeypatch, error):
    answers(monkeypatch, error)
    said = refused(profile.target, None, tmp_path / "out")
    assert said.startswith(f"nobody/stand-in: hub: found {type(error).__name__} ")
    assert said.endswith(f"hf download nobody/stand-in --revision {standin.REVISION}")
    assert not (tmp_path / "out").exists()


def test_download_that_fills_the_disk(profile, tmp_path, monkeypatch):
    answers(monkeypatch, FULL)
    assert "cache: disk: found No space left" in refused(profile.target, None, tmp_path / "out")


def test_no_room_is_told_before_the_download(profile, tmp_path, monkeypatch):
    asked = answers(monkeypatch, tmp_path)
    usage = SimpleNamespace(free=1)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda path: usage)
    assert "cache: disk: found 0.0 GB free" in refused(profile.target, None, tmp_path / "out")
    assert not asked


def test_interrupted_download_is_no_model(source, profile, tmp_path, monkeypatch):
    place = cached_snapshot(profile.target.repo, standin.REVISION)
    shutil.copytree(source / "model", place)
    (place / "model-00002-of-00003.safetensors").unlink()
    answers(monkeypatch, place)
    assert "model-00002-of-00003.safetensors: file: found nothing there" in refused(
        profile.target, None, tmp_path / "out"
    )


def test_a_full_disk_leaves_what_was_there(source, profile, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def full(origin, copy):
        Path(copy).write_text("{")
        raise FULL

    with monkeypatch.context() as patch:
        patch.setattr(module.shutil, "copyfile", full)
        assert ".json: disk: found No space left" in refused(profile.target, source / "model", out)
        assert not out.exists()
    module.make_target(profile.target, source / "model", out)
    before = contents(out)
    monkeypatch.setattr(module.shutil, "copyfile", full)
    assert ".json: disk: found No space left" in refused(profile.target, source / "model", out)
    assert contents(out) == before
