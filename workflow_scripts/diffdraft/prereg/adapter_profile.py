"""The profile that an adapter was trained from, as the commit of the code has it."""

from pathlib import Path

from diffdraft import git
from diffdraft.config import Profile
from diffdraft.errors import UserError
from diffdraft.prereg.adapter_evidence import Training
from diffdraft.prereg.history import Untold
from diffdraft.prereg.reading import fit, parse_yaml
from diffdraft.profile_digest import profile_digest


def check_committed_profile(repo: Path, training: Training, file: Path) -> str:
    """Check that the code's commit holds the profile that the adapter was trained from.

    Raises `UserError` for a commit that the history lacks, and for another profile. The digest is
    over what the schema of that commit made of the profile, and only today's schema is at hand:
    `Untold` for a profile that it cannot read, or to which it adds what the file does not say.
    """
    commit = training.provenance.git_sha
    if commit is None or not git.known_commit(repo, commit):
        raise UserError(file, "git_sha", commit, "a commit of this repository")
    path = f"config/profiles/{training.profile}.yaml"
    content, place = git.blob(repo, commit, path), f"{path} in {commit[:12]}"
    if content is None:
        raise UserError(file, "profile", training.profile, f"one in the commit: {place}")
    full, said = _digests(content, place, commit)
    if training.profile_sha256 not in (full, said):
        if full != said:
            raise _untold(f"{place}: this code adds settings to it that it does not say", commit)
        raise UserError(file, "profile_sha256", training.profile_sha256, f"{full}, of {place}")
    return f"{path} as in {commit[:12]}"


def _digests(content: bytes, place: str, commit: str) -> tuple[str, str]:
    """Of the profile with what today's schema adds to it, and of what the file says itself."""
    value = parse_yaml(content, place)
    try:
        profile = fit(Profile, value, place)
    except UserError as error:
        raise _untold(f"the profile is not one of this code: {error}", commit) from None
    return profile_digest(profile), profile_digest(profile, defaults=False)


def _untold(why: str, commit: str) -> Untold:
    return Untold(why, f"git checkout {commit[:12]}, then profile_digest of the file")
