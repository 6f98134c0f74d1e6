"""Freeze a plan; add an amendment to a frozen one. Neither ever edits a plan."""

from collections.abc import Collection, Iterable
from pathlib import Path

from diffdraft.config import load_profile
from diffdraft.errors import UserError
from diffdraft.prereg import ledger
from diffdraft.prereg.amendments import (
    Amendment,
    Change,
    amendment_name,
    check_chain,
    effective,
    load_amendment,
)
from diffdraft.prereg.ledger import Entry
from diffdraft.prereg.reading import fit
from diffdraft.prereg.registry import check_settings
from diffdraft.prereg.schema import load_plan


def evidence(
    plan: Path, results: Path | None, study: str, profiles: Collection[str] = ()
) -> list[Path]:
    """Folders of committed evidence of a study, of some profiles or of all.

    `results` is by default beside `prereg`.
    """
    results = results or _repository(plan) / "results"
    found = sorted(results.glob(f"*/{study}"))
    return [path for path in found if not profiles or path.parent.name in profiles]


def freeze(path: str | Path, results: Path | None = None) -> Entry:
    """Register a plan's bytes in the ledger beside it.

    Raises `UserError` if the plan is invalid, is already frozen, or its study has results.
    """
    path = Path(path)
    plan = load_plan(path)
    check_settings(plan, path)
    entry = ledger.find(ledger.read(path.parent), path.name)
    if entry is not None:
        raise UserError(
            path, "ledger", f"frozen on {entry.date}", "a plan not frozen yet", "See amend.py"
        )
    for existing in evidence(path, results, plan.study):
        raise UserError(path, "results", existing, "no results before the plan is frozen")
    return ledger.append(path.parent, "freeze", path)


def amend(
    path: str | Path, reason: str, seen: str, changes: list[Change], results: Path | None = None
) -> Path:
    """Write the next amendment of a frozen plan beside it and register it; returns its path.

    Raises `UserError` if the plan or an earlier amendment is not frozen, or a change touches what
    only a new study may change, or plans for a profile that `config/profiles` does not have: what
    is registered stays, a misspelt name too.
    """
    path = Path(path)
    plan = load_plan(path)
    chain = check_chain(path.parent, plan.study)
    number = len(chain) + 1
    before = path if number == 1 else path.with_name(amendment_name(plan.study, number - 1))
    value = {
        "study": plan.study,
        "amendment": number,
        "parent": ledger.require_frozen(before).sha256,
        "reason": reason,
        "seen": seen,
        "results_existed": False,
        "changes": [change.model_dump() for change in changes],
    }
    draft = fit(Amendment, value, path)
    existing = evidence(path, results, plan.study, draft.profiles())
    amendment = draft.model_copy(update={"results_existed": bool(existing)})
    planned, amended = (effective(plan, some, path) for some in (chain, [*chain, amendment]))
    _check_profiles(path, amended.samples.keys() - planned.samples.keys())
    return _register(path.with_name(amendment_name(plan.study, number)), amendment)


def _repository(plan: Path) -> Path:
    return plan.resolve().parent.parent


def _check_profiles(plan: Path, names: Iterable[str]) -> None:
    """Raise `UserError` unless each new profile is one of the repository that the plan is in."""
    folder = _repository(plan) / "config" / "profiles"
    for name in sorted(names):
        if not (folder / f"{name}.yaml").is_file():
            known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none there"
            raise UserError(plan, f"samples.{name}", "no such profile", f"one of {folder}: {known}")
        load_profile(folder / f"{name}.yaml")


def _register(path: Path, amendment: Amendment) -> Path:
    path.write_text(amendment.to_yaml(), encoding="utf-8", newline="\n")
    try:
        load_amendment(path)
        ledger.append(path.parent, "amend", path, amendment.parent)
    except BaseException:
        path.unlink()  # an amendment is registered, or not there at all
        raise
    return path
