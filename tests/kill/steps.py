"""Long scripts as real processes on a small study, and ways to end them early."""

import contextlib
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from diffdraft import files
from tests.measure import small_study as small

SCRIPTS = Path(__file__).resolve().parents[2] / "workflow_scripts"
N_WINDOWS, BATCHES = 110, 48
STEPS, EVERY = 40, 3


class Study:
    """A small study whose steps are long enough to be hit, and the command lines of its steps."""

    def __init__(self, folder):
        self.folder = folder
        self.profile = small.write_profile(folder)
        shorten(self.profile)
        windows = BATCHES * small.BATCH_SIZE
        self.rprm = small.write_plan(folder, batches=BATCHES, windows=windows)
        self.timing = write_timing_plan(folder)
        self.workload = folder / "workloads" / "tiny.yaml"
        self.corpus = small.write_corpus(folder, N_WINDOWS)
        self.target = small.write_target(folder, self.profile, self.corpus)
        for tag in ("primary", "replication"):
            small.write_adapter(folder, self.profile, self.target, tag)
        self.adapter = folder / "primary" / "adapter.safetensors"

    def command(self, script, **options):
        words = [f"{script}.py", "--profile", self.profile]
        for name, value in options.items():
            words += [f"--{name}", value]
        return [sys.executable, str(SCRIPTS / words[0]), *map(str, words[1:])]


def shorten(profile):
    """Two layers; few short training steps, with a checkpoint after every few of them."""
    values = yaml.safe_load(profile.read_text())
    values["target"]["architecture"] |= {"num_hidden_layers": 2, "full_attention_interval": 2}
    for trained in (values["target"], *values["adapters"].values()):
        sizes = {"steps": STEPS, "checkpoint_every": EVERY, "batch_size": 2}
        trained["optimiser"] |= sizes | {"window": small.WINDOW, "warmup_steps": 2}
    files.write_text(profile, yaml.safe_dump(values))


def write_timing_plan(folder):
    """The plan and the workload of paired_timing, with few tokens and short prompts."""
    workload = yaml.safe_load(Path("config/workloads/tiny.yaml").read_text())
    for prompt in workload["prompts"]:
        prompt["text"] = prompt["id"]
    files.write_text(folder / "workloads" / "tiny.yaml", yaml.safe_dump(workload))
    plan = yaml.safe_load(Path("prereg/paired_timing.yaml").read_text())
    plan["samples"]["tiny"] |= {"tokens": 4, "abba_blocks": 1}
    plan["samples"]["tiny"].pop("workload_sha256", None)
    plan["models"]["tiny"].pop("profile_sha256", None)
    for arm in plan["arms"]:
        arm.pop("trained_block_size", None)
    path = folder / "paired_timing.yaml"
    files.write_text(path, yaml.safe_dump(plan, sort_keys=False))
    return path


def run(command):
    """Run to the end; what was printed."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def run_here(command):
    """Run a script to the end in this process, which has imported already what takes long."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", command[1:])
        runpy.run_path(command[1], run_name="__main__")
    assert ended.value.code == 0


def stop(command, work, pattern, number):
    """Start, send a signal as soon as a file of `pattern` is in `work`; status and stderr."""
    with interruptible():
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(work.glob(pattern)):
        time.sleep(0.005)
    process.send_signal(number)
    _, printed = process.communicate(timeout=60)
    return process.returncode, printed


@contextlib.contextmanager
def interruptible():
    """A process inherits that SIGINT is ignored, as a shell has it for what runs behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def contents(folder):
    """{name: bytes} of the files of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
