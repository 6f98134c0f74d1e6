"""Fetch from the hub: pinned by revision, data only, and one line when it does not answer."""

from collections.abc import Sequence
from pathlib import Path

from diffdraft.disk import check_room, full_disk_told
from diffdraft.errors import UserError
from diffdraft.hub.snapshot import cache_folder, cached_snapshot

MODEL_PATTERNS = ("*.safetensors", "*.json")


def command(repo: str, revision: str, kind: str = "model", include: str = "") -> str:
    """The command that fetches a snapshot into the hub's cache, where it is looked for."""
    dataset = " --repo-type dataset" if kind == "dataset" else ""
    only = f" --include '{include}'" if include else ""
    return f"hf download {repo} --revision {revision}{dataset}{only}"


def download(
    repo: str,
    revision: str,
    patterns: Sequence[str],
    kind: str = "model",
    include: str = "",
    n_bytes: int = 0,
) -> Path:
    """The folder of a snapshot in the cache, fetched as far as it is not there.

    `n_bytes` have to fit where nothing of it is there; `include` is for the command in the error.
    Raises `UserError` when the disk is too small or the hub does not give the snapshot. Where the
    hub does not answer and the cache has a snapshot, that is returned, whole or not.
    """
    if not cached_snapshot(repo, revision, kind).is_dir():
        check_room(cache_folder(), n_bytes)
    try:
        with full_disk_told(cache_folder()):
            return _fetched(repo, revision, patterns, kind)
    except UserError:
        raise
    # What a network can raise is not to be listed: it depends on the client below the client.
    except Exception as error:
        said = f"{type(error).__name__} {error}".splitlines()[0]
        fetch = f"Where there is a network, fetch it by: {command(repo, revision, kind, include)}"
        raise UserError(repo, "hub", said, f"the snapshot {revision}", fetch) from None


def _fetched(repo: str, revision: str, patterns: Sequence[str], kind: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # every one of its retries would be a line of its own
    found = snapshot_download(
        repo, revision=revision, repo_type=kind, allow_patterns=list(patterns)
    )
    return Path(found)
