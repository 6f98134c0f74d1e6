"""What git history says of a plan: when it was frozen, and whether results came after."""

from collections.abc import Collection, Mapping
from pathlib import Path

from diffdraft import files, git
from diffdraft.errors import UserError
from diffdraft.prereg import ledger
from diffdraft.prereg.ledger import Entry

PREREG, RESULTS = "prereg", "results"
PUBLISHED = "published"  # results/published holds figures of others, not evidence
LEDGER_PATH = f"{PREREG}/{ledger.LEDGER}"


class Untold(Exception):
    """History cannot answer; `command` names what would settle it."""

    def __init__(self, why: str, command: str) -> None:
        self.why, self.command = why, command
        super().__init__(f"{why}; to settle it: {command}")


def require_history(repo: Path) -> None:
    """Raise `Untold` unless the whole history is at hand."""
    try:
        git.head(repo)
        if git.is_shallow(repo):
            raise Untold("this clone is shallow", "git fetch --unshallow")
    except git.GitUnavailable as error:
        raise Untold(str(error), "git clone URL, then audit the clone") from None


def freeze_commit(repo: Path, entry: Entry) -> str:
    """The first commit that holds both the ledger line and the file with the frozen bytes.

    Raises `Untold` if the line is in no commit yet.
    """
    path = f"prereg/{entry.file}"
    for commit in git.commits_touching(repo, [LEDGER_PATH, path]):
        if _holds(repo, commit, entry, path):
            return commit
    raise Untold(f"the freezing of {entry.file} is in no commit", f"git add prereg/{entry.file}")


def _holds(repo: Path, commit: str, entry: Entry, path: str) -> bool:
    lines = git.blob(repo, commit, LEDGER_PATH)
    content = git.blob(repo, commit, path)
    if lines is None or content is None or files.sha256_bytes(content) != entry.sha256:
        return False
    return ledger.canonical(entry.model_dump()).encode() in lines.split(b"\n")


def result_commits(repo: Path, study: str, profiles: Collection[str] = ()) -> list[str]:
    """Commits up to HEAD that hold results of a study, even if removed since.

    Of the profiles that are named, or of all.
    """
    changes = git.changes(repo, RESULTS)
    found = [change.commit for change in changes if _is_of(change.path, study, profiles)]
    return list(dict.fromkeys(found))


def _is_of(path: str, study: str, profiles: Collection[str]) -> bool:
    parts = path.split("/")
    if len(parts) < 3 or parts[1] == PUBLISHED or parts[2] != study:
        return False
    return not profiles or parts[1] in profiles


def check_frozen_before_results(repo: Path, entry: Entry, study: str) -> str:
    """Check that every commit with a study's results comes after the commit that froze its plan.

    Returns a sentence. Raises `UserError` if a commit with results of any profile does not
    descend from the freezing, be it that they were removed since.
    """
    commits, results = result_commits(repo, study), f"{RESULTS}/*/{study}"
    if not commits:
        return "no results in the history"
    frozen = _frozen_or_fail(repo, entry, results)
    for commit in commits:
        if commit == frozen:
            raise UserError(
                results, "commit", f"{commit[:12]}, which also froze the plan", "a later commit"
            )
        if not git.is_ancestor(repo, frozen, commit):
            raise UserError(
                results, "commit", commit[:12], f"a descendant of the freezing in {frozen[:12]}"
            )
    return f"frozen in {frozen[:12]}, first results in {commits[0][:12]}"


def check_results_kept(repo: Path, results: str, measured_by: Mapping[str, str | None]) -> str:
    """Check that a folder of evidence was added once, after it was measured, and then left alone.

    `measured_by` gives the commit of the code for each metadata file. Raises `UserError` if a
    commit changes or removes a file of the folder, or adds it without descending from the code
    that measured it; `Untold` if the folder is in no commit.
    """
    changes = git.changes(repo, results)
    added = list(dict.fromkeys(change.commit for change in changes if change.status == "A"))
    if not added:
        raise Untold(f"{results} is in no commit", f"git add {results} and commit it")
    for change in changes:
        _require_added(change)
    for name, commit in measured_by.items():
        _check_measured_before(repo, f"{results}/{name}", commit, added)
    return f"added in {added[0][:12]} and the same since"


