"""What Snakemake plans to do, told by dry runs."""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.workflow.conftest import adapter_evidence, planned, snakemake
from tests.workflow.outputs import OUTPUTS

TARGETS = (
    "all",
    "rprm",
    "paired_timing",
    "reanalyse",
    "reanalyse_rprm",
    "reanalyse_paired_timing",
    "act4s",
    "reanalyse_act4s",
    "rprm_stage2",
    "audit",
    "compare",
    "published",
    "report",
)
ANALYSIS = {"analyse_rprm": 2, "analyse_paired_timing": 1, "analyse_act4s": 1}
JUDGEMENT = {"judge": 3, "compare_verdicts": 3}
REPORTS = {"published": 1, "published_act4s": 1, "write_report": 1, "write_act4s_report": 1}


def test_reanalysis_in_a_fresh_clone_runs_no_model(clone):
    jobs = {**ANALYSIS, **JUDGEMENT, **REPORTS, "reanalyse": 1}
    done = snakemake(clone, "--dry-run", "reanalyse")
    assert planned(done.stdout) == {**jobs, "total": sum(jobs.values())}, done.stdout


def test_list_shows_every_target_with_its_docstring(clone):
    listed = snakemake(clone, "--list").stdout
    for target in TARGETS:
        assert re.search(rf"^{target} \(.{{20,}}\)$", listed, re.MULTILINE), target


def test_every_job_logs_and_none_writes_results(clone):
    """Over the jobs of every target at once, and of every profile, so over every rule."""
    runs = [("compare", "audit", "rprm_stage2", "all", "act4s", "reanalyse")]
    for profile in clone.glob("config/profiles/*.yaml"):
        more = ("adapter=x",) * ("repo:" in profile.read_text())
        runs.append(("--config", f"profile={profile.stem}", *more, "--", "act4s"))
    shown = "".join(snakemake(clone, "--dry-run", *words).stdout for words in runs)
    with adapter_evidence(clone):
        words = ("--config", "adapter=committed", "--", "act4s")
        shown += snakemake(clone, "--dry-run", *words).stdout
    blocks = re.findall(r"^(?:local)?rule (\w+):\n((?:    .*\n)+)", shown, re.MULTILINE)
    written = {name: block for name, block in blocks if "output:" in block or name == "audit"}
    text = "".join(path.read_text() for path in clone.glob("rules/*.smk"))
    named = re.findall(r"^rule (\w+):|^use rule \w+ as (\w+) with:", text, re.MULTILINE)
    assert set(written) == {"".join(names) for names in named}
    for name, block in written.items():
        assert re.search(r"^    log: build/", block, re.MULTILINE), name
        outputs = re.findall(r"^    output: (.*)$", block, re.MULTILINE)
        files = outputs[0].split(", ") if outputs else []
        assert all(file.startswith("build/") for file in files), name
        if name in OUTPUTS:
            assert {Path(file).name for file in files} == OUTPUTS[name]


def test_bytes_that_are_hashed_survive_a_checkout(clone):
    names = ["config/profiles/tiny.yaml", "config/workloads/tiny.yaml", "prereg/rprm.yaml"]
    names += ["results/published/rprm.yaml", "results/published/act4_s.yaml"]
    command = ["git", "-C", clone, "check-attr", "text", *names]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == [f"{name}: text: unset" for name in names]


def test_broken_ledger_is_one_line(clone):
    path = clone / "prereg" / "ledger.jsonl"
    before = path.read_bytes() if path.exists() else None
    path.write_text("{}\n")
    done = snakemake(clone, "--dry-run")
    path.unlink() if before is None else path.write_bytes(before)
    assert done.returncode == 3
    assert "error: prereg/ledger.jsonl: line 1: " in done.stdout
    assert "Traceback" not in done.stdout


def test_rules_use_shell_commands_only(clone):
    text = "".join(path.read_text() for path in [*clone.glob("rules/*.smk"), clone / "Snakefile"])
    assert not re.findall(r"^\s*(script|run|notebook|wrapper):", text, re.MULTILINE)


def test_bad_configuration_is_one_line(clone):
    cases = {
        "profile=nope": "config: profile: found 'nope'; expected one of ",
        "profil=x": "config: profil: found an unknown key; expected ",
        "adapter=committed": "config: adapter: found committed; expected results/tiny/adapters/",
        "profile=bad": "config/profiles/bad.yaml: corpus.vocab_size: found -1; expected ",
    }
    good = (clone / "config/profiles/tiny.yaml").read_text()
    bad = clone / "config/profiles/bad.yaml"
    bad.write_text(good.replace("vocab_size: 1024", "vocab_size: -1", 1))
    # All at once, since starting Snakemake is what takes time.
    with ThreadPoolExecutor() as pool:
        for done, line in zip(
            pool.map(lambda case: snakemake(clone, "--dry-run", "--config", case), cases),
            cases.values(),
            strict=True,
        ):
            errors = [text for text in done.stdout.splitlines() if "rror" in text]
            assert done.returncode == 3
            assert len(errors) == 1 and errors[0].startswith(f"error: {line}"), done.stdout
    bad.unlink()
