"""The audit of amendments: are they chained, do they fit the plan, and is their label true?"""

from collections.abc import Iterator
from pathlib import Path

from diffdraft import git
from diffdraft.errors import UserError
from diffdraft.prereg import evidence, history
from diffdraft.prereg.amendments import Amendment, check_chain, effective
from diffdraft.prereg.findings import Finding, find, with_history
from diffdraft.prereg.ledger import Entry
from diffdraft.prereg.schema import load_plan


def audit_amendments(repo: Path, prereg: Path, study: str) -> Iterator[Finding]:
    """Findings on the amendments of a study."""
    subject = f"prereg/{study}.amendment-*.yaml"
    yield find("amendments chained", subject, lambda: _chained(prereg, study))
    try:
        chain = evidence.registered(prereg, study).amendments
    except Exception:
        return  # the finding above says it
    for entry, amendment in chain:

        def labelled(entry: Entry = entry, amendment: Amendment = amendment) -> str:
            return check_label(repo, entry, amendment)

        yield find("amendment label", f"prereg/{entry.file}", with_history(repo, labelled))


def _chained(prereg: Path, study: str) -> str:
    chain, path = check_chain(prereg, study), prereg / f"{study}.yaml"
    effective(load_plan(path), chain, path)
    return f"{len(chain)} in order"


def check_label(repo: Path, entry: Entry, amendment: Amendment) -> str:
    """Check an amendment's label: it may only say "before results" if no results came earlier.

    Results of the profiles that every one of its changes keeps to, or of any.
    """
    results_existed, profiles = amendment.results_existed, amendment.profiles()
    amended = history.freeze_commit(repo, entry)
    earlier = [
        commit
        for commit in history.result_commits(repo, amendment.study, profiles)
        if not git.is_ancestor(repo, amended, commit) or commit == amended
    ]
    if earlier and not results_existed:
        raise UserError(
            f"prereg/{entry.file}",
            "results_existed",
            f"false, but {earlier[0][:12]} holds results",
            "true",
        )
    if results_existed:
        return "after results were known: exploratory"
    return " of ".join(["before any results", *filter(None, [", ".join(profiles)])])
