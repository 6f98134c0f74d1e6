"""Trained adapters of a few bytes in a small repository, as the training rule leaves them."""

import json
import shutil
import struct
from pathlib import Path

from diffdraft import files, provenance
from diffdraft.config import load_profile
from diffdraft.prereg.adapter_evidence import IN_THE_FILE
from diffdraft.prereg.promote_adapters import promote_adapters
from diffdraft.profile_digest import profile_digest

from .repositories import PROFILE, Repository

TAGS = ("primary", "replication", "primary_shuffled")
ADAPTERS = f"results/{PROFILE}/adapters"
SETTINGS = Path(__file__).parents[2] / "config" / "profiles" / f"{PROFILE}.yaml"
TARGET = "f" * 64
STEPS = 3


def safetensors(metadata: dict) -> bytes:
    """A file of one tensor; its bytes differ with the metadata only."""
    tensor = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
    header = json.dumps({"__metadata__": metadata, "a.lora_a": tensor}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16)


class Trained(Repository):
    """A repository with a profile, a target and adapters that are not promoted yet."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.profile = path / "config" / "profiles" / SETTINGS.name
        self.adapters = self.build / "adapters"
        self.evidence = path / ADAPTERS

    def train(self) -> None:
        """Commit the profile, and leave a target and all adapters in build/."""
        self.start()
        self.profile.parent.mkdir(parents=True)
        shutil.copy(SETTINGS, self.profile)
        self.commit("a profile")
        files.write_json(self.build / "target" / "training.json", {"fingerprint": TARGET})
        for tag in TAGS:
            self.write(tag)

    def write(self, tag: str, **changes: object) -> None:
        """One adapter; `changes` go over its record, and over its provenance where named so."""
        folder = self.adapters / tag
        origin = provenance.collect(provenance.begin(None, self.path), None, self.path)
        origin |= {key: changes.pop(key) for key in list(changes) if key in origin}
        stated = {"arm": tag, "block_size": 8, "step": STEPS, "seed": 1}
        stated |= {"config_hash": "c" * 64, "target_fingerprint": TARGET}
        stated |= {key: changes[key] for key in IN_THE_FILE if key in changes}
        folder.mkdir(parents=True, exist_ok=True)
        text = {name: str(value) for name, value in stated.items()}
        (folder / "adapter.safetensors").write_bytes(safetensors(text))
        rows = [f"{step},0.5" for step in range(1, STEPS + 1)]
        files.write_text(folder / "training.csv", "\n".join(["step,loss", *rows]) + "\n")
        record = {
            **stated,
            "study": "rprm",
            "sha256": files.sha256_file(folder / "adapter.safetensors"),
            "profile": PROFILE,
            "profile_sha256": profile_digest(load_profile(SETTINGS)),
            "provenance": origin,
        }
        files.write_json(folder / "training.json", record | changes)

    def change_profile(self) -> str:
        """Commit other settings."""
        text = self.profile.read_text()
        changed = text.replace("vocab_size: 1024", "vocab_size: 1023")
        assert changed != text
        self.profile.write_text(changed)
        return self.commit("another profile")

    def promote(self) -> Path:
        return promote_adapters(self.path, PROFILE)

    def promote_study(self) -> Path:
        return super().promote()

    def _write_models(self) -> None:
        """A study is measured with what was trained."""
