from diffdraft.measure.speculative import by_hand as module

# isort: split
import itertools
import math
import re
import runpy
import shutil
import signal
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from diffdraft import cli, files
from diffdraft.errors import UserError
from diffdraft.measure.speculative import printed, record
from diffdraft.rows import columns, read_rows
from tests.kill.steps import run as run_process
from tests.kill.steps import stop
from tests.measure import small_decoding as small

pytestmark = pytest.mark.usefixtures("quick")
SCRIPT = small.ROOT / "workflow_scripts" / "spec_decode.py"
PARSER = runpy.run_path(str(SCRIPT))["make_parser"]


def options(study, out, **changes):
    values = {
        "target": study.target,
        "adapter": study.adapter,
        "tokens": 4,
        "repeats": 2,
        "workload": study.workload,
        "out-dir": out,
        **changes,
    }
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def spec_decode(study, out, *run, **changes):
    module.run(PARSER().parse_args([*options(study, out, **changes), *map(str, run)]))


def refused(study, out, *run, **changes):
    """The one line that the command ends with."""
    with pytest.raises(UserError) as caught:
        spec_decode(study, out, *run, **changes)
    assert "\n" not in str(caught.value)
    assert not list(out.glob("*.csv"))
    return str(caught.value)


@pytest.fixture(scope="module")
def sweep(study, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        small.no_waiting(patch)
        small.few_prompts(patch)
        out = tmp_path_factory.mktemp("sweep")
        spec_decode(study, out, "ksweep", "--block-sizes", "1,4")
        return out


def test_a_run_writes_the_files_of_the_planned_one_under_its_tag(sweep):
    names = ["ksweep.csv", "ksweep_cycles.csv", "ksweep_divergences.csv", "ksweep_meta.json"]
    assert sorted(path.name for path in sweep.iterdir()) == [f"main_{name}" for name in names]
    rows = read_rows(sweep / "main_ksweep.csv", "generations")
    assert set(rows["arm"]) == {"ar", "uno_k1", "uno_k4", "uno_k4_again"}
    assert (rows["identical"] == 1).all()
    meta = files.read_json(sweep / "main_ksweep_meta.json")
    assert meta["plan_sha256"] is None
    assert set(meta["rows"]) == {f"main_{name}" for name in names[:3]}


def test_the_sweep_prints_each_arm_and_where_its_rows_are(study, tmp_path, capsys):
    spec_decode(study, tmp_path, "ksweep", "--block-sizes", "2", tag="try")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 tokens, float32"
    assert lines[1].split() == " ".join(printed.HEADER).split()
    assert [line.split()[0] for line in lines[2:5]] == ["ar", "uno_k2", "uno_k2_again"]
    assert lines[2].split()[2] == "1.000"
    assert str(tmp_path / "try_ksweep.csv") in lines


@pytest.mark.parametrize(
    ("words", "arms", "lengths"),
    [
        (["baseline", "--token-counts", "3,5"], {"ar", "uno_k4"}, {3, 5}),
        (["confidence", "--k", "2"], {"ar", "conf_k2"}, {4}),
        (["degeneration", "--lengths", "4,6", "--ngram", "2"], {"ar", "uno_k4"}, {4, 6}),
    ],
)
def test_runs_and_their_options(study, tmp_path, capsys, words, arms, lengths):
    spec_decode(study, tmp_path, *words, repeats=1)
    rows = read_rows(tmp_path / f"main_{words[0]}.csv", "generations")
    assert set(rows["arm"]) == arms
    assert set(rows["max_tokens"]) == lengths
    printed_text = capsys.readouterr().out
    assert ("looped fraction" in printed_text) == (words[0] == "degeneration")
    assert (tmp_path / "main_confidence_slots.csv").exists() == (words[0] == "confidence")


def test_controls_have_the_shuffled_arm_where_its_file_is_given(study, tmp_path):
    spec_decode(study, tmp_path, "controls", "--k", "2", repeats=1)
    without = set(read_rows(tmp_path / "main_controls.csv", "generations")["arm"])
    assert {"ngram3_k2", "untrained_k2", "random_k2", "refine4_k2"} < without
    assert "shuffled_k2" not in without
    spec_decode(study, tmp_path, "controls", "--k", "2", repeats=1, shuffled=study.shuffled)
    assert set(read_rows(tmp_path / "main_controls.csv", "generations")["arm"]) - without == {
        "shuffled_k2"
    }


def test_adaptive_takes_its_widths_and_costs(study, tmp_path):
    costs = '{"2": 1, "3": 2.5}'
    words = ["--allowed", "2,3", "--default-k", "3", "--cost-ms", costs]
    spec_decode(study, tmp_path, "adaptive", *words, repeats=1)
    rows = read_rows(tmp_path / "main_adaptive.csv", "generations")
    assert {"uno_k2", "uno_k3", "adapt_ev", "adapt_survival_repaired"} < set(rows["arm"])
    assert set(read_rows(tmp_path / "main_adaptive_cycles.csv", "draft_cycles")["block_size"]) <= {
        2,
        3,
    }
    assert files.read_json(tmp_path / "main_adaptive_meta.json")["cost_ms"] == {"2": 1, "3": 2.5}


def test_an_empty_adapter_is_an_untrained_one(study, tmp_path):
    spec_decode(study, tmp_path, "baseline", "--token-counts", "4", adapter="", rank=2, repeats=1)
    meta = files.read_json(tmp_path / "main_baseline_meta.json")
    assert (meta["adapter"], meta["adapter_sha256"], meta["rank"]) == (None, None, 2)
    rows = read_rows(tmp_path / "main_baseline.csv", "generations")
    assert (rows["identical"] == 1).all()


def test_a_fresh_audit_tells_both_rules_in_both_precisions(study, tmp_path, capsys):
    spec_decode(study, tmp_path, "audit", "--block-sizes", "2")
    text = capsys.readouterr().out
    assert text.count("rule of exact ties") == text.count("rule of one ULP") == 2
    assert {"main_precision.csv", "main_ties.csv"} < {path.name for path in tmp_path.iterdir()}


# Bad input


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["confidence", "--k", "0"], "--k: value: found '0'; expected a whole number of at least"),
        (["confidence", "--k", "2.5"], "--k: value: found '2.5'; expected a whole number"),
        (["confidence", "--k", "-4"], "--k: value: found '-4'; expected a whole number"),
        (["confidence", "--k", "four"], "--k: value: found 'four'; expected a whole number"),
        (["confidence", "--k", "95"], "blocks of 95; expected what a context of 96 holds"),
        (["confidence", "--k", "1"], "--k: value: found 1; expected at least 2"),
        (["ksweep", "--block-sizes", "2,x"], "--block-sizes: value: found 'x'; expected a whole"),
        (["ksweep", "--block-sizes", "2,"], "--block-sizes: value: found ''; expected a whole"),
        (["ksweep", "--block-sizes", "2,2"], "--block-sizes: value: found '2,2'; expected each"),
        (["baseline", "--token-counts", "0"], "--token-counts: value: found '0'"),
        (["baseline", "--token-counts", "95"], "prose_1: found 4 tokens and 95 to generate"),
        (["adaptive", "--allowed", "2,8"], "policies.default: found 4; expected one of the al"),
        (["adaptive", "--entropy-low", "3"], "entropy_low: found 3.0; expected at most entropy"),
        (["adaptive", "--entropy-high", "nan"], "--entropy-high: value: found 'nan'"),
        (["adaptive", "--cost-ms", "{2: 1}"], "--cost-ms: value: found '{2: 1}'; expected JSON"),
        (["adaptive", "--cost-ms", "[1]"], "--cost-ms: value: found '[1]'; expected JSON"),
        (["adaptive", "--cost-ms", '{"2": "1"}'], "--cost-ms: entry '2': found"),
        (["adaptive", "--cost-ms", '{"2": 0}'], "--cost-ms: entry '2': found 0; expected JSON"),
        (["adaptive", "--cost-ms", '{"x": 1}'], "--cost-ms: entry 'x': found 1; expected JSON"),
        (["adaptive", "--cost-ms", '{"2": 1}'], "cost_ms of block size 4: found None"),
        (["adaptive", "--cost-ms", '{"2": 1, "02": 2}'], "entry '02': found a second time"),
        (
            ["adaptive", "--cost-ms", '{"2": 1' + "0" * 400 + "}"],
            "--cost-ms: entry '2': found 1000",
        ),
        (["adaptive", "--cost-ms", '{"2": 1' + "0" * 5000 + "}"], "--cost-ms: value: found '{"),
        (["context", "--lengths", "5"], "--corpus: folder: found nothing"),
        (["degeneration", "--loop-free", "x"], "--loop-free: value: found 'x'; expected a number"),
        (["degeneration", "--ngram", "0"], "--ngram: value: found '0'"),
        (["audit", "--file", "none.csv"], "none.csv: file: found nothing there"),
    ],
)
def test_bad_words_behind_a_run(study, tmp_path, words, line):
    assert line in refused(study, tmp_path, *words)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"tokens": "many"}, "--tokens: value: found 'many'"),
        ({"repeats": 0}, "--repeats: value: found '0'"),
        ({"warmup": "x"}, "--warmup: value: found 'x'"),
        ({"tag": "../up"}, "--tag: value: found '../up'"),
        ({"seed": "-1"}, "--seed: value: found '-1'"),
        ({"max-load-before": "low"}, "--max-load-before: value: found 'low'"),
        ({"rank": 4}, "metadata.spec.rank: found 16; expected 4, as --rank says"),
        ({"adapter": "none"}, "none: file: found"),
        ({"target": "nowhere"}, "nowhere/config.json: file: found nothing there"),
        ({"workload": "none.yaml"}, "none.yaml: file: found nothing there"),
    ],
)
def test_bad_words_before_a_run(study, tmp_path, changes, line):
    assert line in refused(study, tmp_path, "ksweep", "--block-sizes", "2", **changes)


