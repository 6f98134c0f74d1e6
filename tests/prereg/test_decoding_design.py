"""Generations that were not made as planned are named; so are runs that do not belong together."""

import shutil

import pytest
import yaml

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.prereg import registry
from diffdraft.prereg.decoding_design import check_decoding
from diffdraft.prereg.design import check_samples
from diffdraft.prereg.schema import load_plan
from diffdraft.rows import read_rows, write_rows
from tests.synthetic_decoding import write_plan, write_study

RUNS = ("baseline", "ksweep", "context", "controls", "adaptive", "confidence", "precision", "cost")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("decoding")
    sample = write_study(root / "rows")
    plan = load_plan(write_plan(root, sample))
    for run in RUNS:
        meta = {"code": "c", "packages": {"mlx": "1"}, "adapter_sha256": "a"}
        if run == "adaptive":
            meta["ksweep_sha256"] = files.sha256_file(root / "rows" / "ksweep.csv")
        files.write_json(root / "rows" / f"{run}_meta.json", meta)
    return root / "rows", plan


@pytest.fixture
def copy(made, tmp_path):
    folder = tmp_path / "rows"
    shutil.copytree(made[0], folder)
    return folder


def check(folder, plan, **sizes):
    sample = plan.samples["tiny"]
    check_decoding(folder, plan, sample.model_copy(update=sizes))


def test_the_planned_generations_pass(made):
    check_samples(made[1], "tiny", made[0], registry.STUDIES["act4s"])


@pytest.mark.parametrize(
    ("sizes", "match"),
    [
        ({"prompts": 7}, r"baseline\.csv: prompts: found 6; expected 7, as planned"),
        ({"categories": 2}, r"baseline\.csv: categories"),
        ({"repeats": 3}, r"baseline\.csv: repeats: found \[0, 1\]; expected \[0, 1, 2\]"),
        ({"token_counts": [40]}, r"baseline\.csv: max_tokens"),
        ({"tokens": 41}, r"ksweep\.csv: max_tokens"),
        ({"block_sizes": [1, 2, 4]}, r"ksweep\.csv: arms"),
        ({"refinements": [1]}, r"controls\.csv: arms"),
        ({"max_load_before": 1e-9}, r"rows whose busy mark is wrong"),
        ({"block_size": 8}, r"arms that the plan does not list|arms"),
    ],
)
def test_sizes_that_are_not_the_planned_ones_are_named(made, sizes, match):
    with pytest.raises(UserError, match=match):
        check(*made, **sizes)


def test_an_arm_that_the_plan_does_not_list_is_named(made, tmp_path):
    value = yaml.safe_load(write_plan(tmp_path, made[1].samples["tiny"]).read_text())
    value["arms"] = [arm for arm in value["arms"] if arm["id"] != "uno_k8"]
    (tmp_path / "act4s.yaml").write_text(yaml.safe_dump(value, sort_keys=False))
    with pytest.raises(UserError, match=r"found \['uno_k8'\]; expected \[\]"):
        check(made[0], load_plan(tmp_path / "act4s.yaml"))


def test_a_row_more_or_less_is_named(made, copy):
    rows = read_rows(copy / "context.csv", "generations")
    write_rows(copy / "context.csv", rows.iloc[:-1], "generations")
    with pytest.raises(UserError, match=r"context\.csv: rows: found \d+; expected \d+"):
        check(copy, made[1])


def test_a_generation_that_ended_early_is_named(made, copy):
    rows = read_rows(copy / "controls.csv", "generations")
    rows.loc[3, "tokens"] -= 1
    rows.loc[3, "token_ids"] = rows.loc[3, "token_ids"].rsplit(" ", 1)[0]
    write_rows(copy / "controls.csv", rows, "generations")
    with pytest.raises(UserError, match=r"controls\.csv: generations cut short: found 1"):
        check(copy, made[1])


@pytest.mark.parametrize(("field", "run"), [("code", "context"), ("adapter_sha256", "cost")])
def test_runs_of_another_code_or_adapter_are_named(made, copy, field, run):
    file = copy / f"{run}_meta.json"
    files.write_json(file, {**files.read_json(file), field: "other"})
    with pytest.raises(UserError, match=rf"{run}_meta\.json: {field}: found other; expected"):
        check(copy, made[1])


def test_a_cost_table_of_another_sweep_is_named(made, copy):
    file = copy / "adaptive_meta.json"
    files.write_json(file, {**files.read_json(file), "ksweep_sha256": "0" * 64})
    with pytest.raises(UserError, match="ksweep_sha256"):
        check(copy, made[1])


@pytest.mark.parametrize("sizes", [{"widths": 4}, {"repeats": 9}])
def test_a_cost_curve_of_other_sizes_is_named(made, sizes):
    cost = made[1].samples["tiny"].cost.model_copy(update=sizes)
    with pytest.raises(UserError, match=r"cost\.csv"):
        check(*made, cost=cost)
