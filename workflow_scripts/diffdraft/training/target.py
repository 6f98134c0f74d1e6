"""Train the embedded target from scratch and save it as an ordinary model folder."""

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from diffdraft import files
from diffdraft.config import Profile, TargetSettings, of_kind
from diffdraft.layers.chunked import chunked_logits
from diffdraft.layers.tensors import Tensors, save_tensors
from diffdraft.target_record import described_settings
from diffdraft.targets.architecture import build, initialise, model_config
from diffdraft.targets.corpus import read_windows
from diffdraft.targets.fingerprint import fingerprint
from diffdraft.training.loop import WindowOrder, fit, hash_config, history_csv


class LanguageModelTask:
    """Next-token cross entropy over every row of the training windows."""

    def __init__(self, model: Any, windows_NT: np.ndarray, settings: TargetSettings) -> None:
        self.model, self.windows = model, windows_NT
        self._order = WindowOrder(
            len(windows_NT), settings.optimiser.batch_size, settings.optimiser.seed
        )
        self._grad = nn.value_and_grad(model, self.loss)

    @property
    def tensors(self) -> Tensors:
        """Every weight of the model, by name."""
        return dict(tree_flatten(self.model.trainable_parameters()))

    def loss(self, ids_BT: mx.array) -> mx.array:
        """Mean negative log-likelihood in nats a token."""
        logits = chunked_logits(self.model, ids_BT[:, :-1])
        return nn.losses.cross_entropy(logits, ids_BT[:, 1:], reduction="mean")

    def loss_and_grads(self, step: int) -> tuple[mx.array, Tensors, dict[str, mx.array]]:
        """Loss and gradients of the batch of this step."""
        loss, grads = self._grad(mx.array(self.windows[self._order.batch(step)]))
        return loss, dict(tree_flatten(grads)), {}

    def assign(self, tensors: Tensors) -> None:
        """Put updated weights in place."""
        self.model.update(tree_unflatten(list(tensors.items())))

    def check(self, history: list[dict[str, Any]]) -> None:
        """Nothing beyond the loop's own guard: cross entropy does not saturate silently."""


def train_target(profile: Profile, corpus: Path, out: Path, work: Path) -> None:
    """Train (or go on training) and write config.json, model.safetensors and tokenizer files."""
    settings = of_kind(TargetSettings, profile.target, "target")
    model = build(settings.architecture.model_dump())
    initialise(model, settings.optimiser.seed, settings.init_std)
    task = LanguageModelTask(
        model, read_windows(corpus, "train", settings.optimiser.window), settings
    )
    dev = mx.array(read_windows(corpus, "dev", settings.optimiser.window))
    every = settings.optimiser.checkpoint_every

    def on_step(step: int) -> dict[str, float] | None:
        return {"dev_loss": np.array(task.loss(dev)).item()} if step % every == 0 else None

    stream_sha = files.sha256_file(corpus / "train.npy")
    config_hash = hash_config(target=settings.model_dump(), corpus=stream_sha)
    history = fit(task, settings.optimiser, config_hash, work, on_step)
    save_folder(model, settings, corpus, out)
    files.write_text(out / "training.csv", history_csv(history))
    record = {
        "config_hash": config_hash,
        "fingerprint": fingerprint(model),
        "parameters": sum(tensor.size for tensor in task.tensors.values()),
        "steps": settings.optimiser.steps,
        "corpus": json.loads(files.read_text(corpus / "corpus.json"))["settings"],
        "files": described_settings(out),
    }
    files.write_json(out / "training.json", record)


def save_folder(model: Any, settings: TargetSettings, corpus: Path, out: Path) -> None:
    """Write the folder that `mlx_lm.load` reads."""
    out.mkdir(parents=True, exist_ok=True)
    weights = dict(tree_flatten(model.parameters()))
    save_tensors(out / "model.safetensors", weights, {"format": "mlx"})
    files.write_json(out / "config.json", model_config(settings.architecture.model_dump()))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        with files.atomic(out / name) as temporary:
            shutil.copyfile(corpus / name, temporary)
