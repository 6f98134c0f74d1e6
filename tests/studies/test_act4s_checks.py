"""Rows of Act IV-S that are not whole are refused, and what is missing is named."""

import shutil
from dataclasses import replace

import pytest

from diffdraft.errors import UserError
from diffdraft.studies.act4s.checks import check_study
from diffdraft.studies.act4s.references import check_references
from tests.synthetic_decoding import sample, write_plan


def changed(study, run, **frames):
    """The study with tables of one run replaced; each is a function of the old one."""
    old = study.runs[run]
    new = replace(old, **{name: change(getattr(old, name)) for name, change in frames.items()})
    return replace(study, runs={**study.runs, run: new})


def refused(study):
    with pytest.raises(UserError) as caught:
        check_study(study)
    message = str(caught.value)
    assert "\n" not in message
    return message


def without(**values):
    """Drop the rows in which all these columns have these values."""

    def drop(rows):
        matches = [rows[name] == value for name, value in values.items()]
        kept = rows[~(sum(match.astype(int) for match in matches) == len(matches))]
        assert len(kept) < len(rows)
        return kept.reset_index(drop=True)

    return drop


def setting(column, value, **where):
    """Set one column of the first row in which all these columns have these values."""

    def change(rows):
        rows = rows.copy()
        chosen = rows.index
        for name, wanted in where.items():
            chosen = chosen[(rows.loc[chosen, name] == wanted).to_numpy()]
        rows.loc[chosen[0], column] = value
        return rows

    return change


def test_a_whole_study_passes(act4s_rows):
    check_study(act4s_rows)


@pytest.mark.parametrize(
    ("run", "arm"),
    [("ksweep", "uno_k8"), ("ksweep", "ar"), ("controls", "random_k4"), ("adaptive", "adapt_ev")],
)
def test_a_missing_arm_is_named_with_its_file_prompt_and_repeat(act4s_rows, run, arm):
    lost = without(prompt_id="c1_0", arm=arm, repeat=1)
    message = refused(changed(act4s_rows, run, generations=lost))
    assert f"{run}.csv: arm: found no run of prompt c1_0 in arm {arm}, repeat 1" in message


def test_an_arm_missing_everywhere_is_named(act4s_rows):
    message = refused(changed(act4s_rows, "ksweep", generations=without(arm="uno_k4_again")))
    assert "ksweep.csv: arm: found no run of prompt" in message
    assert "in arm uno_k4_again, repeat 0" in message


def test_a_missing_repeat_length_context_or_dtype_is_named(act4s_rows):
    assert "repeat 1" in refused(changed(act4s_rows, "ksweep", generations=without(repeat=1)))
    lost = without(max_tokens=64)
    assert "64 tokens" in refused(changed(act4s_rows, "baseline", generations=lost))
    lost = without(prompt_tokens=64, prompt_id="passage_02")
    message = refused(changed(act4s_rows, "context", generations=lost))
    assert "context.csv: arm: found no run of prompt passage_02 in arm ar" in message
    assert "context 64" in message
    lost = without(dtype="bfloat16", prompt_id="c0_0")
    assert "bfloat16" in refused(changed(act4s_rows, "precision", generations=lost))


def test_what_the_plan_does_not_ask_for_is_refused(act4s_rows):
    foreign = setting("arm", "uno_k32", arm="uno_k8")
    message = refused(changed(act4s_rows, "ksweep", generations=foreign))
    assert "ksweep.csv: arm: found uno_k32; expected ar or uno_k1" in message
    other = changed(act4s_rows, "ksweep", generations=setting("repeat", 5, arm="ar"))
    assert "repeat: found 5" in refused(other)
    other = changed(act4s_rows, "baseline", generations=setting("max_tokens", 41, arm="ar"))
    assert "max_tokens: found 41; expected 40 or 64" in refused(other)
    other = changed(act4s_rows, "ksweep", generations=setting("dtype", "bfloat16", arm="uno_k1"))
    assert "dtype: found bfloat16; expected float32" in refused(other)


def test_too_few_prompts_or_passages(act4s_rows):
    few = changed(act4s_rows, "ksweep", generations=without(prompt_id="c2_1"))
    assert "found 5 prompts; expected at least 6, the floor_prompts of the plan" in refused(few)
    few = changed(act4s_rows, "context", generations=without(prompt_id="passage_03"))
    assert "found 3 passages; expected 4" in refused(few)


def test_a_prompt_that_one_run_lacks_is_named(act4s_rows):
    analysis = act4s_rows.analysis.model_copy(update={"floor_prompts": 1})
    drop = without(prompt_id="c2_1")
    less = changed(act4s_rows, "controls", generations=drop, cycles=drop)
    message = refused(replace(less, analysis=analysis))
    assert "controls.csv: prompt_id: found nothing of c2_1" in message


def test_two_categories_or_lengths_of_a_prompt(act4s_rows):
    other = changed(act4s_rows, "ksweep", generations=setting("category", "c9", prompt_id="c0_0"))
    assert "one category a prompt" in refused(other)
    other = changed(act4s_rows, "ksweep", generations=setting("prompt_tokens", 9, prompt_id="c0_0"))
    assert "one prompt_tokens a prompt" in refused(other)


def test_a_generation_that_stopped_early(act4s_rows):
    short = changed(act4s_rows, "ksweep", generations=setting("tokens", 39, arm="uno_k2"))
    assert "tokens: found 39 of prompt" in refused(short)


@pytest.mark.parametrize("run", ["baseline", "ksweep", "context", "controls", "precision"])
def test_cycles_cut_short_are_caught(act4s_rows, run):
    message = refused(changed(act4s_rows, run, cycles=lambda rows: rows.iloc[:-1]))
    assert f"{run}_cycles.csv: cycles: found" in message
    last = act4s_rows.runs[run].cycles.iloc[-1]
    assert f"as in {run}.csv for {last['prompt_id']}" in message
    assert last["arm"] in message


