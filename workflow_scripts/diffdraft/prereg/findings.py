"""What one check of the audit ends in: PASS, FAIL or CANNOT TELL, and why."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from diffdraft import git
from diffdraft.errors import UserError
from diffdraft.prereg import history

PASS, FAIL, CANNOT_TELL = "PASS", "FAIL", "CANNOT TELL"


@dataclass(frozen=True)
class Finding:
    """One check of one subject, what came out, and why."""

    check: str
    subject: str
    outcome: str
    detail: str


def find(check: str, subject: str, examine: Callable[[], str]) -> Finding:
    """Run one check: its sentence is a PASS, a `UserError` a FAIL, `Untold` a CANNOT TELL."""
    try:
        return Finding(check, subject, PASS, examine())
    except UserError as error:
        return Finding(check, subject, FAIL, str(error))
    except history.Untold as untold:
        return Finding(check, subject, CANNOT_TELL, str(untold))
    except git.GitUnavailable as error:
        return Finding(check, subject, CANNOT_TELL, f"git: {error}")
    except Exception as error:  # what a check cannot read is no evidence
        found = " ".join(f"{type(error).__name__}: {error}".split())
        return Finding(check, subject, FAIL, f"the check broke off with {found}")


def with_history(repo: Path, examine: Callable[[], str]) -> Callable[[], str]:
    """The check, once the whole history is at hand; without it, `Untold`."""

    def examined() -> str:
        history.require_history(repo)
        return examine()

    return examined


def equal(path: Path, field: str, stated: object, found: object) -> None:
    """Raise `UserError` unless what a file states is what was found."""
    if stated != found:
        raise UserError(path, field, stated, found)
