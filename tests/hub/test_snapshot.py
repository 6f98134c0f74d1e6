import json
from pathlib import Path

import mlx.core as mx
import pytest

from diffdraft import files, weight_folder
from diffdraft.errors import UserError
from diffdraft.hub import snapshot
from tests.hub.standin import REVISION

OTHER = "f" * 40


def refused(folder, target):
    """The one line that a model folder is refused with."""
    with pytest.raises(UserError) as caught:
        snapshot.check_model(folder, target)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def change(path, **values):
    config = json.loads(path.read_text())
    config["text_config"] |= values
    files.write_json(path, config)


def test_plain_folder_is_known_by_what_it_holds(model, profile):
    record = snapshot.check_model(model, profile.target)
    assert record["revision"] is None and record["revision_known_by"] == snapshot.UNKNOWN
    assert record["tensors"] == profile.target.tensors
    assert record["parameters"] == profile.target.parameters


def test_snapshot_in_the_cache_is_known_by_its_place(model, profile, tmp_path):
    place = snapshot.cached_snapshot(profile.target.repo, REVISION)
    place.parent.mkdir(parents=True)
    model.rename(place)
    record = snapshot.check_model(place, profile.target)
    assert (record["revision"], record["revision_known_by"]) == (REVISION, snapshot.CACHE)


@pytest.mark.parametrize(
    ("repo", "revision", "said"),
    [
        ("nobody/stand-in", OTHER, f"revision: found {OTHER}; expected {REVISION}, as pinned"),
        ("nobody/other", REVISION, "repo: found nobody/other; expected nobody/stand-in"),
    ],
)
def test_another_snapshot_of_the_cache_is_refused_by_name(model, profile, repo, revision, said):
    place = snapshot.cached_snapshot(repo, revision)
    place.parent.mkdir(parents=True)
    model.rename(place)
    assert said in refused(place, profile.target)


