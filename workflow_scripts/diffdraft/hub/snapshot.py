"""A snapshot of the hub on this machine: is it the pinned one?

Where a folder says which revision it is, that decides: a snapshot in the hub's cache by its place
(models--OWNER--NAME/snapshots/REVISION), a folder that `hf download --local-dir` made by the
records it keeps. A plain folder says nothing; then its configuration, its dtype and its weights
must fit the profile, and the SHA-256 of every file is recorded so that it can be told later.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

from diffdraft import files
from diffdraft.config_hub import HubTarget, Revision
from diffdraft.errors import UserError
from diffdraft.weight_files import DTYPES, main_dtype, parameters
from diffdraft.weight_folder import INDEX, named_weights, read_stored

CACHE = "a snapshot in the hub's cache"
RECORD = "the records of a download"
UNKNOWN = "nothing: a plain folder"
NEEDED = ("config.json", "tokenizer.json", "tokenizer_config.json")
# And what else `mlx_lm.load` reads. Other JSON in a snapshot, such as a record of how somebody
# trained it, would be taken for this project's own.
SETTINGS = (*NEEDED, INDEX, "generation_config.json", "special_tokens_map.json")
CODE = ("auto_map", "model_file", "custom_pipelines")
LEFT_OUT = ("model.visual", "vision_tower", "mtp.", "model.mtp.", "language_model.mtp.")


class Origin(NamedTuple):
    """What a folder says of itself: repository and revision where known, and known by what."""

    repo: str | None
    revision: Revision | None
    known_by: str


def cache_folder() -> Path:
    """The hub's cache, by the variables that `huggingface_hub` goes by."""
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()


def cached_snapshot(repo: str, revision: str, kind: str = "models") -> Path:
    """Where the cache holds a snapshot, if it does."""
    return cache_folder() / f"{kind}--{repo.replace('/', '--')}" / "snapshots" / revision


def origin_of(folder: Path) -> Origin:
    """Which snapshot a folder says that it is."""
    place = folder.absolute()
    kind, _, repo = place.parent.parent.name.partition("--")
    if place.parent.name == "snapshots" and kind in ("models", "datasets"):
        return Origin(repo.replace("--", "/"), place.name, CACHE)
    records = sorted((folder / ".cache/huggingface/download").rglob("*.metadata"))
    revisions = {files.read_text(record).split("\n", 1)[0].strip() for record in records}
    if len(revisions) > 1:
        found = ", ".join(sorted(revisions))
        raise UserError(folder, "revision", found, "files of one revision")
    return Origin(None, revisions.pop(), RECORD) if revisions else Origin(None, None, UNKNOWN)


def check_origin(folder: Path, repo: str, revision: str) -> Origin:
    """What a folder says of itself. Raises `UserError` if that is not the pinned snapshot."""
    origin = origin_of(folder)
    if origin.repo not in (None, repo):
        raise UserError(folder, "repo", origin.repo, repo, "It is another model or data set")
    if origin.revision not in (None, revision):
        raise UserError(folder, "revision", origin.revision, f"{revision}, as pinned")
    return origin


def check_model(folder: Path, target: HubTarget) -> dict[str, Any]:
    """What is recorded of a model folder that fits the profile, without its files' hashes.

    Raises:
        UserError: a file missing or not whole, another snapshot, code in the configuration, or a
            configuration, dtype or number of tensors and parameters other than the profile's.
    """
    if not folder.is_dir():
        raise UserError(folder, "folder", "nothing there", "a model folder")
    origin = check_origin(folder, target.repo, target.revision)
    _check_settings(folder, target)
    found = _check_weights(folder, target)
    return {
        "repo": target.repo,
        "revision": origin.revision,
        "revision_known_by": origin.known_by,
        "dtype": target.dtype,
        **found,
    }


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON file of settings by name. Raises `UserError` for another one, or one with code."""
    found = files.read_json(path)
    if not isinstance(found, dict):
        raise UserError(path, "file", "no settings", "settings by name")
    text = found.get("text_config", {})
    if not isinstance(text, dict):
        raise UserError(path, "text_config", text, "settings by name")
    for name in CODE:
        for place, within in (("", found), ("text_config.", text)):
            if name in within:
                raise UserError(path, place + name, within[name], "no code beside the weights")
    return found


def _check_settings(folder: Path, target: HubTarget) -> None:
    for name in NEEDED:
        if not (folder / name).is_file():
            raise UserError(folder / name, "file", "nothing there", "a model folder with it")
    for name in SETTINGS:
        if (folder / name).is_file():
            read_settings(folder / name)
    path = folder / "config.json"
    config = read_settings(path)
    text = config.get("text_config", config)
    for name, pinned in target.architecture.model_dump().items():
        found = text.get(name, config.get(name))
        # What is left unsaid has its default, and the count of parameters tells the rest.
        if found is not None and found != pinned:
            raise UserError(path, name, found, f"{pinned}, as in the profile")


def _check_weights(folder: Path, target: HubTarget) -> dict[str, int]:
    """The numbers of tensors and parameters of the text model, which are the profile's."""
    stored = read_stored(folder, named_weights(folder))
    tied = target.architecture.tie_word_embeddings
    text = {name: tensor for name, tensor in stored.items() if _is_loaded(name, tied)}
    for field, found, pinned in (
        ("dtype", main_dtype(text), DTYPES[target.dtype]),
        ("tensors", len(text), target.tensors),
        ("parameters", parameters(text), target.parameters),
    ):
        if found != pinned:
            raise UserError(folder, field, found, f"{pinned} in the text model, as in the profile")
    return {"tensors": target.tensors, "parameters": target.parameters}


def _is_loaded(name: str, tied: bool) -> bool:
    """`mlx_lm` leaves out the vision tower, the multi-token head and the copy of a tied head."""
    return not name.startswith(LEFT_OUT) and not (tied and name.endswith("lm_head.weight"))