def test_an_adapter_of_another_target(study, tmp_path):
    line = refused(study, tmp_path, "confidence", target=study.other_target)
    assert "metadata.target_fingerprint: found" in line
    assert "It belongs to another target" in line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "prompts.0.text"),
        ("   ", "prompts.0.text"),
        ("word " * 60 + "end", "tokens and 4 to generate; expected a context of 96 at most"),
    ],
)
def test_a_prompt_that_cannot_be_continued(study, tmp_path, text, line):
    values = small.suite()
    values["prompts"][0]["text"] = text
    file = tmp_path / "suite.yaml"
    files.write_text(file, yaml.safe_dump(values))
    assert line in refused(study, tmp_path, "confidence", workload=file)


def test_a_prompt_that_encodes_to_nothing(study, tmp_path, monkeypatch):
    load = record.load_target

    def silent(*arguments):
        target = load(*arguments)
        encode = target.tokenizer.encode
        target.tokenizer = type("Silent", (), {})()
        target.tokenizer.encode = lambda text: [] if text == "prose_2" else encode(text)
        return target

    monkeypatch.setattr(record, "load_target", silent)
    assert "prose_2: found no token; expected at least one" in refused(
        study, tmp_path, "confidence"
    )


def test_the_command_ends_with_one_line_and_its_status(study, tmp_path, capsys):
    words = [*options(study, tmp_path), "confidence", "--k", "0"]
    with pytest.raises(SystemExit) as ended:
        cli.run(PARSER(), module.run, words)
    assert ended.value.code == cli.EXIT_USER_ERROR
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit) as ended:
        PARSER().parse_args(["ksweep", "--k", "3"])
    assert ended.value.code == cli.EXIT_USER_ERROR


