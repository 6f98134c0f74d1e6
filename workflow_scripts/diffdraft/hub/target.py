"""Make the model folder of a hub profile: links to the weights of the pinned snapshot.

`weights.json` says which snapshot it is, how that is known, the SHA-256 of every file, and the
fingerprint of the text model that they hold. The folder is whole or absent.
"""

import shutil
from pathlib import Path

from diffdraft import files
from diffdraft.config_hub import HubTarget
from diffdraft.errors import UserError
from diffdraft.hub.download import MODEL_PATTERNS, download
from diffdraft.hub.snapshot import check_model
from diffdraft.settings_files import SETTINGS
from diffdraft.target_record import HUB_RECORD
from diffdraft.targets.load import load_target
from diffdraft.weight_folder import named_weights
from diffdraft.whole_folder import check_replaceable, whole_folder

NAMES = (*SETTINGS, HUB_RECORD, "*.safetensors")


def make_target(target: HubTarget, model: Path | None, out: Path) -> None:
    """Make the folder `out` from the folder `model`, or from the hub (its cache first).

    An older folder is replaced if this made it. Raises `UserError` for one that holds something
    else, or is the source; a folder that does not fit the profile; a hub that does not answer; or a
    full disk.
    """
    check_made_here(out)
    folder = model or download(
        target.repo, target.revision, MODEL_PATTERNS, n_bytes=target.weight_bytes
    )
    check_apart(folder, out)
    record = check_model(folder, target)
    settings = (folder / name for name in SETTINGS)
    sources = [*(path for path in settings if path.is_file()), *named_weights(folder)]
    with whole_folder(out, NAMES) as temporary:
        for source in sources:
            place(source, temporary)
        hashes = {source.name: files.described(source) for source in sources}
        # The weights are read twice here, once and for all: whoever asks what an adapter or a study
        # belongs to reads this record.
        fingerprint = load_target(temporary).fingerprint
        files.write_json(
            temporary / HUB_RECORD, {**record, "files": hashes, "fingerprint": fingerprint}
        )


def check_made_here(out: Path) -> None:
    """Refuse to replace a folder of somebody's own.

    Weights are only linked here, and settings only copied: a model folder with weights of its own
    is not from here, nor is a snapshot in the hub's cache, which is links alone.
    """
    check_replaceable(out, NAMES)
    for path in sorted(out.glob("*")):
        if path.is_symlink() != (path.suffix == ".safetensors") or path.is_dir():
            found = f"{path.name}, which was not made here"
            raise UserError(out, "folder", found, "an empty folder, or one of links to weights")


def check_apart(folder: Path, out: Path) -> None:
    """Refuse to make a folder from itself."""
    if folder.resolve() == out.resolve():
        raise UserError(out, "folder", "the model folder itself", "another folder to write to")


def place(source: Path, out: Path) -> None:
    """Link weights, which are large; copy settings, whose file times rules go by."""
    if source.suffix == ".safetensors":
        (out / source.name).symlink_to(source.resolve())
        return
    with files.atomic(out / source.name) as temporary:
        shutil.copyfile(source, temporary)
