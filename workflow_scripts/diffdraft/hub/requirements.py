"""What a run of a hub profile needs, and what of it is missing. Runs no model and needs no MLX."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from diffdraft.config import HubCorpus, HubTarget, Profile, of_kind
from diffdraft.disk import existing
from diffdraft.errors import UserError
from diffdraft.hub.download import command
from diffdraft.hub.estimates import GB, memory, times
from diffdraft.hub.rows import parquet_of, part_files
from diffdraft.hub.snapshot import (
    cache_folder,
    cached_snapshot,
    check_model,
    check_origin,
    origin_of,
)
from diffdraft.hub.web_file import check_scheme, is_address
from diffdraft.prereg.adapter_evidence import ADAPTER_TAGS
from diffdraft.prereg.amendments import load_amended_plan
from diffdraft.prereg.planned_profile import require_sample
from diffdraft.prereg.registry import STUDIES

COMMITTED = "committed"


class Given(NamedTuple):
    """What the configuration gives from this machine, each None where it gives nothing."""

    model: Path | None = None
    text: Path | None = None
    adapter: str | None = None


class Need(NamedTuple):
    """One thing that a run needs: its name, what is there, and the error where it is missing."""

    name: str
    said: str
    error: UserError | None = None


def needs(profile: Profile, given: Given, prereg: Path, studies: tuple[str, ...]) -> list[Need]:
    """Model, text and the plans' samples, in the order in which a run comes to miss them."""
    checks: dict[str, Callable[[], str]] = {
        "model": lambda: _model(profile, given.model),
        "text": lambda: _text(profile, given.text),
    }
    for study in studies:
        checks[f"plan of {study}"] = lambda study=study: _sample(  # type: ignore[misc]
            profile, given.model, prereg / f"{study}.yaml"
        )
    return [_need(name, check) for name, check in checks.items()]


def refuse_missing(profile: Profile, given: Given, prereg: Path, studies: tuple[str, ...]) -> None:
    """Before hours are spent on a study without a plan, end with the first thing that is missing.

    A model or text alone is not missing yet: a rule fetches it. Raises `UserError`.
    """
    found = needs(profile, given, prereg, studies)
    if any(need.error for need in found if need.name.startswith("plan")):
        raise next(need.error for need in found if need.error)


def explain(profile: Profile, given: Given, prereg: Path) -> Iterator[str]:
    """Lines that tell what a run needs: what is there and missing, disk, memory and time."""
    yield f"What a run of the profile {profile.name} needs:"
    found = needs(profile, given, prereg, tuple(STUDIES))
    adapter = _need("adapter", lambda: _adapter(profile, given.adapter))
    for need in (*found, adapter):
        told = f"MISSING: {need.error}" if need.error else need.said
        yield f"  {need.name}: {told}"
    yield f"  disk: {_disk(profile, found[0])}"
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield f"  memory: {here / GB:.0f} GB here"
    for line in memory(_target(profile)):
        yield f"  memory: {line}"
    for line in times(profile, prereg, _trained(given.adapter)):
        yield f"  time: {line}"


def _need(name: str, check: Callable[[], str]) -> Need:
    try:
        return Need(name, check())
    except UserError as error:
        return Need(name, "", error)


def _target(profile: Profile) -> HubTarget:
    return of_kind(HubTarget, profile.target, "target")


def _folder(profile: Profile, model: Path | None) -> Path:
    """Where the model is, or would be once it is fetched."""
    target = _target(profile)
    return model or cached_snapshot(target.repo, target.revision)


def _model(profile: Profile, model: Path | None) -> str:
    target, folder = _target(profile), _folder(profile, model)
    if model is None and not folder.is_dir():
        size = f"{target.weight_bytes / GB:.1f} GB"
        fetch = f"{command(target.repo, target.revision)} ({size}), or --config model=FOLDER"
        raise UserError(
            target.repo,
            "snapshot",
            "not in the hub's cache",
            target.revision,
            f"Get it by: {fetch}",
        )
    known_by = check_model(folder, target)["revision_known_by"]
    return f"{folder}, fits the profile; its revision is known by {known_by}"


def _text(profile: Profile, text: Path | None) -> str:
    corpus = of_kind(HubCorpus, profile.corpus, "corpus")
    folder = text or cached_snapshot(corpus.dataset, corpus.revision, "dataset")
    if text is None and not folder.is_dir():
        fetch = command(corpus.dataset, corpus.revision, "dataset", parquet_of(corpus))
        action = f"Get it by: {fetch}, or --config text=FOLDER"
        found = "not in the hub's cache"
        raise UserError(corpus.dataset, "snapshot", found, corpus.revision, action)
    check_origin(folder, corpus.dataset, corpus.revision, "dataset")
    files = [
        path for piece in corpus.splits.values() for path in part_files(folder, corpus, piece.part)
    ]
    if any(path.suffix == ".parquet" for path in files) and not _installed("pyarrow"):
        found, action = "not installed", "Get it by: make hub"
        raise UserError("pyarrow", "package", found, "what reads Parquet", action)
    return f"{folder}, {len(set(files))} files"


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _sample(profile: Profile, model: Path | None, file: Path) -> str:
    plan = load_amended_plan(file)  # one that is no plan is told as that
    try:
        require_sample(file, profile.name)
    except UserError as error:
        told = (error.field, error.found, error.expected)
        raise UserError(file, *told, f"Amend it by: {amendment(file, profile.name)}") from None
    planned = plan.models.get(profile.name)
    if planned and planned.revision:
        _check_revision(_folder(profile, model), planned.revision, file)
    return f"{file}, with a sample for it"


def _check_revision(folder: Path, pinned: str, plan: Path) -> None:
    """Refuse a folder that is there and does not say that it is the planned revision."""
    if folder.is_dir() and (found := origin_of(folder).revision) != pinned:
        told = found or "not said by this folder"
        action = "Give the hub's snapshot, or a folder of `hf download --local-dir`, which say it"
        raise UserError(folder, "revision", told, f"{pinned}, as {plan} has it", action)


def amendment(plan: Path, profile: str) -> str:
    """The shape of the command that plans a study for a profile."""
    changes = " ".join(f"--change {key}.{profile} YAML" for key in ("samples", "models"))
    return f"workflow_scripts/amend.py {plan} --reason TEXT --seen TEXT {changes}"


def _adapter(profile: Profile, source: str | None) -> str:
    drafter = _target(profile).drafter
    name = f"{drafter.file}, {drafter.bytes:,} bytes, licence: {drafter.licence}"
    if source is None:
        return f"trained here; --config adapter=FILE-OR-URL takes the published one ({name})"
    if source == COMMITTED:
        return "the committed one"
    if is_address(source):
        check_scheme(source)
    elif not Path(source).is_file():
        raise UserError(source, "file", "nothing there", f"an adapter, such as {name}")
    return f"{source}, to be verified and bound to the target"


def _trained(source: str | None) -> set[str]:
    """The adapters that a run trains; a file or URL is the primary one."""
    if source == COMMITTED:
        return set()
    return set(ADAPTER_TAGS) - ({"primary"} if source else set())


def _disk(profile: Profile, model: Need) -> str:
    place = existing(cache_folder())
    free = f"{shutil.disk_usage(place).free / GB:.0f} GB free"
    if model.error is None:
        return f"the weights are linked, not copied; {free}"
    return f"{_target(profile).weight_bytes / GB:.1f} GB for the weights; {free} in {place}"
