"""A whole small study in a folder: corpus, random target, two random adapters, plan, profile."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import yaml

from diffdraft import files
from diffdraft.config import load_profile
from diffdraft.layers.adapter_file import save_adapter
from diffdraft.layers.lora import Adapter
from diffdraft.targets.architecture import build, initialise
from diffdraft.targets.corpus import train_tokenizer
from diffdraft.targets.load import load_target
from diffdraft.targets.random import TINY
from diffdraft.training.adapter import adapter_spec
from diffdraft.training.target import save_folder

VOCABULARY = 270
WINDOW, BLOCK, BATCHES, BATCH_SIZE = 24, 4, 5, 2


def write_profile(folder: Path) -> Path:
    """The tiny profile with a smaller model and window."""
    values = yaml.safe_load(Path("config/profiles/tiny.yaml").read_text())
    values["corpus"]["vocab_size"] = VOCABULARY
    values["target"]["architecture"] = {**TINY, "vocab_size": VOCABULARY}
    for adapter in values["adapters"].values():
        adapter["optimiser"]["window"] = WINDOW
        adapter["continuations"] = {"windows": 4, "prompt_tokens": WINDOW // 3}
    values["adapters"]["primary"]["block_size"] = BLOCK
    path = folder / "profiles" / "tiny.yaml"
    files.write_text(path, yaml.safe_dump(values))
    return path


def write_plan(folder: Path, **sample: int) -> Path:
    """The plan of rprm with a small sample."""
    plan = yaml.safe_load(Path("prereg/rprm.yaml").read_text())
    sizes = {
        "windows": BATCHES * BATCH_SIZE,
        "window_tokens": WINDOW,
        "block_size": BLOCK,
        "batches": BATCHES,
        "batch_size": BATCH_SIZE,
    }
    plan["samples"]["tiny"] |= sizes | sample
    for arm in plan["arms"]:
        arm["trained_block_size"] = BLOCK
    plan["models"]["tiny"].pop("profile_sha256", None)
    path = folder / "rprm.yaml"
    files.write_text(path, yaml.safe_dump(plan, sort_keys=False))
    return path


def write_corpus(folder: Path, n_windows: int = 12) -> Path:
    """Random token streams; documents 0 and 1 are dealt to two splits."""
    corpus = folder / "corpus"
    tokenizer = train_tokenizer(["in the beginning was the word " * 50], VOCABULARY)
    files.write_text(corpus / "tokenizer.json", tokenizer.to_str())
    files.write_json(
        corpus / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"},
    )
    generator = np.random.default_rng(0)
    record: dict[str, dict] = {"settings": {}, "splits": {}}
    for index, split in enumerate(("train", "dev", "extract", "prompts")):
        stream = generator.integers(1, VOCABULARY, n_windows * WINDOW).astype(np.int32)
        np.save(corpus / f"{split}.npy", stream)
        record["splits"][split] = {"documents": [index], "tokens": len(stream)}
    files.write_json(corpus / "corpus.json", record)
    return corpus


def write_target(folder: Path, profile: Path, corpus: Path) -> Path:
    """A random target as a model folder."""
    settings = load_profile(profile).target
    model = build(settings.architecture.model_dump())
    initialise(model, 1, 0.2)
    out = folder / "target"
    save_folder(model, settings, corpus, out)
    files.write_json(out / "training.json", {"fingerprint": load_target(out).fingerprint})
    return out


def write_adapter(folder: Path, profile: Path, target_folder: Path, tag: str) -> Path:
    """A random adapter that has done its steps, as its metadata says."""
    settings = load_profile(profile).adapters[tag]
    target = load_target(target_folder)
    adapter = Adapter.attach(target.model, adapter_spec(settings))
    keys = mx.random.split(mx.random.key(len(tag)), len(adapter.tensors))
    for key, (name, tensor) in zip(keys, adapter.tensors.items(), strict=True):
        adapter.assign({name: mx.random.normal(tensor.shape, scale=0.1, key=key)})
    metadata = {
        "study": "rprm",
        "arm": tag,
        "step": settings.optimiser.steps,
        "seed": settings.optimiser.seed,
        "block_size": settings.block_size,
        "config_hash": "c0",
        "target_fingerprint": target.fingerprint,
    }
    save_adapter(folder / tag / "adapter.safetensors", adapter, metadata)
    return folder / tag
