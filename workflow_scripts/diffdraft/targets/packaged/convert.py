"""Conversion of a packaged target into the folder that `mlx_lm.load` reads."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx

from diffdraft import files
from diffdraft.config import PackagedTarget
from diffdraft.layers.tensors import save_tensors
from diffdraft.provenance import package_versions as versions
from diffdraft.target_record import described_settings
from diffdraft.targets.fingerprint import fingerprint
from diffdraft.targets.packaged import gemma3
from diffdraft.targets.packaged.chunks import assemble, package_versions
from diffdraft.targets.packaged.gguf_file import GGUFFile, gguf_package
from diffdraft.targets.packaged.tokenizer import (
    build_tokenizer,
    read_vocabulary,
    tokenizer_config,
)
from diffdraft.whole_folder import whole_folder

FILES = (
    *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
    "conversion.json",
)
READERS = ("gguf", "tokenizers")


def convert_target(settings: PackagedTarget, out: Path) -> None:
    """Write the model folder in float32, whole or not at all.

    Raises `UserError` for a package or chunk that is missing, a file that is not the pinned one,
    another architecture, tensors or settings that do not fit it, and a full disk.
    """
    gguf_package()
    with whole_folder(out, FILES) as folder:
        path = assemble(settings, folder)
        file = GGUFFile(path)
        gemma3.check_architecture(file)
        config = gemma3.model_config(file)
        gemma3.check_tensors(file, config)
        write_tokenizer(file, config, folder)
        written = write_weights(file, config, folder)
        files.write_json(folder / "config.json", config)
        record = conversion_record(settings, file) | written
        record["files"] = described_settings(folder)
        files.write_json(folder / "conversion.json", record)
        path.unlink()


def write_tokenizer(file: GGUFFile, config: dict[str, Any], folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    vocabulary = read_vocabulary(file)
    files.write_text(folder / "tokenizer.json", build_tokenizer(vocabulary).to_str())
    settings = tokenizer_config(vocabulary, config["max_position_embeddings"])
    files.write_json(folder / "tokenizer_config.json", settings)


def write_weights(file: GGUFFile, config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write model.safetensors; returns its number of parameters and the model's fingerprint."""
    # One NumPy array is alive at a time, so the peak is near twice the model's size.
    tensors = {name: mx.array(values) for name, values in gemma3.weights(file, config)}
    save_tensors(folder / "model.safetensors", tensors, {"format": "mlx"})
    model = SimpleNamespace(parameters=lambda: tensors)
    parameters = sum(tensor.size for tensor in tensors.values())
    return {"parameters": parameters, "fingerprint": fingerprint(model)}


def conversion_record(settings: PackagedTarget, file: GGUFFile) -> dict[str, Any]:
    """What the folder was made from."""
    return {
        "packages": package_versions(settings),
        "readers": versions(READERS),
        "file": file.name,
        "sha256": settings.sha256,
        "architecture": gemma3.ARCHITECTURE,
        "tensors": len(file.shapes),
        "types": file.types,
        "licence": settings.licence,
    }
