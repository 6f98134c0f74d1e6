"""Freezing and amending: once, in order, and never by editing."""

import shutil

import pytest
import yaml

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg import ledger
from diffdraft.prereg.amendments import Change, check_chain, effective, load_amendment
from diffdraft.prereg.freezing import amend, freeze
from diffdraft.prereg.reading import fit
from diffdraft.prereg.schema import load_plan

from .examples import PREREG, STUDIES


@pytest.fixture
def prereg(tmp_path):
    folder = tmp_path / "prereg"
    folder.mkdir()
    for study in STUDIES:
        shutil.copy(PREREG / f"{study}.yaml", folder)
    profiles = tmp_path / "config" / "profiles"
    profiles.mkdir(parents=True)
    text = (PREREG.parent / "config" / "profiles" / "tiny.yaml").read_text(encoding="utf-8")
    (profiles / "big.yaml").write_text(text.replace("name: tiny", "name: big", 1))
    return folder


def change(field, becomes):
    return fit(Change, {"field": field, "becomes": becomes}, "--change")


def smaller(folder, number: int):
    """Amendment `number`: a smaller sample, in both sizes that must agree."""
    batches = 320 - 32 * number
    changes = [
        change("samples.tiny.batches", batches),
        change("samples.tiny.windows", 4 * batches),
    ]
    return amend(folder / "rprm.yaml", "the machine is slow", "no result of any kind", changes)


@pytest.mark.parametrize("becomes", [{"A row": "is kept"}, 3, None, " "])
def test_what_an_amendment_states_is_a_text(becomes):
    with pytest.raises(UserError, match=r"decisions.tiny: found .* expected a text, quoted"):
        change("decisions.tiny", becomes)


def test_freezing_registers_the_bytes(prereg):
    entry = freeze(prereg / "rprm.yaml")
    assert entry.sha256 == files.sha256_file(PREREG / "rprm.yaml")
    assert entry.event == "freeze"
    assert ledger.require_frozen(prereg / "rprm.yaml") == entry
    freeze(prereg / "paired_timing.yaml")
    assert len(ledger.read(prereg)) == 2


def test_freezing_twice_is_refused(prereg):
    freeze(prereg / "rprm.yaml")
    before = (prereg / ledger.LEDGER).read_bytes()
    with pytest.raises(UserError, match="frozen on"):
        freeze(prereg / "rprm.yaml")
    (prereg / "rprm.yaml").write_text((prereg / "rprm.yaml").read_text() + "# more\n")
    with pytest.raises(UserError, match="frozen on"):
        freeze(prereg / "rprm.yaml")
    assert (prereg / ledger.LEDGER).read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("study: rprm\n", "study: rprm\nthreshold: 1\n", "unknown key"),
        ("  resamples: 2000\n", "", "analysis.resamples"),
        ("  resamples: 2000\n", "  resamples: 2000\n  reps: 3\n", "analysis.reps"),
        ("  split: 20260908\n", "", "seeds.split"),
    ],
)
def test_an_invalid_plan_is_not_frozen(prereg, old, new, match):
    path = prereg / "rprm.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=match):
        freeze(path)
    assert not (prereg / ledger.LEDGER).exists()


def test_a_plan_whose_results_exist_is_not_frozen(prereg):
    (prereg.parent / "results" / "tiny" / "rprm").mkdir(parents=True)
    with pytest.raises(UserError, match="no results before the plan is frozen"):
        freeze(prereg / "rprm.yaml")
    freeze(prereg / "paired_timing.yaml")


def test_amendments_form_a_chain_and_leave_the_plan_alone(prereg):
    frozen = freeze(prereg / "rprm.yaml")
    first, second = smaller(prereg, 1), smaller(prereg, 2)
    assert first.name == "rprm.amendment-1.yaml"
    assert load_amendment(first).parent == frozen.sha256
    assert load_amendment(second).parent == files.sha256_file(first)
    assert [entry.event for entry in ledger.read(prereg)] == ["freeze", "amend", "amend"]
    assert files.sha256_file(prereg / "rprm.yaml") == frozen.sha256
    plan = load_plan(prereg / "rprm.yaml")
    chain = check_chain(prereg, "rprm")
    assert effective(plan, chain, "x").samples["tiny"].windows == 1024
    assert effective(plan, chain, "x").criteria == plan.criteria
    assert effective(plan, chain, "x").sha256 == plan.sha256
    assert plan.samples["tiny"].windows == 1280


