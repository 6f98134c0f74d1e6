"""The wrapper of every step: status, log, terminal, lock."""

import fcntl
import os
import pty
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

STEP = """
import os, sys, time
match sys.argv[1]:
    case "talk":
        print("out"); print("err", file=sys.stderr)
    case "bar":
        for i in range(3): sys.stderr.write(f"\\r{i} of 2"); sys.stderr.flush()
        sys.stderr.write(f"\\nterminal: {sys.stderr.isatty()}\\nno line end")
    case "fail":
        sys.exit(3)
    case "die":
        os.kill(os.getpid(), 9)
    case "wait":
        print("ready", flush=True); sys.stdin = open(sys.argv[2]); sys.stdin.read(); print("first")
"""


@pytest.fixture
def command(tmp_path):
    """A function: the command line that runs the step above under logged.py."""
    source = Path(__file__).resolve().parents[1] / "workflow_scripts" / "logged.py"
    wrapper = shutil.copy(source, tmp_path)
    (tmp_path / "step.py").write_text(STEP)
    log = str(tmp_path / "logs" / "step.txt")
    return lambda *words, options=(): [sys.executable, wrapper, log, *options, "step.py", *words]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "step.txt"


def run(command, **streams):
    return subprocess.run(command, capture_output=not streams, text=True, **streams)


@pytest.mark.parametrize(("word", "status"), [("talk", 0), ("fail", 3), ("die", 137)])
def test_status_is_the_step_s(command, word, status):
    assert run(command(word)).returncode == status


def test_both_streams_reach_log_and_stderr(command, log):
    done = run(command("talk"))
    assert sorted(log.read_text().split()) == sorted(done.stderr.split()) == ["err", "out"]


def test_log_starts_anew_and_keeps_last_states(command, log):
    run(command("talk"))
    done = run(command("bar"))
    assert log.read_text() == done.stderr == "2 of 2\nterminal: False\nno line end\n"


def test_a_watched_step_sees_a_terminal_and_is_logged_all_the_same(command, log):
    reader, writer = pty.openpty()
    assert run(command("bar"), stderr=writer, stdout=writer).returncode == 0
    os.close(writer)
    seen = os.read(reader, 4096).decode()
    assert "\r0 of 2\r1 of 2\r2 of 2" in seen
    assert log.read_text() == "2 of 2\nterminal: True\nno line end\n"


def test_the_same_step_waits_for_one_left_behind(command, log, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    first = subprocess.Popen(command("wait", str(gate)), stderr=subprocess.PIPE, text=True)
    assert first.stderr.readline() == "ready\n"
    first.kill()  # the wrapper dies; the step lives on and holds the lock
    first.wait()
    second = subprocess.Popen(command("talk"), stderr=subprocess.PIPE, text=True)
    assert "waiting for the same step" in second.stderr.readline()
    threading.Thread(target=gate.write_text, args=("go",)).start()
    assert second.wait(timeout=30) == 0
    assert sorted(log.read_text().split()) == ["err", "out"]
    first.stderr.close()
    second.stderr.close()


@pytest.mark.parametrize(("word", "left"), [("talk", False), ("fail", True), ("die", True)])
def test_checkpoints_go_when_the_step_has_succeeded(command, tmp_path, word, left):
    work = tmp_path / "work"
    (work / "deep").mkdir(parents=True)
    run(command(word, options=("--discard", str(work))))
    assert work.exists() == left


def test_checkpoints_go_before_the_next_run_of_the_step_may_begin(command, log, tmp_path):
    """Many files to delete, and a run that waits for the log: it must find none of them."""
    work = tmp_path / "work"
    work.mkdir()
    for number in range(3000):
        (work / str(number)).touch()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    first = command("wait", str(gate), options=("--discard", str(work)))
    with subprocess.Popen(first, stderr=subprocess.PIPE, text=True) as step:
        assert step.stderr.readline() == "ready\n"
        threading.Thread(target=gate.write_text, args=("go",)).start()
        with log.open() as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            assert not work.exists()