@pytest.mark.parametrize("column", ["accepted", "offered", "committed"])
def test_cycles_that_do_not_add_up(act4s_rows, column):
    wrong = changed(act4s_rows, "ksweep", cycles=setting(column, 99, arm="uno_k8"))
    message = refused(wrong)
    assert f"ksweep_cycles.csv: {column}: found" in message
    assert "uno_k8" in message


def test_cycles_of_a_run_that_is_not_there(act4s_rows):
    wrong = changed(act4s_rows, "ksweep", cycles=setting("arm", "other", arm="uno_k8"))
    assert "expected a run of ksweep.csv" in refused(wrong)


def test_references_follow_from_the_ids(act4s_rows):
    ids = act4s_rows.runs["ksweep"].generations["token_ids"].iloc[0]
    first, *rest = ids.split()
    other = " ".join([str(int(first) + 5000), *rest])
    lying = changed(act4s_rows, "ksweep", generations=setting("token_ids", other, arm="uno_k2"))
    message = refused(lying)
    assert "first_divergence: found -1 for prompt" in message
    assert "arm uno_k2, repeat 0; expected 0 by the ids" in message


def test_a_native_run_is_compared_with_that_of_repeat_0(act4s_rows):
    rows = act4s_rows.runs["ksweep"].generations
    native = rows[rows["arm"] == "ar"].reset_index(drop=True)
    other = native["token_ids"][0].rsplit(" ", 1)[0] + " 7777"
    alone = replace(act4s_rows.runs["ksweep"], generations=native)
    check_references(alone, "ar")
    change = setting("token_ids", other, repeat=1)
    with pytest.raises(UserError, match="arm ar, repeat 1; expected 39 by the ids"):
        check_references(replace(alone, generations=change(native)), "ar")


def test_every_divergence_has_its_row_and_no_other(act4s_rows):
    lost = changed(act4s_rows, "precision", divergences=lambda rows: rows.iloc[1:])
    message = refused(lost)
    assert "precision_divergences.csv: rows: found none of" in message
    assert "expected one a divergence in precision.csv" in message
    other = changed(act4s_rows, "precision", divergences=setting("arm", "uno_k99"))
    assert "precision_divergences.csv: rows: found" in refused(other)
    rows = act4s_rows.runs["precision"].divergences
    extra = changed(act4s_rows, "ksweep", divergences=lambda _: rows.iloc[:1])
    assert "expected only divergences of ksweep.csv" in refused(extra)
    moved = changed(act4s_rows, "precision", divergences=setting("position", 1000))
    assert "position: found 1000" in refused(moved)


def test_loops_are_those_of_the_native_ids(act4s_rows):
    other = changed(act4s_rows, "ksweep", generations=setting("looped_fraction", 0.9, arm="ar"))
    assert "looped_fraction: found 0.9 of prompt" in refused(other)
    other = changed(act4s_rows, "ksweep", generations=setting("looped_fraction", 0.9, arm="uno_k1"))
    assert "that of the native text in all arms" in refused(other)


def test_slots_follow_the_cycles(act4s_rows):
    slots = act4s_rows.slots
    lost = replace(act4s_rows, slots=slots.iloc[:-1])
    message = refused(lost)
    assert "confidence_slots.csv: slot: found 2 slots; expected 3 of" in message
    flipped = slots.assign(accepted=1 - slots["accepted"])
    assert "confidence_slots.csv: accepted: found slot 1" in refused(
        replace(act4s_rows, slots=flipped)
    )
    foreign = replace(act4s_rows, slots=slots.assign(arm="uno_k4"))
    assert "arm: found uno_k4; expected conf_k4" in refused(foreign)
    missing = replace(act4s_rows, slots=setting("cycle", 999)(slots))
    assert "cycle: found" in refused(missing)


def test_ties_of_every_prompt_in_both_dtypes(act4s_rows):
    ties = act4s_rows.ties
    lost = ties[(ties["prompt_id"] != "c0_0") | (ties["dtype"] != "bfloat16")]
    assert "ties.csv: prompt_id: found nothing of c0_0 in bfloat16" in refused(
        replace(act4s_rows, ties=lost)
    )


def test_timed_runs_have_one_dtype(act4s_rows):
    cast = changed(act4s_rows, "adaptive", generations=lambda rows: rows.assign(dtype="bfloat16"))
    assert "adaptive.csv: dtype: found bfloat16; expected float32" in refused(cast)


def test_a_missing_file_and_a_foreign_profile_are_named(act4s_folder, tmp_path):
    rows = tmp_path / "rows"
    shutil.copytree(act4s_folder.folder, rows)
    copy = replace(act4s_folder, folder=rows)
    (rows / "ties.csv").unlink()
    with pytest.raises(UserError, match=r"ties.csv: file: found nothing there"):
        copy.read()
    (rows / "ksweep_meta.json").write_text('{"profile": "other"}')
    with pytest.raises(UserError, match=r"ksweep_meta.json: profile: found other; expected tiny"):
        copy.read()


def test_a_plan_with_another_block_size_or_without_the_profile(act4s_folder, tmp_path):
    plan = write_plan(tmp_path, sample(), block_size=8)
    other = replace(act4s_folder, plan=plan)
    with pytest.raises(UserError, match=r"analysis.block_size: found 8, where the sample has 4"):
        other.read()
    plan.write_text(plan.read_text().replace("tiny:", "small:"))
    with pytest.raises(UserError, match=r"samples.tiny: found nothing"):
        other.read()