def test_an_amendment_says_whether_results_existed(prereg):
    freeze(prereg / "rprm.yaml")
    assert load_amendment(smaller(prereg, 1)).results_existed is False
    (prereg.parent / "results" / "tiny" / "rprm").mkdir(parents=True)
    assert load_amendment(smaller(prereg, 2)).results_existed is True


BIG = {
    "windows": 8,
    "window_tokens": 128,
    "block_size": 8,
    "batches": 4,
    "batch_size": 2,
    "strata": ["FULL", "SCHEDULE"],
}
BIG_MODEL = {"target": "a larger target", "profile_sha256": "d" * 64}


def for_big():
    """The changes that plan `rprm` for another profile."""
    return [change("samples.big", BIG), change("models.big", BIG_MODEL)]


def for_all(prereg):
    """The same by changing `samples` and `models` as a whole, all else in them as it was."""
    plan = yaml.safe_load((prereg / "rprm.yaml").read_text())
    return [
        change("samples", plan["samples"] | {"big": BIG}),
        change("models", plan["models"] | {"big": BIG_MODEL}),
    ]


def test_a_study_is_planned_for_another_profile(prereg):
    """What it decides by stays; results of the first profile are not results of the second."""
    freeze(prereg / "rprm.yaml")
    (prereg.parent / "results" / "tiny" / "rprm").mkdir(parents=True)
    changes = [*for_big(), change("decisions.big", "Fewer windows: a forward takes longer.")]
    path = amend(prereg / "rprm.yaml", "another target", "the results on tiny", changes)
    amendment = load_amendment(path)
    assert amendment.profiles() == ["big"] and amendment.results_existed is False
    plan = load_plan(prereg / "rprm.yaml")
    planned = effective(plan, check_chain(prereg, "rprm"), path)
    assert planned.samples["big"].windows == 8 and planned.models["big"].target
    assert planned.samples["tiny"] == plan.samples["tiny"]
    assert planned.criteria == plan.criteria and planned.verdicts == plan.verdicts
    (prereg.parent / "results" / "big" / "rprm").mkdir(parents=True)
    again = amend(prereg / "rprm.yaml", "r", "s", [change("samples.big.batches", 4)])
    assert load_amendment(again).results_existed is True


@pytest.mark.parametrize(
    "also",
    [
        [change("decisions", "Ties are broken by the first index.")],
        [change("exclusions", "Row 7 of tiny.")],
        [change("samples.tiny.batches", 319), change("samples.tiny.windows", 1276)],
        [change("decisions.tiny", "Row 7 is read anew.")],
        [change("models.tiny.target", "another one")],
    ],
)
def test_a_change_beside_a_new_profile_is_labelled_by_what_it_changes(prereg, also):
    """Results of tiny exist: a new profile in the same amendment does not hide a change of tiny."""
    freeze(prereg / "rprm.yaml")
    (prereg.parent / "results" / "tiny" / "rprm").mkdir(parents=True)
    path = amend(prereg / "rprm.yaml", "another target", "results", [*for_big(), *also])
    amendment = load_amendment(path)
    assert amendment.results_existed is True
    assert amendment.profiles() in ([], ["big", "tiny"])


def test_a_change_of_all_samples_is_of_every_profile(prereg):
    freeze(prereg / "rprm.yaml")
    (prereg.parent / "results" / "tiny" / "rprm").mkdir(parents=True)
    amendment = load_amendment(amend(prereg / "rprm.yaml", "r", "s", for_all(prereg)))
    assert amendment.profiles() == [] and amendment.results_existed is True


@pytest.mark.parametrize("whole", [True, False])
def test_a_profile_that_is_not_there_is_not_planned_for(prereg, whole):
    freeze(prereg / "rprm.yaml")
    (prereg.parent / "config" / "profiles" / "big.yaml").unlink()
    before = sorted(path.name for path in prereg.iterdir())
    changes = for_all(prereg) if whole else for_big()
    with pytest.raises(
        UserError, match=r"samples\.big: found no such profile.*none there"
    ) as caught:
        amend(prereg / "rprm.yaml", "another target", "nothing", changes)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in prereg.iterdir()) == before