# The audit of a file


@pytest.fixture
def rows(sweep, tmp_path):
    """A copy of the sweep's row file without its meta file, and a way to write it changed."""

    def write(change):
        frame = pd.read_csv(sweep / "main_ksweep.csv")
        path = tmp_path / "changed.csv"
        change(frame)[columns("generations")].to_csv(path, index=False, lineterminator="\n")
        return path

    return write


def audited(study, tmp_path, file, *words):
    return refused(study, tmp_path / "none", "audit", "--file", file, *words)


def test_an_existing_file_is_audited(study, sweep, tmp_path, capsys):
    spec_decode(study, tmp_path, "audit", "--file", sweep / "main_ksweep.csv")
    precision, *lines = capsys.readouterr().out.splitlines()
    assert precision == "float32"
    assert re.fullmatch(r"generations checked +30", lines[0])
    assert lines[-1].startswith("IDENTICAL")
    assert not list(tmp_path.iterdir())


def forged(frame, shift=1):
    """One draft's last token is another one, and the row says so."""
    row = frame.index[frame["arm"] == "uno_k4"][0]
    ids = [int(i) for i in frame.loc[row, "token_ids"].split()]
    ids[-1] = (ids[-1] + shift) % small.VOCABULARY
    frame.loc[row, ["identical", "first_divergence"]] = 0, len(ids) - 1
    frame.loc[row, "token_ids"] = " ".join(map(str, ids))
    return frame


