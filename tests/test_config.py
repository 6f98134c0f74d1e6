"""Profiles: what they accept and how they refuse."""

from pathlib import Path

import pytest
import yaml

from diffdraft.config import load_profile
from diffdraft.errors import UserError

TINY = "config/profiles/tiny.yaml"


def write(tmp_path, change):
    values = yaml.safe_load(Path(TINY).read_text())
    change(values)
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def primary(profile):
    return profile["adapters"]["primary"]


def test_tiny_profile_is_valid():
    profile = load_profile(TINY)
    assert profile.adapters["primary"].block_size == 8
    assert profile.adapters["replication"].block_size == 4
    assert profile.adapters["primary"].rank == profile.adapters["replication"].rank == 16


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda p: p.update(colour="red"), "colour"),
        (lambda p: p["target"]["optimiser"].update(steps=-5), "target.optimiser.steps"),
        (lambda p: primary(p).update(block_size=1), "adapters.primary.block_size"),
        (lambda p: primary(p).update(block_size="8"), "adapters.primary.block_size"),
        (lambda p: primary(p).update(placement=["brain"]), "adapters.primary.placement.0"),
        (lambda p: primary(p).update(placement=[]), "adapters.primary.placement"),
        (
            lambda p: primary(p)["continuations"].update(prompt_tokens=128),
            "adapters.primary.continuations.prompt_tokens",
        ),
        (lambda p: p["corpus"].update(vocab_size=1000), "corpus.vocab_size"),
        (lambda p: p["target"]["architecture"].update(vocab_size=1000), "corpus.vocab_size"),
        (lambda p: p.update(name="large"), "name"),
        (lambda p: p["adapters"].update(third=p["adapters"]["primary"]), "adapters.third.[key]"),
        (lambda p: p["corpus"].update(sha256="abc"), "corpus.sha256"),
        (lambda p: p["corpus"]["splits"].update(train=0.5), "corpus.splits"),
        (lambda p: p["corpus"]["splits"].pop("dev"), "corpus.splits"),
        (lambda p: p["target"].pop("architecture"), "target.architecture"),
    ],
)
def test_defect_is_one_line_that_names_the_field(tmp_path, change, field):
    path = write(tmp_path, change)
    with pytest.raises(UserError) as caught:
        load_profile(path)
    assert caught.value.field == field
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_key_given_twice_is_refused(tmp_path):
    path = tmp_path / "tiny.yaml"
    text = Path(TINY).read_text()
    path.write_text(
        text.replace("  vocab_size: 1024\n", "  vocab_size: 512\n  vocab_size: 1024\n", 1)
    )
    with pytest.raises(UserError, match="'vocab_size' is given twice"):
        load_profile(path)


def test_a_prompt_may_be_all_but_one_token_of_the_window(tmp_path):
    change = lambda p: primary(p)["continuations"].update(prompt_tokens=127)  # noqa: E731
    assert load_profile(write(tmp_path, change)).adapters["primary"].continuations


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(UserError, match="nothing there"):
        load_profile(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1")
    with pytest.raises(UserError, match="expected YAML"):
        load_profile(tmp_path / "bad.yaml")
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(UserError):
        load_profile(tmp_path / "empty.yaml")
