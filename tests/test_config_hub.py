"""The profile of the published configuration: what it pins, and how it refuses."""

from pathlib import Path

import pytest
import yaml
from mlx.utils import tree_flatten

from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.targets.architecture import build

PROFILE = Path("config/profiles/qwen35_4b.yaml")
ACT4S = yaml.safe_load(Path("results/published/act4_s.yaml").read_text())["meta"]
MANIFEST = yaml.safe_load(Path("results/published/rprm.yaml").read_text())["checkpoints"]


def test_pins_are_the_published_ones():
    profile = load_profile(PROFILE)
    target, primary = profile.target, profile.adapters["primary"]
    published = {
        "target_model": target.repo,
        "target_snapshot": target.revision,
        "target_dtype": target.dtype,
        "target_params": target.parameters,
        "target_tensors": target.tensors,
        "layers_total": target.architecture.num_hidden_layers,
        "adapter_sha256": target.drafter.sha256,
        "adapter_bytes": target.drafter.bytes,
        "adapter_rank": primary.rank,
        "peak_memory_gb_k4": target.published.peak_bytes / 1e9,
    }
    assert published == {name: ACT4S[name] for name in published}
    assert primary.alpha == MANIFEST["lora"]["alpha"]
    assert primary.block_size == MANIFEST["primary"]["block_size"]
    assert primary.optimiser.steps == MANIFEST["primary"]["step"]
    replication = profile.adapters["replication"]
    assert replication.optimiser.steps == MANIFEST["replication"]["steps_at_k4"]
    assert target.weight_bytes == 2 * MANIFEST["base"]["params"]


def test_sizes_give_the_published_tensors_and_parameters():
    """Built without a weight: what the sizes were derived from comes out again."""
    target = load_profile(PROFILE).target
    tensors = [
        tensor for _, tensor in tree_flatten(build(target.architecture.model_dump()).parameters())
    ]
    assert len(tensors) == ACT4S["target_tensors"]
    assert sum(tensor.size for tensor in tensors) == ACT4S["target_params"]
    full = target.architecture.num_hidden_layers // target.architecture.full_attention_interval
    assert full == ACT4S["layers_full_attention"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p["target"].update(revision="main"), "target.revision: found 'main'"),
        (lambda p: p["target"].update(dtype="float16"), "target.dtype: found 'float16'"),
        (lambda p: p["target"]["drafter"].update(sha256="0"), "target.drafter.sha256: found '0'"),
        (lambda p: p["target"]["architecture"].update(experts=8), "target.architecture.experts"),
        (lambda p: p["target"].pop("parameters"), "target.parameters: found nothing"),
        (lambda p: p["corpus"].update(revision="61541fe4"), "corpus.revision: found '61541fe4'"),
        (lambda p: p["corpus"]["splits"].pop("dev"), "splits: found extract, prompts, train"),
        (lambda p: p["corpus"]["splits"]["dev"].update(windows=0), "corpus.splits.dev.windows"),
        (lambda p: p["adapters"].pop("replication"), "adapters: found no replication"),
        (lambda p: p["adapters"].pop("primary"), "adapters: found no primary; expected primary"),
    ],
)
def test_what_it_refuses(tmp_path, change, said):
    values = yaml.safe_load(PROFILE.read_text())
    change(values)
    path = tmp_path / PROFILE.name
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(UserError) as caught:
        load_profile(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)
