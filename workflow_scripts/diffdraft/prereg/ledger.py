"""`prereg/ledger.jsonl`: which plan had which bytes when it was frozen, as a hash chain.

Each line is one JSON object, written in one canonical way, that carries the hash of the line
before it and its own. Removing, reordering or changing a line therefore breaks the chain, except
for removing lines at the end: `extends` finds that against an earlier copy, and a plan whose line
is gone is a plan that is not frozen.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, PositiveInt, StringConstraints

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg.criteria import Strict
from diffdraft.prereg.reading import fit

FIRST = "0" * 64  # what the first line gives as the hash of the line before it
LEDGER = "ledger.jsonl"

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]*\.yaml$")]


class Entry(Strict):
    """One line. `parent` is the digest of the file that an amendment amends."""

    seq: PositiveInt
    event: Literal["freeze", "amend"]
    file: FileName
    sha256: Digest
    bytes: PositiveInt
    parent: Digest | None
    date: Annotated[str, Field(min_length=20)]
    previous: Digest
    hash: Digest

    @property
    def when(self) -> datetime:
        return datetime.fromisoformat(self.date)


class _Dated(Strict):
    date: Annotated[AwareDatetime, Field(strict=False)]


def canonical(value: dict[str, Any]) -> str:
    """The one way a line is written: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _line_hash(value: dict[str, Any]) -> str:
    rest = {key: item for key, item in value.items() if key != "hash"}
    return files.sha256_bytes(canonical(rest).encode())


def parse(data: bytes, file: object = LEDGER) -> list[Entry]:
    """Read a ledger and check its chain.

    Raises `UserError` naming the first line that is not what the chain needs.
    """
    text = data.decode("utf-8", errors="replace")
    if text and not text.endswith("\n"):
        raise UserError(file, "last line", "no line end", "whole lines")
    entries: list[Entry] = []
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        entries.append(_parse_line(line, entries, f"line {number}", file))
    return entries


def _parse_line(line: str, earlier: list[Entry], field: str, file: object) -> Entry:
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        raise UserError(file, field, "not JSON", "a ledger line") from None
    if not isinstance(value, dict) or canonical(value) != line:
        raise UserError(file, field, "another spelling", "the line as it was written")
    entry = fit(Entry, value, f"{file}: {field}")
    fit(_Dated, {"date": entry.date}, f"{file}: {field}")
    _check_link(entry, value, earlier, field, file)
    return entry


def _check_link(
    entry: Entry, value: dict[str, Any], earlier: list[Entry], field: str, file: object
) -> None:
    """`field` names the line in errors, of which there is one for each way to break the chain."""
    if entry.hash != _line_hash(value):
        raise UserError(file, field, "a changed line", "content that gives the line's hash")
    previous = earlier[-1].hash if earlier else FIRST
    if entry.seq != len(earlier) + 1 or entry.previous != previous:
        raise UserError(
            file,
            field,
            f"seq {entry.seq} after {entry.previous[:12]}",
            f"seq {len(earlier) + 1} after {previous[:12]}: a line was removed or moved",
        )
    if any(other.file == entry.file for other in earlier):
        raise UserError(file, field, f"{entry.file} again", "each file once")
    if earlier and entry.when < earlier[-1].when:
        raise UserError(file, field, entry.date, f"a date not before {earlier[-1].date}")


def extends(new: bytes, old: bytes) -> bool:
    """Whether `new` is `old` with lines added at its end, and nothing else."""
    return new.startswith(old)


def read(folder: str | Path) -> list[Entry]:
    """The checked entries of `folder`/ledger.jsonl; no file means no entries."""
    path = Path(folder) / LEDGER
    return parse(path.read_bytes(), path) if path.exists() else []


def append(
    folder: str | Path, event: Literal["freeze", "amend"], file: Path, parent: str | None = None
) -> Entry:
    """Register a file's bytes at the end of the ledger; the rest stays byte for byte."""
    ledger = Path(folder) / LEDGER
    earlier = read(folder)
    data = file.read_bytes()
    value: dict[str, Any] = {
        "seq": len(earlier) + 1,
        "event": event,
        "file": file.name,
        "sha256": files.sha256_bytes(data),
        "bytes": len(data),
        "parent": parent,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "previous": earlier[-1].hash if earlier else FIRST,
    }
    value["hash"] = _line_hash(value)
    before = ledger.read_bytes() if ledger.exists() else b""
    with files.atomic(ledger) as temporary:
        temporary.write_bytes(before + canonical(value).encode() + b"\n")
    return fit(Entry, value, ledger)


def find(entries: list[Entry], file: str) -> Entry | None:
    return next((entry for entry in entries if entry.file == file), None)


def frozen_entry(path: str | Path) -> Entry | None:
    """The ledger line of a file, or None for a draft.

    Raises `UserError` if the ledger beside it is broken, or the file's bytes are not those it was
    registered with.
    """
    path = Path(path)
    entry = find(read(path.parent), path.name)
    if entry is not None and (digest := files.sha256_file(path)) != entry.sha256:
        raise UserError(
            path, "sha256", digest[:12], f"{entry.sha256[:12]}, as frozen on {entry.date}"
        )
    return entry


def require_frozen(path: str | Path) -> Entry:
    """Like `frozen_entry`, but a missing file or a draft is a `UserError` too."""
    path = Path(path)
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "a frozen plan")
    entry = frozen_entry(path)
    if entry is None:
        raise UserError(
            path, "ledger", "no line for this file", "a frozen plan", f"Run freeze.py {path.name}"
        )
    return entry
