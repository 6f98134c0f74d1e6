"""A stand-in for the 4B: its configuration with every dimension divided down, as the hub has it.

The folder has the hub's layout: names under `model.language_model`, the convolution with its
channels first, norm weights less the 1 that the loader adds, bfloat16, shards with an index, a
tokenizer, and tensors of parts that are left out.
"""

from pathlib import Path

import mlx.core as mx
import yaml
from mlx.utils import tree_flatten

from diffdraft import files
from diffdraft.config import load_profile
from diffdraft.layers.adapter_layouts import write_published
from diffdraft.layers.lora import Adapter
from diffdraft.targets.architecture import build, initialise, model_config
from diffdraft.targets.corpus import END_OF_TEXT, train_tokenizer
from diffdraft.training.adapter import adapter_spec

ROOT = Path(__file__).resolve().parents[2]
REVISION = "0123456789abcdef0123456789abcdef01234567"
DIVISORS = {
    "hidden_size": 40,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": 485,
    "linear_num_key_heads": 8,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
WINDOW, SHARDS = 24, 3
NORMS = ("layernorm.weight", "model.norm.weight", "q_norm.weight", "k_norm.weight")
SENTENCE = "The harbour was quiet that morning, and the boats lay still upon the grey water. "


def architecture() -> dict:
    """The 4B's sizes, divided down."""
    whole = load_profile(ROOT / "config/profiles/qwen35_4b.yaml").target.architecture
    return {name: value // DIVISORS.get(name, 1) for name, value in whole.model_dump().items()} | {
        "tie_word_embeddings": True
    }


def hub_tensors(sizes: dict) -> dict[str, mx.array]:
    """Random weights by the hub's names, in bfloat16."""
    model = build(sizes)
    initialise(model, 7, init_std=0.2)
    tensors = {}
    for name, tensor in tree_flatten(model.parameters()):
        value = tensor - 1 if name.endswith(NORMS) else tensor
        value = value.moveaxis(2, 1) if "conv1d" in name else value
        stored = name.replace("language_model.model.", "model.language_model.")
        tensors[stored] = value.astype(mx.bfloat16)
    return tensors


def write_model(folder: Path) -> Path:
    """The model folder: settings, tokenizer, three shards and their index."""
    sizes = architecture()
    tensors = hub_tensors(sizes)
    others = {"model.visual.patch.weight": mx.ones((4, 4)), "mtp.fc.weight": mx.ones((4, 4))}
    folder.mkdir(parents=True)
    where = {}
    for place in range(SHARDS):
        file = f"model-{place + 1:05d}-of-{SHARDS:05d}.safetensors"
        names = sorted({**tensors, **others})[place::SHARDS]
        mx.save_safetensors(str(folder / file), {n: {**tensors, **others}[n] for n in names})
        where |= dict.fromkeys(names, file)
    files.write_json(folder / "model.safetensors.index.json", {"weight_map": where})
    text = {**sizes, "dtype": "bfloat16", "max_position_embeddings": 512}
    files.write_json(folder / "config.json", model_config(text))
    tokenizer = train_tokenizer([SENTENCE * 20], 280)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_OF_TEXT}
    files.write_json(folder / "tokenizer_config.json", settings)
    return folder


def write_text(folder: Path) -> Path:
    """Parts of a text, a row a line, some of them short."""
    folder.mkdir(parents=True)
    for part, n in (("train", 60), ("validation", 40)):
        rows = [SENTENCE * 3 if i % 3 else "= A heading =" for i in range(n)]
        files.write_text(folder / f"{part}.txt", "\n".join(rows))
    return folder


def write_profile(path: Path, drafter: Path) -> Path:
    """The profile qwen35_4b with the stand-in's sizes, and a published drafter of its own."""
    values = yaml.safe_load((ROOT / "config/profiles/qwen35_4b.yaml").read_text())
    sizes = architecture()
    count = [tensor.size for _, tensor in tree_flatten(build(sizes).parameters())]
    values |= {"name": path.stem}
    values["corpus"]["window"] = WINDOW
    for piece in values["corpus"]["splits"].values():
        piece["windows"] = 12
    values["target"] |= {
        "repo": "nobody/stand-in",
        "revision": REVISION,
        "architecture": sizes,
        "tensors": len(count),
        "parameters": sum(count),
    }
    for adapter in values["adapters"].values():
        adapter["block_size"] = 4
        adapter["optimiser"] |= {"steps": 3, "window": WINDOW, "checkpoint_every": 2}
    values["adapters"]["primary"] |= {"first_block_size": 2, "first_steps": 2}
    files.write_text(path, yaml.safe_dump(values))
    write_drafter(drafter, load_profile(path))
    published = {"bytes": drafter.stat().st_size, "sha256": files.sha256_file(drafter)}
    values["target"]["drafter"] |= published
    files.write_text(path, yaml.safe_dump(values))
    return path


def write_drafter(path: Path, profile, **sizes) -> Path:
    """A drafter in the published layout, for the profile's architecture or another one."""
    model = build({**profile.target.architecture.model_dump(), **sizes})
    adapter = Adapter.attach(model, adapter_spec(profile.adapters["primary"]))
    write_published(path, adapter.tensors)
    return path
