"""What a model folder says of itself: the record that the step which made it left there.

A target that was trained here has training.json, a converted one conversion.json, one of the hub
weights.json. Each gives the fingerprint of the model's weights, and that of the hub the revision of
its snapshot, where the folder that it was made from says so. No weight is read, and no MLX.
"""

from pathlib import Path

from diffdraft import files
from diffdraft.errors import UserError

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
