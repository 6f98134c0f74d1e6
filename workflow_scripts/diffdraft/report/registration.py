"""What was registered of a study: its plan and its amendments, with their dates in the ledger."""

from dataclasses import dataclass, replace
from pathlib import Path

from diffdraft import files
from diffdraft.prereg import ledger
from diffdraft.prereg.amendments import amendment_files, load_amendment


@dataclass(frozen=True)
class PlanFile:
    """A plan or an amendment; `frozen` is the date in the ledger, empty if it has no line there.

    An amendment also has its `reason` and the words of its `changes`.
    """

    file: str
    sha256: str
    frozen: str
    reason: str = ""
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Registration:
    """A plan and its amendments, in order."""

    files: list[PlanFile]


def registration(path: Path) -> Registration:
    """A plan and its amendments with their dates in the ledger beside them."""
    entries = ledger.read(path.parent)
    amendments = amendment_files(path.parent, path.stem)
    return Registration(
        [_plan_file(path, entries), *(_amendment_file(file, entries) for file in amendments)]
    )


def _amendment_file(path: Path, entries: list[ledger.Entry]) -> PlanFile:
    amendment = load_amendment(path)
    changes = tuple(change.words() for change in amendment.changes)
    return replace(_plan_file(path, entries), reason=amendment.reason, changes=changes)


def _plan_file(path: Path, entries: list[ledger.Entry]) -> PlanFile:
    digest = files.sha256_file(path)
    entry = ledger.find(entries, path.name)
    frozen = entry.date if entry is not None and entry.sha256 == digest else ""
    return PlanFile(path.name, digest, frozen)
