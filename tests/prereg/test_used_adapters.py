"""Committed adapters and studies of their profile: promotion and audit want the same adapters."""

import pytest

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg import audit, promote

from .adapters import ADAPTERS, TAGS, Trained
from .repositories import RESULTS, use_toy_metrics

CHECK = "committed adapters used"
OTHER = {"arm": "other"}


@pytest.fixture
def planned(trained, monkeypatch) -> Trained:
    """Trained adapters and a frozen plan, nothing promoted."""
    use_toy_metrics(monkeypatch)
    trained.freeze()
    return trained


@pytest.fixture
def given(planned) -> Trained:
    """The same with the adapters committed."""
    planned.promote()
    planned.commit("adapters")
    return planned


def digest(given, tag) -> str:
    return files.sha256_file(given.adapters / tag / "adapter.safetensors")


def refused(given, match: str) -> None:
    with pytest.raises(UserError, match=match) as caught:
        given.promote_study()
    assert "\n" not in str(caught.value)
    assert not given.results.exists()


def commit_unchecked(given, monkeypatch) -> dict[str, str]:
    """What the audit finds in a study that was promoted by code without the check."""
    with monkeypatch.context() as without:
        without.setattr(promote, "check_used", lambda *arguments: "")
        given.promote_study()
    given.commit("evidence")
    return given.failures()


def test_a_study_with_the_committed_adapter_passes(given):
    given.measure()
    given.promote_study()
    given.commit("evidence")
    findings = {(f.check, f.subject): f for f in audit.audit(given.path)}
    assert {f.outcome for f in findings.values()} == {audit.PASS}
    assert findings[CHECK, RESULTS].detail == f"primary: those of {ADAPTERS}"


def test_a_profile_without_committed_adapters_has_nothing_to_compare(planned):
    planned.measure()
    planned.promote_study()
    planned.commit("evidence")
    assert CHECK not in {f.check for f in audit.audit(planned.path)}


def test_adapters_promoted_after_their_study_pass(planned):
    planned.measure()
    planned.promote_study()
    planned.commit("evidence")
    planned.promote()
    planned.commit("adapters")
    assert planned.failures() == {}


def test_an_adapter_trained_anew_fails(given, monkeypatch):
    given.write("primary", seed=2)
    given.measure()
    refused(given, r"timing_meta\.json: adapter_sha256: found .*, the committed primary")
    details = commit_unchecked(given, monkeypatch)
    assert details.keys() == {CHECK} and "adapter_sha256" in details[CHECK]


def meta_of(**changes):
    def change(given):
        values = {key: value(given) for key, value in changes.items()}
        given.write_meta(**values)

    return change


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            meta_of(adapter_sha256=lambda given: digest(given, "replication")),
            "adapter_sha256: found .*, the committed primary",
        ),
        (
            meta_of(shuffled_adapter_sha256=lambda given: digest(given, "primary")),
            "shuffled_adapter_sha256: found .*, the committed primary_shuffled",
        ),
        (
            meta_of(adapter=lambda _: dict.fromkeys(("block_size", "step", "seed"), "8") | OTHER),
            "adapter_sha256: found an adapter other; expected one of primary",
        ),
        (
            lambda given: given.write("replication", seed=2),
            r"model\.files\.adapters/replication/adapter\.safetensors: found .*, the committed",
        ),
    ],
)
def test_another_adapter_than_the_one_of_its_tag_fails(given, monkeypatch, change, match):
    given.measure()
    change(given)
    refused(given, match)
    details = commit_unchecked(given, monkeypatch)
    assert details.keys() == {CHECK}


def test_adapters_that_a_study_did_not_use_are_not_promoted(planned):
    planned.measure()
    planned.promote_study()
    planned.commit("evidence")
    for tag in TAGS:
        planned.write(tag, seed=2)
    with pytest.raises(UserError, match=r"adapter_sha256: found .*, the committed primary"):
        planned.promote()
    assert not planned.evidence.exists()
