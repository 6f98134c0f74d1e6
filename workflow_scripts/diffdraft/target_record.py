"""What a model folder says of itself: the record that the step which made it left there.

A target that was trained here has training.json, a converted one conversion.json, one of the hub
weights.json. Each gives the fingerprint of the model's weights, and that of the hub the revision of
its snapshot, where the folder that it was made from says so; and the SHA-256 of its settings and
tokenizer, since the same weights under others are another model. No weight is read, and no MLX.
"""

from pathlib import Path

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.settings_files import NEEDED, SETTINGS

HUB_RECORD = "weights.json"
RECORDS = ("training.json", "conversion.json", HUB_RECORD)


def record_file(folder: str | Path) -> Path:
    """The record of a model folder. Raises `UserError` for a folder with none, or with several."""
    found = [Path(folder) / name for name in RECORDS if (Path(folder) / name).is_file()]
    if len(found) != 1:
        names = " and ".join(path.name for path in found) or "none"
        raise UserError(folder, "record", names, f"one of {', '.join(RECORDS)}")
    return found[0]


def recorded_fingerprint(folder: str | Path) -> str:
    """The fingerprint that the folder was made with. Raises `UserError` where none is recorded."""
    path = record_file(folder)
    record = files.read_json(path)
    found = record.get("fingerprint") if isinstance(record, dict) else None
    if not isinstance(found, str):
        raise UserError(path, "fingerprint", "none", "that of its weights", "Make the target again")
    return found


def recorded_revision(folder: str | Path) -> str | None:
    """The revision of the hub that the folder was made from; none where nothing says it."""
    path = Path(folder) / HUB_RECORD
    record = files.read_json(path) if path.is_file() else {}
    if not isinstance(record, dict):
        raise UserError(path, "file", "no record", "fields by name", "Make the target again")
    return record.get("revision")


def described_settings(folder: str | Path) -> dict[str, dict[str, int | str]]:
    """Size and SHA-256 of the settings and the tokenizer of a model folder, for its record."""
    return {name: files.described(Path(folder) / name) for name in NEEDED}


def check_settings(folder: str | Path) -> None:
    """Refuse settings and tokenizer other than those that the folder was made with.

    A folder without a record says nothing of them, nor has that of another maker a SHA-256 there.
    Raises `UserError`.
    """
    for record in (Path(folder) / name for name in RECORDS):
        content = files.read_json(record) if record.is_file() else {}
        stated = content.get("files") if isinstance(content, dict) else None
        if not isinstance(stated, dict):
            continue
        for name in SETTINGS:
            said = stated.get(name)
            if isinstance(said, dict) and "sha256" in said:
                _check_same(Path(folder) / name, said["sha256"], record)


def _check_same(path: Path, stated: str, record: Path) -> None:
    found = files.sha256_file(path) if path.is_file() else "nothing there"
    if found != stated:
        expected = f"{stated}, as {record.name} has it"
        raise UserError(path, "sha256", found, expected, "Make the target again")
