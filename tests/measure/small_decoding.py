"""A small study of Act IV-S in a folder: random target, adapters, suite, corpus, profile, plan."""

from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import yaml
from mlx.utils import tree_flatten

from diffdraft import files
from diffdraft.config import load_profile
from diffdraft.layers.adapter_file import save_adapter
from diffdraft.measure.speculative import request, runs
from diffdraft.targets.architecture import model_config
from diffdraft.targets.corpus import train_tokenizer
from diffdraft.targets.random import TINY
from diffdraft.training.adapter import adapter_spec
from tests.decoding import parts

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY = 300
TEXT = {
    **TINY,
    "vocab_size": VOCABULARY,
    "num_hidden_layers": 2,
    "full_attention_interval": 2,
    "tie_word_embeddings": False,
    "max_position_embeddings": 96,
}
LOAD = 0.125
FEW = 5
SAMPLE = {
    "tokens": 4,
    "repeats": 2,
    "token_counts": [3, 5],
    "block_sizes": [1, 4],
    "refinements": [2],
    "ngram_orders": [2],
    "max_load_before": 0.25,
}
CONTEXT = {"lengths": [5, 20], "passages": 2, "tokens": 4, "block_sizes": [2]}
COST = {"widths": 5, "context": 8, "repeats": 2}


class Small:
    """Paths of the study. The suite has as many prompts as the real one, of a few tokens each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.profile = folder / "profiles" / "tiny.yaml"
        files.write_text(self.profile, files.read_text(ROOT / "config" / "profiles" / "tiny.yaml"))
        self.workload = folder / "workloads" / "tiny.yaml"
        files.write_text(self.workload, yaml.safe_dump(suite()))
        self.target, self.other_target = folder / "target", folder / "other_target"
        self.adapter = folder / "adapter.safetensors"
        self.shuffled = folder / "shuffled.safetensors"
        self.corpus = folder / "corpus"
        texts = [prompt["text"] for prompt in suite()["prompts"]] * 3 + ["in the beginning " * 20]
        tokenizer = train_tokenizer(texts, VOCABULARY)
        for place, path in enumerate((self.target, self.other_target)):
            write_target(path, tokenizer, seed=1 + place)
        self.write_adapters()
        stream = np.random.default_rng(0).integers(1, VOCABULARY, 20 * 8).astype(np.int32)
        self.corpus.mkdir()
        np.save(self.corpus / "prompts.npy", stream)

    def write_adapters(self) -> None:
        target = parts.make_tiny_random(1, **TEXT)
        settings = load_profile(self.profile).adapters["primary"]
        adapter = parts.Adapter.attach(target.model, adapter_spec(settings))
        metadata = {
            "study": "rprm",
            "step": settings.optimiser.steps,
            "seed": settings.optimiser.seed,
            "block_size": settings.block_size,
            "config_hash": "c0",
            "target_fingerprint": target.fingerprint,
        }
        for seed, (arm, path) in enumerate(
            {"primary": self.adapter, "primary_shuffled": self.shuffled}.items()
        ):
            parts.randomise(adapter, seed)
            save_adapter(path, adapter, {**metadata, "arm": arm})

    def plan(self, folder: Path, **changes) -> Path:
        """prereg/act4s.yaml with a small sample; `sample`, `context` and `model` change parts."""
        plan = yaml.safe_load(files.read_text(ROOT / "prereg" / "act4s.yaml"))
        sample = plan["samples"]["tiny"]
        sample.pop("workload_sha256", None)
        sample |= SAMPLE | {"cost": COST} | changes.pop("sample", {})
        sample["context"] = CONTEXT | changes.pop("context", {})
        plan["models"]["tiny"].pop("profile_sha256", None)
        plan["models"]["tiny"] |= changes.pop("model", {})
        path = folder / "act4s.yaml"
        files.write_text(path, yaml.safe_dump(plan | changes, sort_keys=False))
        return path


def suite() -> dict:
    """The real suite with the names of the prompts as their texts."""
    values = yaml.safe_load(files.read_text(ROOT / "config" / "workloads" / "tiny.yaml"))
    for prompt in values["prompts"]:
        prompt["text"] = prompt["id"]
    return values


def write_target(folder: Path, tokenizer, seed: int) -> None:
    """A model folder of random weights."""
    model = parts.make_tiny_random(seed, **TEXT).model
    files.write_json(folder / "config.json", model_config(TEXT))
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    files.write_text(folder / "tokenizer.json", tokenizer.to_str())
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    files.write_json(folder / "tokenizer_config.json", config)


def no_waiting(monkeypatch, load=lambda: LOAD) -> None:
    """Do not look at the machine's load before every run, which takes a tenth of a second."""
    monkeypatch.setattr(request, "Protocol", partial(request.Protocol, load=load))


def few_prompts(monkeypatch) -> None:
    """Decode the first prompts of the suite only."""
    encode = runs.encode_workload
    monkeypatch.setattr(runs, "encode_workload", lambda *arguments: encode(*arguments)[:FEW])
