"""Make the model folder of a hub profile: links to the weights of the pinned snapshot.

`weights.json` is written last and says which snapshot it is, how that is known, the SHA-256 of
every file, and the fingerprint of the text model that they hold.
"""

import shutil
from pathlib import Path

from diffdraft import files
from diffdraft.config_hub import HubTarget
from diffdraft.disk import full_disk_told
from diffdraft.hub.download import MODEL_PATTERNS, download
from diffdraft.hub.snapshot import check_model
from diffdraft.targets.load import load_target
from diffdraft.weight_folder import named_weights

RECORD = "weights.json"


def make_target(target: HubTarget, model: Path | None, out: Path) -> None:
    """Fill the folder `out` from the folder `model`, or from the hub (its cache first).

    Raises `UserError` for a folder that does not fit the profile, a hub that does not answer, or a
    full disk.
    """
    folder = model or download(
        target.repo, target.revision, MODEL_PATTERNS, n_bytes=target.weight_bytes
    )
    record = check_model(folder, target)
    sources = [*sorted(folder.glob("*.json")), *named_weights(folder)]
    with full_disk_told(out):
        out.mkdir(parents=True, exist_ok=True)
        clear(out)
        for source in sources:
            place(source, out)
        hashes = {source.name: described(source) for source in sources}
        # The weights are read twice here, once and for all: whoever asks what an adapter or a study
        # belongs to reads this record.
        fingerprint = load_target(out).fingerprint
        files.write_json(out / RECORD, {**record, "files": hashes, "fingerprint": fingerprint})


def clear(out: Path) -> None:
    """Take away what an earlier snapshot left; its record first, so that no half is taken whole."""
    for path in (out / RECORD, *out.glob("*.json"), *out.glob("*.safetensors")):
        path.unlink(missing_ok=True)


def place(source: Path, out: Path) -> None:
    """Link weights, which are large; copy settings, whose file times rules go by."""
    if source.suffix == ".safetensors":
        (out / source.name).symlink_to(source.resolve())
        return
    with files.atomic(out / source.name) as temporary:
        shutil.copyfile(source, temporary)


def described(path: Path) -> dict[str, int | str]:
    """Size and SHA-256 of a file."""
    return {"bytes": path.stat().st_size, "sha256": files.sha256_file(path)}
