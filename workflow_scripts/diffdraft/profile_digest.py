"""The digest by which a plan pins a profile."""

import json

from diffdraft.config import Profile
from diffdraft.files import sha256_bytes


def profile_digest(profile: Profile, defaults: bool = True) -> str:
    """SHA-256 of what a profile says; comments and layout of its file do not count.

    Without `defaults`, of what its file says itself: a setting that came later changes nothing.
    """
    value = profile.model_dump(mode="json", exclude_unset=not defaults)
    return sha256_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