@pytest.mark.parametrize("inside", ["", "more/.."])
def test_a_link_to_another_snapshot_is_refused(model, profile, tmp_path, inside):
    place = snapshot.cached_snapshot(profile.target.repo, OTHER)
    place.parent.mkdir(parents=True)
    model.rename(place)
    (place / "more").mkdir()
    (tmp_path / "link").symlink_to(place)
    assert f"revision: found {OTHER}" in refused(tmp_path / "link" / inside, profile.target)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "~/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x", "HF_HOME": "/h"}, "/h/hub"),
        ({"HF_HOME": "/h", "HUGGINGFACE_HUB_CACHE": "/u"}, "/u"),
        ({"HUGGINGFACE_HUB_CACHE": "/u", "HF_HUB_CACHE": "/c"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HF_HOME": "$XDG_CACHE_HOME/h"}, "/x/h/hub"),
    ],
)
def test_the_cache_is_where_the_hub_looks(monkeypatch, variables, expected):
    for name in ("XDG_CACHE_HOME", "HF_HOME", "HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert snapshot.cache_folder() == Path(expected).expanduser()


@pytest.mark.parametrize(
    ("revisions", "said"),
    [
        ([REVISION, REVISION], None),
        ([OTHER, OTHER], f"revision: found {OTHER}; expected {REVISION}, as pinned"),
        ([OTHER, REVISION], f"found {REVISION}, {OTHER}; expected files of one revision"),
    ],
)
def test_records_of_a_download_tell_the_revision(model, profile, revisions, said):
    for place, revision in enumerate(revisions):
        record = model / f".cache/huggingface/download/file{place}.metadata"
        files.write_text(record, f"{revision}\netag\n1.0\n")
    if said is None:
        assert snapshot.check_model(model, profile.target)["revision"] == REVISION
    else:
        assert said in refused(model, profile.target)


def test_other_sizes_are_refused(model, profile):
    change(model / "config.json", hidden_size=4096)
    assert "hidden_size: found 4096; expected 64, as in the profile" in refused(
        model, profile.target
    )


def test_what_the_configuration_leaves_unsaid_the_weights_tell(model, profile):
    change(model / "config.json", full_attention_interval=None)
    assert snapshot.check_model(model, profile.target)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("field", ["model_file", "auto_map", "custom_pipelines"])
def test_code_beside_the_weights_is_refused(model, profile, name, within, field):
    config = json.loads((model / name).read_text())
    place = config.setdefault("text_config", {}) if within else config
    place[field] = {"AutoModel": "model.Model"}
    files.write_json(model / name, config)
    said = refused(model, profile.target)
    assert f"{name}: {'text_config.' * within}{field}: found " in said
    assert "expected no code beside the weights" in said


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", ["[1]", "null", '"a"', "3"])
def test_settings_of_another_shape(model, profile, name, content):
    (model / name).write_text(content)
    assert f"{name}: file: found no settings; expected " in refused(model, profile.target)


@pytest.mark.parametrize("content", [[1], None, "a", 3])
def test_a_text_model_of_another_shape(model, profile, content):
    config = json.loads((model / "config.json").read_text())
    files.write_json(model / "config.json", {**config, "text_config": content})
    assert "config.json: text_config: found " in refused(model, profile.target)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
def test_missing_settings(model, profile, name):
    (model / name).unlink()
    assert f"{name}: file: found nothing there" in refused(model, profile.target)


def test_missing_folder(tmp_path, profile):
    assert "folder: found nothing there" in refused(tmp_path / "none", profile.target)


def test_one_shard_missing(model, profile):
    (model / "model-00002-of-00003.safetensors").unlink()
    said = refused(model, profile.target)
    assert "model-00002-of-00003.safetensors: file: found nothing there; expected a shard" in said


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_half_a_shard_is_no_shard(model, profile, kept):
    shard = model / "model-00001-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:kept])
    assert "model-00001-of-00003.safetensors" in refused(model, profile.target)


def test_no_weights(model, profile):
    for path in model.glob("model*"):
        path.unlink()
    assert "weights: found neither model.safetensors nor" in refused(model, profile.target)


def test_index_that_leads_out_of_the_folder(model, profile):
    files.write_json(model / weight_folder.INDEX, {"weight_map": {"a": "../a.safetensors"}})
    assert "weight_map: found ../a.safetensors" in refused(model, profile.target)


def test_index_with_a_tensor_that_no_shard_has(model, profile):
    index = json.loads((model / weight_folder.INDEX).read_text())
    index["weight_map"]["more"] = "model-00001-of-00003.safetensors"
    files.write_json(model / weight_folder.INDEX, index)
    assert "more: found no such tensor; expected it there" in refused(model, profile.target)


def test_one_whole_file_needs_no_index(model, profile):
    shards = sorted(model.glob("*.safetensors"))
    whole = {name: value for shard in shards for name, value in mx.load(str(shard)).items()}
    mx.eval(whole)
    for path in (*shards, model / weight_folder.INDEX):
        path.unlink()
    mx.save_safetensors(str(model / "model.safetensors"), whole)
    assert snapshot.check_model(model, profile.target)["tensors"] == profile.target.tensors


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda t: {n: v.astype(mx.float32) for n, v in t.items()}, "dtype: found F32"),
        (lambda t: {**t, "model.language_model.more": mx.zeros(3, mx.bfloat16)}, "tensors: found "),
        (
            lambda t: t | {"model.language_model.norm.weight": mx.zeros(65, mx.bfloat16)},
            "parameters: found ",
        ),
    ],
)
def test_other_weights_are_refused(model, profile, spoil, said):
    shards = sorted(model.glob("*.safetensors"))
    whole = {name: value for shard in shards for name, value in mx.load(str(shard)).items()}
    mx.eval(whole)
    for path in (*shards, model / weight_folder.INDEX):
        path.unlink()
    mx.save_safetensors(str(model / "model.safetensors"), spoil(whole))
    assert said in refused(model, profile.target)
