"""A small study of each kind, analysed and judged by the real code, laid out as the rules do."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import yaml

from diffdraft import files
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import judge, merge_metrics
from diffdraft.report import build
from diffdraft.studies.paired_timing import run as paired_timing
from diffdraft.studies.published import replay
from diffdraft.studies.rprm import run as rprm
from tests import synthetic

from . import act4s_folder, act4s_made

ROOT = Path(__file__).parents[2]
TAGS = ("primary", "replication")
STUDIES = ("rprm", "paired_timing", "act4s")
WINDOWS = 512  # the floor of the plan
HOSTILE = "<script>alert('c0')</script> $x_1$ | `law`"


class Tree:
    """Folders of a project that has measured: plans, analyses, replay, committed results."""

    def __init__(self, root: Path):
        self.root = root
        self.plans = [root / "prereg" / f"{study}.yaml" for study in STUDIES]
        self.results = root / "results"
        self.published = {"rprm": root / "published", "act4s": root / "published" / "act4s"}

    def analysis(self, study, kind="measured"):
        return self.root / kind / study

    def load(self, kind="measured"):
        folders = {study: self.analysis(study, kind) for study in STUDIES}
        return build.load("tiny", kind, folders, self.published, self.plans, self.results)

    def copy(self, root: Path):
        shutil.copytree(self.root, root)
        return Tree(root)


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    made = Tree(tmp_path_factory.mktemp("project"))
    for path in made.plans:
        write_plan(path)
    published = made.results / "published" / "rprm.yaml"
    published.parent.mkdir(parents=True)
    shutil.copy(ROOT / "results" / "published" / "rprm.yaml", published)
    replay.run(made.plans[0], published, made.published["rprm"])
    act4s_folder.write_readings(made.published["act4s"], made.plans[2])
    make_rprm(made)
    make_timing(made)
    act4s_folder.make(made.plans[2], made.analysis("act4s"), meta("adapter of primary"))
    for study in STUDIES:
        commit(made, study)
    return made


def write_plan(path):
    """The plan in the repository with a bootstrap small enough for a test."""
    plan = yaml.safe_load((ROOT / "prereg" / path.name).read_text(encoding="utf-8"))
    plan["analysis"]["resamples"] = 50
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(plan, sort_keys=False, allow_unicode=True), encoding="utf-8")


def make_rprm(made):
    folder, plan = made.analysis("rprm"), made.plans[0]
    for seed, tag in enumerate(TAGS):
        rows = folder / f"positions_{tag}.csv"
        table = synthetic.position_table(WINDOWS, entropy_signal=0.5, seed=seed)
        files.write_text(rows, table.to_csv(index=False))
        rprm.run(plan, tag, rows, folder)
        files.write_json(folder / f"positions_{tag}_meta.json", meta(f"adapter of {tag}"))
    write_verdict(plan, [folder / f"metrics_{tag}.json" for tag in TAGS], folder)


def make_timing(made):
    folder, plan = made.analysis("paired_timing"), made.plans[1]
    timing, cycles = synthetic.timing_tables(blocks=2)
    timing["category"] = timing["category"].replace("c0", HOSTILE)
    timing.loc[5, "busy"] = 1
    for name, table in (("timing", timing), ("cycles", cycles)):
        files.write_text(folder / f"{name}.csv", table.to_csv(index=False))
    paired_timing.run(plan, folder / "timing.csv", folder / "cycles.csv", folder)
    files.write_json(folder / "timing_meta.json", meta("adapter of primary"))
    write_verdict(plan, [folder / "metrics.json"], folder)


def meta(adapter):
    provenance = {"git_sha": "0123456789abcdef", "git_dirty": True, "cpu": "an <b>old</b> CPU"}
    return {"adapter_sha256": adapter, "target_fingerprint": "same", "provenance": provenance}


def write_verdict(plan, metrics, folder):
    verdict = judge(load_plan(plan), merge_metrics(metrics))
    files.write_json(folder / "verdict.json", verdict.to_json())


def commit(made, study):
    """Committed rows lie in results/, their analysis in a folder of its own."""
    measured, results = made.analysis(study), made.results / "tiny" / study
    shutil.copytree(measured, made.analysis(study, "committed"))
    results.mkdir(parents=True)
    for path in made.analysis(study, "committed").glob("*_meta.json"):
        shutil.move(path, results / path.name)
    files.write_json(results / "MANIFEST.json", {"study": study, "code": {"commit": "fedcba"}})


@pytest.fixture(scope="session")
def evidence(tree):
    return tree.load()


@pytest.fixture(scope="session")
def report(evidence):
    return build.compose(evidence)


@pytest.fixture(scope="session")
def pooled(evidence):
    return evidence.act4s.study


@pytest.fixture(scope="session")
def both(pooled):
    """The same study with loop-free prompts."""
    tables = act4s_made.tables(act4s_made.SUBSETS)
    analysis = act4s_folder.analysis(act4s_made.SUBSETS)
    return dataclasses.replace(pooled, tables=tables, analysis=analysis)
