"""Finished pieces of a long measurement, kept as files, so that a kill loses one piece."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

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

    def collect(self, names: Sequence[str], make: Callable[[int], Any], unit: str) -> list[Any]:
        """The pieces in order; a missing one is made by `make(place)` and kept.

        Each is told on standard error: by a bar of `unit`s on a terminal, else by a line.
        """
        pieces = []
        for place, name in enumerate(tqdm(names, disable=None, unit=unit)):
            path = self.folder / f"{place:04d}_{name}.json"
            missing = not path.is_file()
            if missing:
                files.write_json(path, make(place))
            pieces.append(files.read_json(path))
            if not sys.stderr.isatty():
                done = "measured" if missing else "kept from an earlier run"
                print(f"{unit} {place + 1}/{len(names)} {name}: {done}", file=sys.stderr)
        return pieces
