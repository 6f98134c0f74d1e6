"""Ask git about the repository, without changing anything in it."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class GitUnavailable(Exception):
    """There is no git, or no repository, or git refused; the message says which."""


def git(repo: str | Path, *arguments: str) -> str:
    """Standard output of one git command in `repo`. Raises `GitUnavailable` if it fails."""
    return git_bytes(repo, *arguments).decode("utf-8", errors="replace")


def git_bytes(repo: str | Path, *arguments: str, stdin: bytes | None = None) -> bytes:
    """Like `git`, for content that has to stay byte for byte, or that is read from `stdin`."""
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
        ["git", "-C", str(repo), *arguments],
        input=stdin,
        capture_output=True,
        env=environment,
        check=False,
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
    """The bytes of a file in a commit; None if it is not there.

    Raises `GitUnavailable` for a commit or an object that git does not have.
    """
    entry = git(repo, "ls-tree", "--full-tree", commit, "--", path).split()
    return git_bytes(repo, "cat-file", "blob", entry[2]) if entry[1:2] == ["blob"] else None


class Change(NamedTuple):
    """A file that differs between a commit and one of its parents: A(dded), M, D or T."""

    commit: str
    status: str
    path: str


def changes(repo: str | Path, folder: str) -> list[Change]:
    """Every change of a file below `folder` in every commit up to HEAD, the oldest first.

    A merge is compared with each of its parents, so what a merge itself adds or drops is seen.
    """
    commits = git_bytes(repo, "rev-list", "--topo-order", "--reverse", "HEAD")
    options = ["--stdin", "-m", "-r", "--root", "--no-renames", "--raw", "--no-abbrev"]
    quoting = ["-c", "core.quotePath=false", "-c", "log.showSignature=false"]
    text = git_bytes(repo, *quoting, "diff-tree", *options, "--", folder, stdin=commits)
    found, commit = [], ""
    for line in text.decode("utf-8", errors="replace").splitlines():
        if line.startswith(":"):
            fields, _, path = line.partition("\t")
            found.append(Change(commit, fields.split()[-1][0], path))
        elif line:
            commit = line.split()[0]
    return found


def differing(repo: str | Path, paths: Iterable[str]) -> list[str]:
    """Files below `paths` that differ from HEAD: changed, staged, gone or not tracked."""
    status = ["status", "--porcelain", "--untracked-files=all", "-z", "--no-renames", "--"]
    entries = git(repo, *status, *paths).split("\0")
    return [entry[3:] for entry in entries if entry]
