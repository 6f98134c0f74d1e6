"""A synthetic study of Act IV-S, written and read once."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from diffdraft.prereg.schema import load_plan
from diffdraft.studies.act4s.cells import cells_of
from diffdraft.studies.act4s.study_rows import StudyRows, read_study
from tests.synthetic_decoding import write_plan, write_study


@dataclass(frozen=True)
class Act4sFolder:
    """A folder with the rows of all runs, and the plan that they follow."""

    folder: Path
    plan: Path

    def read(self) -> StudyRows:
        return read_study(self.folder, load_plan(self.plan), self.plan)


def write_folder(folder: Path, **world) -> Act4sFolder:
    """A study in `folder`; `world` goes to `write_study`."""
    wanted = write_study(folder / "rows", **world)
    return Act4sFolder(folder / "rows", write_plan(folder, wanted))


@pytest.fixture(scope="session")
def act4s_folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("act4s"), seed=1)


@pytest.fixture(scope="session")
def act4s_rows(act4s_folder):
    return act4s_folder.read()


@pytest.fixture(scope="session")
def act4s_cells(act4s_rows):
    return cells_of(act4s_rows)
