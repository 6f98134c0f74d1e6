import json
import shutil
from types import SimpleNamespace

import mlx.core as mx
import pytest

from diffdraft import files
from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.hub.target import make_target
from diffdraft.layers.adapter_file import load_adapter, save_adapter
from diffdraft.layers.adapter_layouts import write_published
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.layers.tensors import load_tensors, save_tensors
from diffdraft.measure.planned import check_adapter
from diffdraft.targets import published_drafter as module
from diffdraft.targets.architecture import build
from diffdraft.targets.load import load_target
from tests.hub import standin


@pytest.fixture(scope="module")
def target(source, profile, tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    make_target(profile.target, source / "model", folder)
    return folder


@pytest.fixture
def pinned(profile):
    """The profile with another file as its published drafter."""

    def pin(path):
        drafter = profile.target.drafter.model_copy(
            update={"bytes": path.stat().st_size, "sha256": files.sha256_file(path)}
        )
        hub = profile.target.model_copy(update={"drafter": drafter})
        return profile.model_copy(update={"target": hub})

    return pin


def refused(*arguments):
    with pytest.raises(UserError) as caught:
        module.fetch_adapter(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_says_what_it_is(source, profile):
    record = module.fetch_adapter(profile, str(source / "drafter.safetensors"))
    attention, mlp = 2 * 4, 8 * 3
    assert record["modules"] == attention + mlp
    assert record["tensors"] == 2 * (attention + mlp)
    assert (record["rank"], record["placement"]) == (16, ["attention", "mlp"])
    assert record["bytes"] == (source / "drafter.safetensors").stat().st_size


def test_our_own_format_loads_it(source, profile, target, tmp_path):
    drafter = source / "drafter.safetensors"
    module.fetch_adapter(profile, str(drafter), target, tmp_path)
    loaded = load_target(target)
    path = tmp_path / "adapter.safetensors"
    adapter = load_adapter(loaded.model, loaded.fingerprint, path)
    stored = mx.load(str(drafter))
    for name, tensor in adapter.tensors.items():
        assert mx.array_equal(tensor, stored[f"language_model.model.{name}"])
    record = json.loads((tmp_path / "fetched.json").read_text())
    plan = SimpleNamespace(arms=())
    described = check_adapter(path, mx.load(str(path), return_metadata=True)[1], profile, plan)
    assert described["arm"] == "primary"
    assert record["metadata"]["config_hash"] == files.sha256_file(drafter)


ADDRESS = "https://example.org/x"


@pytest.fixture
def answers(monkeypatch):
    """Let every address answer with a file, as far as it is not too large."""

    def answer(file):
        def download_file(address, max_bytes, path):
            assert file.stat().st_size <= max_bytes
            shutil.copy(file, path)

        monkeypatch.setattr(module, "download_file", download_file)

    return answer


def test_metadata_are_those_of_the_last_stage():
    """The published drafter ended at block size 8, after 16,000 steps."""
    published = load_profile(standin.ROOT / "config/profiles/qwen35_4b.yaml")
    settings = published.adapters["primary"]
    found = module.published_metadata(settings, {"sha256": "d"}, "f")
    assert (found["block_size"], found["step"], found["seed"]) == (8, 16000, 20260903)
    assert [settings.block_size_at(step) for step in (0, 12799, 12800, 15999)] == [4, 4, 8, 8]
    replication = published.adapters["replication"]
    assert [replication.block_size_at(step) for step in (0, 399)] == [4, 4]


def test_by_address(source, profile, answers):
    answers(source / "drafter.safetensors")
    assert module.fetch_adapter(profile, ADDRESS)["rank"] == 16


def test_an_adapter_of_our_own_by_address(source, profile, target, tmp_path, answers):
    """It has neither the published size nor the published digest."""
    module.fetch_adapter(profile, str(source / "drafter.safetensors"), target, tmp_path / "a")
    own = tmp_path / "a/adapter.safetensors"
    assert own.stat().st_size != profile.target.drafter.bytes
    answers(own)
    record = module.fetch_adapter(profile, ADDRESS, target, tmp_path / "b")
    assert record["source"] == ADDRESS and record["metadata"]["arm"] == "primary"
    first, second = (mx.load(str(tmp_path / f"{x}/adapter.safetensors")) for x in "ab")
    assert all(mx.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[:-1], "bytes: found "),
        (lambda data: data + b"x", "bytes: found "),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "sha256: found "),
        (lambda data: b"<html>Not found</html>", "bytes: found 22"),
    ],
)
def test_another_file_than_the_published_by_address(
    source, profile, tmp_path, answers, spoil, said
):
    path = tmp_path / "file"
    path.write_bytes(spoil((source / "drafter.safetensors").read_bytes()))
    answers(path)
    assert refused(profile, ADDRESS).startswith(f"{ADDRESS}: {said}")