def test_a_divergence_that_is_no_tie_is_a_defect(study, rows, tmp_path, capsys):
    spec_decode(study, tmp_path / "none", "audit", "--file", rows(forged))
    text = capsys.readouterr().out
    assert re.search(r"beyond one ULP +1\n", text)
    assert re.search(r"rule of exact ties +FAIL\n", text)
    assert re.search(r"rule of one ULP +FAIL\n", text)
    assert text.splitlines()[-1].startswith("DEFECT")


def test_a_wide_enough_tolerance_lets_it_pass_but_not_the_rule_of_exact_ties(
    study, rows, tmp_path, capsys
):
    words = ["--ulp-tolerance", "1e9"]
    spec_decode(study, tmp_path / "none", "audit", "--file", rows(forged), *words)
    text = capsys.readouterr().out
    assert re.search(r"rule of exact ties +FAIL\n", text)
    assert re.search(r"rule of one ULP +PASS\n", text)
    assert text.splitlines()[-1].startswith("ARITHMETIC")


def test_a_file_measured_on_another_suite_is_refused(study, sweep, tmp_path):
    """Prompts of the same names and lengths would pass for those of the file."""
    for path in sweep.glob("main_ksweep*"):
        shutil.copy(path, tmp_path)
    suite = tmp_path / "suite.yaml"
    suite.write_text(study.workload.read_text() + "# another one\n")
    line = refused(
        study, tmp_path / "none", "audit", "--file", tmp_path / "main_ksweep.csv", workload=suite
    )
    assert "suite.yaml: workload_sha256: found" in line


def test_ids_that_the_target_does_not_have_are_refused(study, rows, tmp_path):
    def foreign(frame):
        frame = forged(frame)
        row = frame.index[frame["identical"] == 0][0]
        start = frame.loc[row, "token_ids"].rsplit(" ", 1)[0]
        frame.loc[row, "token_ids"] = f"{start} {small.VOCABULARY}"
        return frame

    line = audited(study, tmp_path, rows(foreign))
    assert f"token_ids: found {small.VOCABULARY} of prompt" in line
    assert f"expected ids below {small.VOCABULARY}" in line


def test_a_meta_file_that_is_no_object_is_refused(study, rows, tmp_path):
    file = rows(lambda frame: frame)
    file.with_name(f"{file.stem}_meta.json").write_text('{"rows": [1]}')
    assert "changed_meta.json: rows: found list; expected a JSON object" in audited(
        study, tmp_path, file
    )


def test_an_arm_that_is_missing_for_a_prompt_is_named(study, rows, tmp_path):
    def without(frame):
        lost = (frame["arm"] == "uno_k1") & (frame["prompt_id"] == "prose_3")
        return frame[~(lost & (frame["repeat"] == 1))]

    line = audited(study, tmp_path, rows(without))
    assert "arm: found no uno_k1 for prompt prose_3 (4 tokens), 4 new, float32, repeat 1" in line


def test_a_file_without_native_rows_is_refused(study, rows, tmp_path):
    line = audited(study, tmp_path, rows(lambda frame: frame[frame["arm"] != "ar"]))
    assert "arm: found no ar for prompt prose_1" in line


@pytest.mark.parametrize("cut", [5, 70, 400])
def test_a_truncated_file_is_refused(study, sweep, tmp_path, cut):
    """At the end of a line an arm is missing; a shortened last id is seen by the native text."""
    data = (sweep / "main_ksweep.csv").read_bytes()[:-cut]
    (tmp_path / "cut.csv").write_bytes(data)
    assert "cut.csv: " in audited(study, tmp_path, tmp_path / "cut.csv")


def test_a_file_cut_between_prompts_is_not_that_of_its_meta_file(study, sweep, tmp_path):
    for path in sweep.iterdir():
        shutil.copy(path, tmp_path)
    file = tmp_path / "main_ksweep.csv"
    frame = pd.read_csv(file)
    frame[frame["prompt_id"] != "factual_1"].to_csv(file, index=False, lineterminator="\n")
    line = audited(study, tmp_path, file)
    assert "sha256: found" in line
    assert "as its meta file says" in line


def test_a_row_that_hides_its_divergence_is_refused(study, rows, tmp_path):
    def hidden(frame):
        return forged(frame).assign(identical=1, first_divergence=-1)

    assert "first_divergence: found -1" in audited(study, tmp_path, rows(hidden))


