"""Ask git about the repository, without changing anything in it."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path


class GitUnavailable(Exception):
    """There is no git, or no repository, or git refused; the message says which."""


def git(repo: str | Path, *arguments: str) -> str:
    """Standard output of one git command in `repo`. Raises `GitUnavailable` if it fails."""
    return git_bytes(repo, *arguments).decode("utf-8", errors="replace")


def git_bytes(repo: str | Path, *arguments: str) -> bytes:
    """Like `git`, for content that has to stay byte for byte."""
    if shutil.which("git") is None:
        raise GitUnavailable("git is not installed")
    # A repository further up must not be taken for this one; nor an index lock be waited for.
    environment = os.environ | {
        "GIT_CEILING_DIRECTORIES": str(Path(repo).resolve().parent),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",  # history as it is, not as it was redefined locally
        "LC_ALL": "C",
    }
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        environment.pop(name, None)
    done = subprocess.run(
        ["git", "-C", str(repo), *arguments], capture_output=True, env=environment, check=False
    )
    if done.returncode:
        message = done.stderr.decode("utf-8", errors="replace").strip().split("\n")[0]
        raise GitUnavailable(message or f"git {arguments[0]} failed")
    return done.stdout


def head(repo: str | Path) -> str:
    """The full hash of the commit that is checked out."""
    return git(repo, "rev-parse", "HEAD").strip()


def is_dirty(repo: str | Path) -> bool:
    """Whether a tracked file differs from HEAD, or a file is neither tracked nor ignored."""
    return bool(git(repo, "status", "--porcelain", "--untracked-files=normal").strip())


def is_shallow(repo: str | Path) -> bool:
    return git(repo, "rev-parse", "--is-shallow-repository").strip() == "true"


def is_ancestor(repo: str | Path, earlier: str, later: str) -> bool:
    """Whether `earlier` is `later` or one of its ancestors."""
    return not git(repo, "rev-list", "--max-count=1", earlier, f"^{later}").strip()


def known_commit(repo: str | Path, commit: str) -> bool:
    try:
        git(repo, "cat-file", "-e", f"{commit}^{{commit}}")
    except GitUnavailable:
        return False
    return True


def commits_touching(repo: str | Path, paths: Iterable[str]) -> list[str]:
    """Commits up to HEAD that change one of `paths`, the oldest first, merges included."""
    wanted = ["--full-history", "--topo-order", "--reverse", "--format=%H", "HEAD", "--"]
    return git(repo, "log", *wanted, *paths).split()


def parents(repo: str | Path, commit: str) -> list[str]:
    return git(repo, "rev-list", "--parents", "--max-count=1", commit).split()[1:]


def blob(repo: str | Path, commit: str, path: str) -> bytes | None:
    """The bytes of a file in a commit; None if it is not there."""
    try:
        return git_bytes(repo, "cat-file", "blob", f"{commit}:{path}")
    except GitUnavailable:
        return None
