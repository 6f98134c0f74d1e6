"""A snapshot of the hub on this machine: is it the pinned one?

Where a folder says which revision it is, that decides: a snapshot in the hub's cache by its place
(models--OWNER--NAME/snapshots/REVISION), a folder that `hf download --local-dir` made by the
records it keeps. A plain folder says nothing; then its configuration, its dtype and its weights
must fit the profile, and the SHA-256 of every file is recorded so that it can be told later.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from diffdraft import files
from diffdraft.config_hub import HubTarget, Revision
from diffdraft.errors import UserError
from diffdraft.settings_files import NEEDED, SETTINGS, read_settings
from diffdraft.weight_files import DTYPES, main_dtype, parameters
from diffdraft.weight_folder import named_weights, read_stored

CACHE = "a snapshot in the hub's cache"
RECORD = "the records of a download"
UNKNOWN = "nothing: a plain folder"
LEFT_OUT = ("model.visual", "vision_tower", "mtp.", "model.mtp.", "language_model.mtp.")


class Origin(NamedTuple):
    """What a folder says of itself: repository and revision where known, and known by what."""

    repo: str | None
    revision: Revision | None
    known_by: str


def cache_folder() -> Path:
    """The hub's cache, by the variables that `huggingface_hub` goes by, in its order."""
    above = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{above}/huggingface"
    older = os.environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(os.environ.get("HF_HUB_CACHE") or older)).expanduser()


def cached_snapshot(repo: str, revision: str, kind: str = "model") -> Path:
    """Where the cache holds a snapshot of a model or dataset, if it does."""
    return cache_folder() / f"{kind}s--{repo.replace('/', '--')}" / "snapshots" / revision


def origin_of(folder: Path, kind: str = "model") -> Origin:
    """Which snapshot a folder says that it is, or the folder that holds it.

    Links and `..` are followed. Raises `UserError` for files of several revisions, and for a
    snapshot of another kind.
    """
    lines = [[place, *place.parents] for place in (folder.absolute(), folder.resolve())]
    cached = {found for line in lines for place in line if (found := _cached(place, kind))}
    recorded = {revision for line in lines for revision in _recorded(line)}
    revisions = {origin.revision for origin in cached} | recorded
    if len(revisions) > 1 or len(cached) > 1:
        told = sorted(str(revision) for revision in revisions)
        raise UserError(folder, "revision", ", ".join(told), "files of one revision")
    if cached:
        return cached.pop()
    return Origin(None, recorded.pop(), RECORD) if recorded else Origin(None, None, UNKNOWN)


def _cached(place: Path, kind: str) -> Origin | None:
    """What a place in a cache is called by; none for a place that is in no cache."""
    found, _, repo = place.parent.parent.name.partition("--")
    if place.parent.name != "snapshots" or found not in ("models", "datasets"):
        return None
    if found != f"{kind}s":
        raise UserError(place, "kind", found.removesuffix("s"), kind, "It is something else")
    return Origin(repo.replace("--", "/"), place.name, CACHE)


def _recorded(line: list[Path]) -> Iterator[str]:
    """The revisions in the records of a download into a folder, or into one above it."""
    folder = line[0]
    for above in line:
        records = above / ".cache/huggingface/download" / folder.relative_to(above)
        for record in sorted(records.rglob("*.metadata")):
            yield files.read_text(record).split("\n", 1)[0].strip()


def check_origin(folder: Path, repo: str, revision: str, kind: str = "model") -> Origin:
    """What a folder says of itself. Raises `UserError` if that is not the pinned snapshot."""
    origin = origin_of(folder, kind)
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
        "repo": origin.repo,
        "revision": origin.revision,
        "revision_known_by": origin.known_by,
        "dtype": target.dtype,
        **found,
    }


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