def test_an_adapter_of_our_own_passes_through(source, profile, target, tmp_path):
    module.fetch_adapter(profile, str(source / "drafter.safetensors"), target, tmp_path / "a")
    own = tmp_path / "a/adapter.safetensors"
    module.fetch_adapter(profile, str(own), target, tmp_path / "b")
    first, second = (mx.load(str(tmp_path / f"{x}/adapter.safetensors")) for x in "ab")
    assert all(mx.array_equal(first[name], second[name]) for name in first)


def test_adapter_of_another_target(profile, target, tmp_path):
    model = build(profile.target.architecture.model_dump())
    adapter = Adapter.attach(model, AdapterSpec(16, 256.0, 0.01, ("attention", "mlp"), 1))
    keys = ("study", "arm", "step", "seed", "block_size", "config_hash")
    metadata = {**dict.fromkeys(keys, "1"), "target_fingerprint": "other"}
    path = tmp_path / "own.safetensors"
    save_adapter(path, adapter, metadata)
    said = refused(profile, str(path), target, tmp_path / "out")
    assert "metadata.target_fingerprint: found other; expected " in said
    assert "It belongs to another target" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"num_hidden_layers": 12}, "found unknown; expected the modules of 8 layers. It is for a"),
        ({"num_hidden_layers": 4}, "found missing; expected the modules of 8 layers. It is for a"),
        ({"hidden_size": 32}, "found shape (16, 32); expected shape (16, 64). It is for a target"),
        ({"intermediate_size": 80}, "It is for a target of another width"),
    ],
)
def test_adapter_for_another_depth_or_width(profile, pinned, tmp_path, sizes, said):
    path = standin.write_drafter(tmp_path / "other.safetensors", profile, **sizes)
    assert said in refused(pinned(path), str(path))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ((8, 128.0, 0.01, ("attention", "mlp"), 1), "rank: found 8; expected 16"),
        ((16, 256.0, 0.01, ("mlp",), 1), "placement: found ['mlp']; expected ['attention', 'mlp']"),
    ],
)
def test_adapter_of_another_shape(profile, pinned, tmp_path, spec, said):
    model = build(profile.target.architecture.model_dump())
    path = tmp_path / "other.safetensors"
    write_published(path, Adapter.attach(model, AdapterSpec(*spec)).tensors)
    assert said in refused(pinned(path), str(path))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[:-1], "bytes: found "),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "sha256: found "),
        (lambda data: b"", "bytes: found 0"),
        (lambda data: b"PK\x03\x04", "bytes: found 4"),
    ],
)
def test_another_file_than_the_published(source, profile, tmp_path, spoil, said):
    path = tmp_path / "drafter.safetensors"
    path.write_bytes(spoil((source / "drafter.safetensors").read_bytes()))
    assert said in refused(profile, str(path))


def test_missing_file_and_missing_target(source, profile, tmp_path):
    assert "file: found nothing there" in refused(profile, str(tmp_path / "none"))
    said = refused(profile, str(source / "drafter.safetensors"), None, tmp_path / "out")
    assert "--target: folder: found nothing" in said


def own(source, profile, target, tmp_path, **changes):
    """An adapter of this project: the published one with other metadata."""
    module.fetch_adapter(profile, str(source / "drafter.safetensors"), target, tmp_path / "own")
    path = tmp_path / "own/adapter.safetensors"
    tensors, metadata = load_tensors(path)
    spec = {**json.loads(metadata["spec"]), **changes.pop("spec", {})}
    save_tensors(path, tensors, {**metadata, **changes, "spec": json.dumps(spec)})
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arm": "replication"}, "metadata.arm: found replication; expected primary"),
        ({"arm": "primary_shuffled"}, "metadata.arm: found primary_shuffled; expected primary"),
        ({"block_size": "8"}, "metadata.block_size: found 8; expected 4"),
        ({"step": "1"}, "metadata.step: found 1; expected 3"),
        ({"seed": "1"}, "metadata.seed: found 1; expected "),
        ({"spec": {"alpha": 1.0}}, "metadata.spec.alpha: found 1.0; expected "),
    ],
)
def test_another_adapter_of_our_own_is_refused_before_it_is_taken(
    source, profile, target, tmp_path, changes, said
):
    path = own(source, profile, target, tmp_path, **changes)
    assert said in refused(profile, str(path), target, tmp_path / "out")
    assert not (tmp_path / "out").exists()
