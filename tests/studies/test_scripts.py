"""The three analysis commands: what they write, what they refuse, and that they need no MLX."""

import subprocess
import sys

import pandas as pd
import pytest

import analyse_paired_timing
import analyse_rprm
import other_splits
from diffdraft import cli, files
from tests.studies.plans import PAIRED_TIMING, ROOT, RPRM
from tests.synthetic import position_table, timing_tables


def call(script, *arguments) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.run(script.parser(), script.main, [str(a) for a in arguments])
    return caught.value.code


def rprm_arguments(tmp_path, plan=RPRM, tag="primary"):
    positions, out = tmp_path / "positions.csv", tmp_path / "out"
    return "--plan", plan, "--tag", tag, "--positions", positions, "--out-dir", out


def test_analyse_rprm(tmp_path):
    position_table(512).to_csv(tmp_path / "positions.csv", index=False, lineterminator="\r\n")
    assert call(analyse_rprm, *rprm_arguments(tmp_path)) == 0
    stems = ["analysis", "calibration", "metrics", "pr", "quintiles", "roc", "within_offset"]
    names = sorted(path.stem for path in (tmp_path / "out").iterdir())
    assert names == [f"{stem}_primary" for stem in stems]
    metrics = files.read_json(tmp_path / "out" / "metrics_primary.json")
    assert list(metrics["scopes"]) == ["primary.FULL", "primary.SCHEDULE"]
    quintiles = pd.read_csv(tmp_path / "out" / "quintiles_primary.csv")
    assert len(quintiles) == 30
    assert list(quintiles)[:3] == ["stratum", "predictor", "quintile"]


def test_analyse_rprm_refuses_in_one_line_and_writes_nothing(tmp_path, capsys):
    position_table(100).to_csv(tmp_path / "positions.csv", index=False)
    assert call(analyse_rprm, *rprm_arguments(tmp_path)) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "positions.csv: example_id: found 100 windows; expected at least 512" in error
    assert not (tmp_path / "out").exists()


def test_other_splits_prints_a_line_for_each_stratum_and_comparison(tmp_path, capsys):
    positions = tmp_path / "positions.csv"
    position_table(512).to_csv(positions, index=False)
    assert call(other_splits, "--plan", RPRM, "--positions", positions, "--splits", 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        [stratum, gain] for stratum in ("FULL", "SCHEDULE") for gain in ("4_vs_1", "6_vs_5")
    ]


def test_other_splits_refuses_too_few_splits_and_a_table_without_the_last_offset(tmp_path, capsys):
    positions, table = tmp_path / "positions.csv", position_table(512)
    table[table["offset"] < 8].to_csv(positions, index=False)
    assert call(other_splits, "--plan", RPRM, "--positions", positions) == 3
    assert "largest offset: found +7; expected +8" in capsys.readouterr().err
    assert call(other_splits, "--plan", RPRM, "--positions", positions, "--splits", 1) == 3
    assert "--splits: splits: found 1; expected at least 2" in capsys.readouterr().err


def test_a_table_without_the_last_offset_is_refused(tmp_path, capsys):
    table = position_table(512)
    table[table["offset"] < 8].to_csv(tmp_path / "positions.csv", index=False)
    assert call(analyse_rprm, *rprm_arguments(tmp_path)) == 3
    assert "largest offset: found +7; expected +8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  resamples: 2000", "  resamples: 0", "analysis.resamples: found 0"),
        ("  resamples: 2000\n", "", "analysis.resamples: found nothing"),
        ("  resamples:", "  resample:", "analysis.resample"),
        ("  split: 20260908\n", "", "seeds.split: found nothing"),
        ("fit_share: 0.5", "fit_share: 0.9", "so that TEST has windows"),
        ("_percentiles: [2.5, 97.5]", "_percentiles: [97.5, 2.5]", "the lower one first"),
    ],
)
def test_a_plan_that_does_not_fit_the_analysis(tmp_path, capsys, old, new, message):
    text = files.read_text(RPRM)
    assert old in text
    plan = tmp_path / "rprm.yaml"
    plan.write_text(text.replace(old, new))
    assert call(analyse_rprm, *rprm_arguments(tmp_path, plan)) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_the_plan_of_another_study(tmp_path, capsys):
    assert call(analyse_rprm, *rprm_arguments(tmp_path, PAIRED_TIMING)) == 3
    assert "study: found paired_timing; expected rprm" in capsys.readouterr().err


def test_an_adapter_that_is_not_planned(tmp_path, capsys):
    assert call(analyse_rprm, *rprm_arguments(tmp_path, tag="third")) == 3
    assert "found third; expected primary or replication" in capsys.readouterr().err


def test_analyse_paired_timing(tmp_path, capsys):
    paths = {name: tmp_path / f"{name}.csv" for name in ("timing", "cycles")}
    for path, frame in zip(paths.values(), timing_tables(27), strict=True):
        frame.to_csv(path, index=False)
    arguments = ["--plan", PAIRED_TIMING, "--out-dir", tmp_path / "out"]
    arguments += [part for name, path in paths.items() for part in (f"--{name}", path)]
    assert call(analyse_paired_timing, *arguments) == 0
    assert set(files.read_json(tmp_path / "out" / "metrics.json")["scopes"]) == {"all"}
    paths["timing"].write_text("")
    assert call(analyse_paired_timing, *arguments) == 3
    assert "timing.csv: file: found an empty file" in capsys.readouterr().err


def test_analysis_never_imports_mlx():
    modules = [
        "diffdraft.rows",
        "diffdraft.studies.rprm.run",
        "diffdraft.studies.paired_timing.run",
        "diffdraft.studies.act4s.run",
        "diffdraft.studies.published.replay",
        "diffdraft.studies.published.act4s_replay",
    ]
    code = f"import sys, {', '.join(modules)}; print([m for m in sys.modules if 'mlx' in m])"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT / "workflow_scripts",
    )
    assert run.stdout.strip() == "[]"