def test_rows_of_another_target_or_suite_are_refused(study, sweep, rows, tmp_path):
    with pytest.raises(UserError, match="target_fingerprint: found"):
        spec_decode(
            study,
            tmp_path,
            "audit",
            "--file",
            sweep / "main_ksweep.csv",
            target=study.other_target,
        )
    renamed = rows(lambda frame: frame.assign(prompt_id=frame["prompt_id"] + "x"))
    assert "found prose_1x of 4 tokens; expected a prompt of tiny" in audited(
        study, tmp_path, renamed
    )


def test_passages_are_audited_with_the_corpus_they_came_from(study, tmp_path, capsys):
    words = ["--lengths", "5,20", "--block-sizes", "2", "--passages", "2"]
    spec_decode(study, tmp_path, "context", *words, repeats=1, corpus=study.corpus)
    text = capsys.readouterr().out
    assert "4 tokens, float32, context of 20" in text
    file = tmp_path / "main_context.csv"
    spec_decode(study, tmp_path, "audit", "--file", file, corpus=study.corpus)
    assert capsys.readouterr().out.splitlines()[-1].startswith("IDENTICAL")
    with pytest.raises(UserError, match="--corpus: folder: found nothing"):
        spec_decode(study, tmp_path, "audit", "--file", file)


# What is printed


def test_the_printed_ratio_is_paired_by_prompt_and_repeat(sweep):
    """Against loops over the rows."""
    frame = read_rows(sweep / "main_ksweep.csv", "generations")
    walls = {(r.prompt_id, r.repeat, r.arm): r.wall_seconds for r in frame.itertuples()}
    means = [
        np.mean([math.log(walls[p, r, "ar"] / walls[p, r, "uno_k4"]) for r in range(2)])
        for p in frame["prompt_id"].unique()
    ]
    line = next(
        line for line in printed.run_tables(frame).splitlines() if line.split()[0] == "uno_k4"
    )
    _, speed, ratio, prefix, committed, tpf, _, _, cycle, identical, busy = line.split()
    own = frame[frame["arm"] == "uno_k4"]
    assert ratio == f"{math.exp(np.mean(means)):.3f}"
    assert speed == f"{(own['tokens'] / own['wall_seconds']).median():.2f}"
    assert prefix == f"{own['accepted'].sum() / own['cycles'].sum():.3f}"
    assert committed == f"{own['tokens'].sum() / own['cycles'].sum():.3f}"
    assert tpf == f"{(own['tokens'] / own['forwards']).median():.3f}"
    stages = ("draft", "verify", "commit", "overhead")
    medians = [(1000 * own[f"{stage}_seconds"] / own["cycles"]).median() for stage in stages]
    assert cycle == f"{sum(medians):.2f}"
    assert (identical, busy) == ("10/10", "0")


def test_busy_rows_are_counted(study, tmp_path, monkeypatch, capsys):
    loads = itertools.cycle([0.1, 0.9])
    small.no_waiting(monkeypatch, load=lambda: next(loads))
    spec_decode(study, tmp_path, "confidence", "--k", "2")
    frame = read_rows(tmp_path / "main_confidence.csv", "generations")
    assert (frame["busy"] == (frame["load_before"] > 0.25)).all()
    assert frame["busy"].sum() == 10
    lines = capsys.readouterr().out.splitlines()[2:4]
    assert sum(int(line.split()[-1]) for line in lines) == 10


# Killed


def test_a_run_killed_and_started_again_keeps_what_was_timed(study, tmp_path):
    words = options(study, tmp_path / "out", repeats=1)
    command = [sys.executable, str(SCRIPT), *words, "confidence"]
    work = tmp_path / "out" / ".main_confidence"
    status, _ = stop(command, work, "0*.json", signal.SIGKILL)
    assert status == -signal.SIGKILL, "it ended before it was killed"
    assert not (tmp_path / "out" / "main_confidence.csv").exists()
    kept = [files.read_json(path) for path in sorted(work.glob("0*.json"))]
    said = run_process(command)
    assert said.count("kept from an earlier run") == len(kept) < 27
    assert not work.exists()
    frame = read_rows(tmp_path / "out" / "main_confidence.csv", "generations")
    assert frame["prompt_id"].nunique() == 27
    assert (frame["identical"] == 1).all()
    before = [row["wall_seconds"] for piece in kept for row in piece["generations"]]
    assert frame["wall_seconds"].tolist()[: len(before)] == before
