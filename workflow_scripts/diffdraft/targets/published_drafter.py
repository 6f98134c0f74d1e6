"""A drafter from outside: verified, described, and bound to the target that it is put on.

It is the file that was published for a profile's target, pinned by size and SHA-256, or an adapter
in the project's own format. Both end up in that format. A published file says neither what target
nor what block size it is for: its shapes are checked against the target's architecture, and the
rest is taken from the profile, whose settings are those that were published for it.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from diffdraft import files
from diffdraft.config import HubTarget, Profile, of_kind
from diffdraft.config_adapters import AdapterSettings
from diffdraft.config_hub import HubArchitecture, PublishedDrafter
from diffdraft.errors import UserError
from diffdraft.hub.web_file import download_file, is_address, verify_file
from diffdraft.layers.adapter_file import read_adapter, read_spec, save_adapter
from diffdraft.layers.adapter_layouts import own_names, placement_of, rank_of
from diffdraft.layers.lora import Adapter, AdapterSpec
from diffdraft.layers.tensors import Tensors, load_tensors
from diffdraft.targets.architecture import build
from diffdraft.targets.load import load_target
from diffdraft.training.adapter import adapter_spec
from diffdraft.training.stated import check_stated
from diffdraft.weight_files import read_metadata

TAG = "primary"
STUDY = "act4s"
# An adapter of our own may be of a higher rank than the published file, or keep other things.
MOST_TIMES_PUBLISHED = 16


class Given(NamedTuple):
    """An adapter from outside by our names; `metadata` where it is in our own format."""

    tensors: Tensors
    spec: AdapterSpec
    metadata: dict[str, str] | None


def fetch_adapter(
    profile: Profile, source: str, target: Path | None = None, out: Path | None = None
) -> dict[str, Any]:
    """Verify the adapter at `source` and return what it is; `out` is the folder to write it to.

    Raises:
        UserError: a file of another size or digest, an adapter of another rank or placement, or
            for another depth, width or target; one of this project that is not the profile's
            primary one; an address that does not answer; a full disk; or a folder to write to and
            no target.
    """
    hub = of_kind(HubTarget, profile.target, "target")
    settings = next(each for tag, each in profile.adapters.items() if tag == TAG)
    if out is not None and target is None:
        raise UserError("--target", "folder", "nothing", "the target to bind the adapter to")
    with _at_hand(source, hub.drafter) as path:
        given = read_given(path, hub.drafter, settings)
        record = describe(path, given.tensors, given.spec) | {"source": source}
        adapter = fitted(path, given.tensors, given.spec, hub.architecture)
        if target is not None:
            fingerprint = load_target(target).fingerprint
            check_bound(path, given.metadata or {}, fingerprint)
            published = published_metadata(settings, record, fingerprint)
            record |= {"metadata": given.metadata or published}
        if given.metadata is not None:
            check_stated(path, given.metadata, TAG, settings)
    if out is not None:
        save_adapter(out / "adapter.safetensors", adapter, record["metadata"])
        files.write_json(out / "fetched.json", record)
    return record


@contextmanager
def _at_hand(source: str, drafter: PublishedDrafter) -> Iterator[Path]:
    """The file of a path, or that of an address for as long as it is looked at.

    What is wrong with a downloaded file is told of its address.
    """
    if not is_address(source):
        yield Path(source)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / drafter.file
        download_file(source, MOST_TIMES_PUBLISHED * drafter.bytes, path)
        try:
            yield path
        except UserError as error:
            file = source if error.file == str(path) else error.file
            told = (error.field, error.found, error.expected, error.action)
            raise UserError(file, *told) from None


def read_given(path: Path, drafter: PublishedDrafter, settings: AdapterSettings) -> Given:
    """The adapter in a file: what it says of itself decides whether it is one of our own.

    Raises `UserError` for any other file than the published one: its size is looked at first.
    """
    if "spec" in read_metadata(path):
        tensors, metadata = read_adapter(path)
        return Given(tensors, read_spec(path, metadata), metadata)
    verify_file(path, drafter.bytes, drafter.sha256)
    return Given(own_names(path, load_tensors(path)[0]), adapter_spec(settings), None)


def check_bound(path: Path, metadata: dict[str, str], fingerprint: str) -> None:
    """Raise `UserError` for an adapter that says that it belongs to another target."""
    stated = metadata.get("target_fingerprint", fingerprint)
    if stated != fingerprint:
        action = "It belongs to another target"
        raise UserError(path, "metadata.target_fingerprint", stated, fingerprint, action)


def describe(path: Path, tensors: Tensors, spec: AdapterSpec) -> dict[str, Any]:
    """What an adapter's tensors (by our names) are. Raises `UserError` unless they fit the spec."""
    rank, placement = rank_of(path, tensors), placement_of(path, tensors)
    for field, found, expected in (
        ("rank", rank, spec.rank),
        ("placement", sorted(placement), sorted(spec.placement)),
    ):
        if found != expected:
            raise UserError(path, field, found, f"{expected}, as in the profile")
    return {
        "tensors": len(tensors),
        "modules": len({name.rsplit(".", 1)[0] for name in tensors}),
        "parameters": sum(tensor.size for tensor in tensors.values()),
        "rank": rank,
        "placement": list(placement),
        "bytes": path.stat().st_size,
        "sha256": files.sha256_file(path),
    }


def fitted(
    path: Path, tensors: Tensors, spec: AdapterSpec, architecture: HubArchitecture
) -> Adapter:
    """An adapter of these tensors on a model of this architecture, whose weights are never made.

    Raises `UserError` for a module that is missing or unknown (another depth), or another shape
    (another width).
    """
    adapter = Adapter.attach(build(architecture.model_dump()), spec)
    expected = {name: tensor.shape for name, tensor in adapter.tensors.items()}
    depth = f"{architecture.num_hidden_layers} layers"
    for field, names in (
        ("missing", set(expected) - set(tensors)),
        ("unknown", set(tensors) - set(expected)),
    ):
        if names:
            action = "It is for a target of another depth"
            raise UserError(path, min(names), field, f"the modules of {depth}", action)
    for name, tensor in sorted(tensors.items()):
        if tensor.shape != expected[name]:
            found, action = f"shape {tensor.shape}", "It is for a target of another width"
            raise UserError(path, name, found, f"shape {expected[name]}", action)
    adapter.assign(tensors)
    return adapter


def published_metadata(
    settings: AdapterSettings, record: dict[str, Any], fingerprint: str
) -> dict[str, Any]:
    """What the profile says of the published drafter; its digest stands for its configuration."""
    return {
        "study": STUDY,
        "arm": TAG,
        "step": settings.optimiser.steps,
        "seed": settings.optimiser.seed,
        "block_size": settings.block_size,
        "config_hash": record["sha256"],
        "target_fingerprint": fingerprint,
    }
