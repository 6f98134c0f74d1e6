import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from diffdraft.config import PackagedTarget
from diffdraft.targets.packaged.convert import convert_target
from tests.targets import tiny_gguf


@dataclass
class Converted:
    """A tiny GGUF file, what carries it, and the model folder that was made of it."""

    gguf: Path
    settings: PackagedTarget
    folder: Path


@pytest.fixture(scope="session")
def converted(tmp_path_factory):
    place = tmp_path_factory.mktemp("packaged")
    tiny_gguf.write_gguf(place / "whole.gguf")
    settings = tiny_gguf.install(place / "site", place / "whole.gguf")
    sys.path.insert(0, str(place / "site"))
    convert_target(settings, place / "target")
    yield Converted(place / "whole.gguf", settings, place / "target")
    sys.path.remove(str(place / "site"))
