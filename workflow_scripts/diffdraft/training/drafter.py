"""Train the adapter of one arm on a loaded target and write it with what it belongs to."""

from pathlib import Path
from typing import Any

from diffdraft import files, provenance
from diffdraft.code_digest import code_digest
from diffdraft.config import Profile
from diffdraft.config_adapters import AdapterSettings
from diffdraft.drafters.noise import random_key
from diffdraft.layers.adapter_file import save_adapter
from diffdraft.layers.lora import Adapter
from diffdraft.profile_digest import profile_digest
from diffdraft.targets.corpus import read_windows
from diffdraft.targets.load import Target, load_target
from diffdraft.training.adapter import AdapterTask, adapter_spec, slot_quality
from diffdraft.training.continuations import training_windows
from diffdraft.training.loop import History, fit, hash_config, history_csv

STUDY = "rprm"
SHUFFLED_STUDY = "act4s"
ADAPTER_FILE = "adapter.safetensors"
SCRIPT = provenance.REPOSITORY / "workflow_scripts" / "train_adapter.py"


def train_adapter(
    profile: Profile,
    tag: str,
    corpus: Path,
    target_folder: Path,
    out: Path,
    work: Path,
    shuffle_targets: bool = False,
) -> None:
    """Train (or go on training) the adapter `tag`; the target is fingerprinted before and after.

    `shuffle_targets` trains the control of the same settings: its teachers belong to other windows
    (`adapter.shuffle_teacher`). Held-out quality is measured against the true teachers all the
    same.
    """
    began = provenance.begin()
    settings = next(s for name, s in profile.adapters.items() if name == tag)
    target = load_target(target_folder)
    adapter = Adapter.attach(target.model, adapter_spec(settings))
    window = settings.optimiser.window
    windows = read_windows(corpus, "train", window)
    windows = training_windows(target.model, windows, settings.continuations)
    task = AdapterTask(target, adapter, windows, settings, shuffle_targets)
    dev = DevMeasure(target, adapter, settings, corpus)
    config_hash = hash_config(
        adapter=settings.model_dump(),
        corpus=files.sha256_file(corpus / "train.npy"),
        target=target.fingerprint,
        **({"teachers": "shuffled"} if shuffle_targets else {}),
    )
    start = provenance.first_start(work / f"{config_hash[:16]}.start.json", began)
    history = fit(task, settings.optimiser, config_hash, work, dev)
    target.check_unchanged()
    metadata = {
        "study": SHUFFLED_STUDY if shuffle_targets else STUDY,
        "arm": f"{tag}_shuffled" if shuffle_targets else tag,
        "step": settings.optimiser.steps,
        "seed": settings.optimiser.seed,
        "block_size": settings.block_size,
        "config_hash": config_hash,
        "target_fingerprint": target.fingerprint,
    }
    save_adapter(out / ADAPTER_FILE, adapter, metadata)
    files.write_text(out / "training.csv", history_csv(history))
    record = {
        **metadata,
        "parameters": adapter.n_parameters,
        "sha256": files.sha256_file(out / ADAPTER_FILE),
    }
    files.write_json(out / "training.json", record | trained_by(profile, start))


def trained_by(profile: Profile, start: dict[str, Any]) -> dict[str, Any]:
    """Profile, code and provenance: what evidence has to say, and no training depends on."""
    return {
        "profile": profile.name,
        "profile_sha256": profile_digest(profile),
        "code_digest": code_digest(SCRIPT),
        "provenance": provenance.collect(start),
    }


class DevMeasure:
    """Held-out raw L1 and agreement per slot at every checkpoint, always on the same noise."""

    def __init__(
        self, target: Target, adapter: Adapter, settings: AdapterSettings, corpus: Path
    ) -> None:
        optimiser = settings.optimiser
        self._every, self._key = optimiser.checkpoint_every, (optimiser.seed, "eval_noise", 0)
        self._windows = read_windows(corpus, "dev", optimiser.window)[: optimiser.batch_size]
        self._task = AdapterTask(target, adapter, self._windows, settings)

    def __call__(self, step: int) -> History | None:
        if step % self._every:
            return None
        quality = slot_quality(self._task, self._windows, random_key(*self._key))
        return {
            f"dev_{name}_slot{slot}": value
            for name, values in quality.items()
            for slot, value in enumerate(values.tolist(), start=1)
        }