def test_a_profile_that_went_later_leaves_its_amendment_as_it_is(prereg):
    freeze(prereg / "rprm.yaml")
    amend(prereg / "rprm.yaml", "another target", "nothing", for_big())
    (prereg.parent / "config" / "profiles" / "big.yaml").unlink()
    amend(prereg / "rprm.yaml", "a thought", "nothing", [change("decisions.big", "A thought.")])
    assert len(check_chain(prereg, "rprm")) == 2


def test_a_key_of_what_the_same_chain_gave_leaves_the_earlier_amendment_as_it_was(prereg):
    freeze(prereg / "rprm.yaml")
    amend(prereg / "rprm.yaml", "another target", "nothing", for_big())
    bigger = [change("samples.big.windows", 16), change("samples.big.batches", 8)]
    amend(prereg / "rprm.yaml", "more", "nothing", bigger)
    plan, chain = load_plan(prereg / "rprm.yaml"), check_chain(prereg, "rprm")
    assert effective(plan, chain, "x").samples["big"].windows == 16
    assert effective(plan, chain[:1], "x").samples["big"].windows == 8


@pytest.mark.parametrize("field", ["decisions.big.reason", "decisions.", "samples..tiny", ".x"])
def test_a_field_that_is_no_path_is_refused(field):
    with pytest.raises(UserError, match="field"):
        change(field, "words")


@pytest.mark.parametrize(
    "field", ["criteria", "verdicts", "stops.unless", "scopes.carries", "seeds.split", "analysis"]
)
def test_what_decides_cannot_be_amended(prereg, field):
    with pytest.raises(UserError, match="a new study"):
        change(field, 1)


def test_an_amendment_that_does_not_fit_leaves_nothing_behind(prereg):
    freeze(prereg / "rprm.yaml")
    before = sorted(path.name for path in prereg.iterdir())
    for changes, match in (
        ([change("samples.tiny.batches", 100)], "windows"),
        ([change("samples.tiny.cats", 100)], "a key that the plan has"),
        ([change("samples.big.batches", 100)], "a key that the plan has"),
        ([change("samples.big", {"windows": 4})], "samples.big.*nothing"),
        ([change("samples.big", BIG)], "the same profiles as under samples"),
        ([change("decisions.big", "words")], "decisions.big; expected a profile that the plan has"),
        ([change("exclusions.big", "words")], "a profile that the plan has"),
        ([change("samples", 3)], "samples: found 3"),
        ([change("samples", 3), change("decisions.big", "words")], "a profile that the plan has"),
        ([], "changes"),
    ):
        with pytest.raises(UserError, match=match):
            amend(prereg / "rprm.yaml", "reason", "nothing", changes)
    with pytest.raises(UserError, match="seen"):
        amend(prereg / "rprm.yaml", "reason", " ", [change("exclusions", "row 7")])
    assert sorted(path.name for path in prereg.iterdir()) == before


def test_an_unfrozen_plan_has_no_amendments(prereg):
    with pytest.raises(UserError, match="no line for this file"):
        smaller(prereg, 1)


def test_a_broken_chain_of_amendments_is_found(prereg):
    freeze(prereg / "rprm.yaml")
    first, second = smaller(prereg, 1), smaller(prereg, 2)
    text = first.read_text()
    first.write_text(text.replace("slow", "fast"))
    with pytest.raises(UserError, match="as frozen on"):
        check_chain(prereg, "rprm")
    first.write_text(text)
    check_chain(prereg, "rprm")
    kept = second.read_bytes()
    second.unlink()
    first.rename(second)
    with pytest.raises(UserError, match=r"amendment-2\.yaml"):
        check_chain(prereg, "rprm")
    second.rename(first)
    second.write_bytes(kept)
    third = prereg / "rprm.amendment-3.yaml"
    third.write_text(yaml.safe_dump(yaml.safe_load(text) | {"amendment": 3}))
    with pytest.raises(UserError, match="no line for this file"):
        check_chain(prereg, "rprm")
    ledger.append(prereg, "amend", third, files.sha256_file(prereg / "rprm.yaml"))
    with pytest.raises(UserError, match="parent"):
        check_chain(prereg, "rprm")
