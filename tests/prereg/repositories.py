"""Small git repositories with a frozen plan and a measurement, for promotion and audit.

The rows are those of `paired_timing` with a sample of two prompts; its analysis is replaced by a
few lines, since what is tested here is everything around it.
"""

import dataclasses
import json
import subprocess
from pathlib import Path

import yaml

from diffdraft import files, git, provenance
from diffdraft.prereg import audit, ledger, registry
from diffdraft.prereg.amendments import load_amended_plan
from diffdraft.prereg.freezing import freeze
from diffdraft.prereg.promote import promote
from diffdraft.prereg.schema import load_plan
from diffdraft.prereg.verdict import Verdict, judge
from diffdraft.rows import read_rows, write_rows
from tests.synthetic import timing_tables

from .examples import unpinned

PROMPTS, TOKENS, ROWS = 2, 8, 8
SIZES = {"prompts": PROMPTS, "categories": 2, "tokens": TOKENS, "abba_blocks": 1}
STUDY, PROFILE = "paired_timing", "tiny"
GIT_KEYS = ("git_sha", "git_dirty")
TABLES = ("timing.csv", "cycles.csv")
RESULTS = f"results/{PROFILE}/{STUDY}"


def toy_metrics(plan: Path, folder: Path, out_dir: Path) -> dict:
    """The share of wall time that the drafted arm saves, with a made-up interval."""
    rows = read_rows(folder / "timing.csv", "timing")
    wall = rows.groupby("arm")["wall_seconds"].sum()
    gain = float(wall["ar"] / wall["uno_k4"] - 1)
    scope = {
        "identical_outputs": {"value": 1.0},
        "log_ratio": {"value": gain, "ci_low": gain - 0.1, "ci_high": gain + 0.1},
    }
    return {"study": STUDY, "scopes": {"all": scope}}


def use_toy_metrics(monkeypatch) -> None:
    toy = dataclasses.replace(registry.STUDIES[STUDY], metrics=toy_metrics)
    monkeypatch.setitem(registry.STUDIES, STUDY, toy)


class Repository:
    """A git repository in a temporary folder, with shortcuts for what the tests do to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.prereg = path / "prereg"
        self.plan = self.prereg / f"{STUDY}.yaml"
        self.ledger = self.prereg / "ledger.jsonl"
        self.build = path / "build" / PROFILE
        self.measured = self.build / "measured" / STUDY
        self.results = path / RESULTS

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return git.head(self.path)

    def start(self) -> None:
        """A first commit with code and a draft of the plan."""
        self.prereg.mkdir(parents=True)
        plan = unpinned(STUDY)
        plan["samples"][PROFILE] |= SIZES
        self.plan.write_text(yaml.safe_dump(plan, sort_keys=False))
        (self.path / ".gitignore").write_text("build/\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Somebody")
        self.git("config", "user.email", "somebody@example.org")
        self.git("config", "gc.auto", "0")
        self.commit("code and a draft")

    def freeze(self) -> str:
        freeze(self.plan)
        return self.commit("freeze")

    def measure(self) -> None:
        """Rows, metadata and verdict in build/, as the measuring and judging rules leave them."""
        self._write_models()
        tokens = load_amended_plan(self.plan).samples[PROFILE].tokens
        timing, cycles = timing_tables(PROMPTS, blocks=1, tokens=tokens)
        write_rows(self.measured / "timing.csv", timing, "timing")
        write_rows(self.measured / "cycles.csv", cycles, "cycles")
        self.write_meta()
        self.judge()

    def _write_models(self) -> None:
        for name in ("target/model.safetensors", "adapters/primary/adapter.safetensors"):
            files.write_text(self.build / name, f"weights of {name}")
        files.write_json(self.build / "target" / "training.json", {"fingerprint": "f" * 64})

    def write_meta(self, **changes: object) -> None:
        """The metadata file; `changes` go over its keys, and over provenance's where named so."""
        plan = load_amended_plan(self.plan)
        adapter = self.build / "adapters" / "primary" / "adapter.safetensors"
        record = provenance.collect(provenance.begin(self.plan, self.path), self.plan, self.path)
        if "start" not in changes:
            record["start"] |= {key: changes[key] for key in GIT_KEYS if key in changes}
        record |= {key: changes.pop(key) for key in list(changes) if key in record}
        meta = {
            "study": STUDY,
            "profile": PROFILE,
            "plan_sha256": plan.sha256,
            "target_fingerprint": "f" * 64,
            "adapter_sha256": files.sha256_file(adapter),
            "adapter": {"arm": "primary", "block_size": "8", "step": "1", "seed": "1"},
            "profile_sha256": "a" * 64,
            "workload_sha256": "b" * 64,
            "rows": {name: files.sha256_file(self.measured / name) for name in TABLES},
            "seeds": plan.seeds,
            "samples": plan.samples[PROFILE].model_dump(),
            "provenance": record,
        }
        files.write_json(self.measured / "timing_meta.json", meta | changes)

    def judge(self) -> None:
        metrics = toy_metrics(self.plan, self.measured, self.measured)
        files.write_json(self.measured / "verdict.json", self.verdict(metrics).to_json())

    def verdict(self, metrics: dict) -> Verdict:
        return judge(load_plan(self.plan), metrics, frozen=ledger.frozen_entry(self.plan))

    def promote(self) -> Path:
        return promote(self.path, PROFILE, STUDY)

    def audit(self) -> dict[tuple[str, str], str]:
        """Outcomes by check and subject."""
        return {(f.check, f.subject): f.outcome for f in audit.audit(self.path)}

    def failures(self) -> dict[str, str]:
        """Details of what did not pass, by check."""
        return {f.check: f.detail for f in audit.audit(self.path) if f.outcome != audit.PASS}

    def edit_json(self, name: str, edit) -> None:
        path = self.results / name
        value = json.loads(path.read_text())
        edit(value)
        files.write_json(path, value)


def honest(path: Path) -> Repository:
    """Draft, freeze, measure, promote, commit: every step in a commit of its own."""
    repository = Repository(path)
    repository.start()
    repository.freeze()
    repository.measure()
    repository.promote()
    repository.commit("evidence")
    return repository