def check_nothing_lost(repo: Path, folders: Collection[str]) -> str:
    """Check that what was ever added below results/, outside of `folders`, was left alone.

    `folders` are the evidence that is there, which has findings of its own. A folder that is gone
    has none, nor have published figures. Raises `UserError` naming the first commit with a change.
    """
    changes = [
        change
        for change in git.changes(repo, RESULTS)
        if not change.path.startswith(tuple(folders))
    ]
    for change in changes:
        _require_added(change)
    return f"{len({change.path for change in changes})} other files, each added once and there"


def _require_added(change: git.Change) -> None:
    if change.status != "A":
        words = "removes it" if change.status == "D" else "changes it"
        place = f"commit {change.commit[:12]}"
        raise UserError(change.path, place, words, "results added and left alone")


def _check_measured_before(repo: Path, file: str, commit: str | None, added: list[str]) -> None:
    if commit is None or not git.known_commit(repo, commit):
        raise UserError(file, "git_sha", commit, "a commit of this repository")
    for later in added:
        if commit == later or not git.is_ancestor(repo, commit, later):
            expected = f"an ancestor of {later[:12]}, which added the results"
            raise UserError(file, "git_sha", commit[:12], expected)


def check_as_committed(repo: Path) -> str:
    """Check that what lies in results/ and prereg/ is what HEAD holds."""
    for path in git.differing(repo, [RESULTS, PREREG]):
        raise UserError(path, "working tree", "a difference from HEAD", "the file as committed")
    return "results and plans on disk are those of HEAD"


def _frozen_or_fail(repo: Path, entry: Entry, results: str) -> str:
    try:
        return freeze_commit(repo, entry)
    except Untold as untold:
        raise UserError(results, "commit", untold.why, "results after the freezing") from None


def check_unchanged_since(repo: Path, entry: Entry) -> str:
    """Check a frozen file's bytes in HEAD and in every commit since it was frozen."""
    path = f"prereg/{entry.file}"
    frozen = freeze_commit(repo, entry)
    later = [
        commit
        for commit in git.commits_touching(repo, [path])
        if git.is_ancestor(repo, frozen, commit)
    ]
    for commit in [*later, git.head(repo)]:
        content = git.blob(repo, commit, path)
        digest = files.sha256_bytes(content)[:12] if content is not None else "no file"
        if digest != entry.sha256[:12]:
            raise UserError(
                path, f"commit {commit[:12]}", digest, f"{entry.sha256[:12]}, as frozen"
            )
    return f"the same bytes in HEAD and in all commits since {frozen[:12]}"


def check_append_only(repo: Path) -> str:
    """Check that each commit's ledger, and the one on disk, continues those before it."""
    commits = git.commits_touching(repo, [LEDGER_PATH])
    for commit in commits:
        here = git.blob(repo, commit, LEDGER_PATH) or b""
        for parent in git.parents(repo, commit):
            if not ledger.extends(here, git.blob(repo, parent, LEDGER_PATH) or b""):
                raise UserError(
                    LEDGER_PATH, f"commit {commit[:12]}", "lines changed", "lines added at the end"
                )
    on_disk = repo / LEDGER_PATH
    now = on_disk.read_bytes() if on_disk.exists() else b""
    if not ledger.extends(now, git.blob(repo, "HEAD", LEDGER_PATH) or b""):
        raise UserError(LEDGER_PATH, "working tree", "lines changed", "lines added to HEAD's")
    return f"only ever added to, in {len(commits)} commits"


def check_code(repo: Path, entry: Entry, commit: str | None, file: Path) -> str:
    """Check that rows were measured by code that is known and had the frozen plan."""
    frozen = freeze_commit(repo, entry)
    if commit is None or not git.known_commit(repo, commit):
        found = commit[:12] if commit else "no commit"
        raise UserError(file, "git_sha", found, "a commit of this repository")
    if not git.is_ancestor(repo, frozen, commit):
        raise UserError(
            file, "git_sha", commit[:12], f"a descendant of the freezing in {frozen[:12]}"
        )
    return f"measured by {commit[:12]}"
