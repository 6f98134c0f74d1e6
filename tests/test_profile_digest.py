"""The digest of a profile: what it says counts, how it is written does not."""

from pathlib import Path

import yaml

from diffdraft.config import load_profile
from diffdraft.profile_digest import profile_digest

PROFILE = Path("config/profiles/tiny.yaml")


def test_layout_does_not_count_and_values_do(tmp_path):
    value = yaml.safe_load(PROFILE.read_text())
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(dict(reversed(value.items()))))
    assert profile_digest(load_profile(path)) == profile_digest(load_profile(PROFILE))
    value["adapters"]["primary"]["optimiser"]["seed"] += 1
    path.write_text(yaml.safe_dump(value))
    assert profile_digest(load_profile(path)) != profile_digest(load_profile(PROFILE))
