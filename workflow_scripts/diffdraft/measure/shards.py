"""Finished pieces of a long measurement, kept as files, so that a kill loses one piece."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from diffdraft import files, provenance

RUN_FILE = "run.json"


class Shards:
    """A folder of pieces that belong to one run, known by its identity.

    The identity is whatever the pieces depend on. A folder with another one is emptied: its
    pieces are of another measurement. `start` says when, by which code and for which plan the
    first piece was begun.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], plan: Path | None = None) -> None:
        self.folder = folder
        run = folder / RUN_FILE
        found = files.read_json(run) if run.is_file() else {}
        if found.get("identity") != identity or "start" not in found:
            for piece in folder.glob("*.json"):
                piece.unlink()
            found = {"identity": identity, "start": provenance.begin(plan)}
            files.write_json(run, found)
        self.start: dict[str, Any] = found["start"]

    def collect(
        self, names: Sequence[str], make: Callable[[int], Any], report: Callable[[int, bool], None]
    ) -> list[Any]:
        """The pieces in order; a missing one is made by `make(place)` and kept.

        `report(place, made)` is called after each.
        """
        pieces = []
        for place, name in enumerate(names):
            path = self.folder / f"{place:04d}_{name}.json"
            missing = not path.is_file()
            if missing:
                files.write_json(path, make(place))
            pieces.append(files.read_json(path))
            report(place, missing)
        return pieces
