import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diffdraft import files
from diffdraft.measure.shards import Shards

LIBRARY = Path(__file__).resolve().parents[2] / "workflow_scripts"
NAMES = ["a", "b", "c", "d"]


def collect(folder, identity, fail_at=None):
    made = []

    def make(place):
        if place == fail_at:
            raise KeyboardInterrupt
        made.append(place)
        return {"value": place, "made_with": identity}

    shards = Shards(folder, identity)
    try:
        pieces = shards.collect(NAMES, make, "piece")
    except KeyboardInterrupt:
        pieces = None
    return pieces, made, shards.start["started_utc"]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, capsys):
    whole = collect(tmp_path / "whole", {"plan": 1})[0]
    capsys.readouterr()
    pieces, made, started = collect(tmp_path / "cut", {"plan": 1}, fail_at=2)
    assert (pieces, made) == (None, [0, 1])
    assert capsys.readouterr().err == "piece 1/4 a: measured\npiece 2/4 b: measured\n"
    pieces, made, again = collect(tmp_path / "cut", {"plan": 1})
    assert made == [2, 3]
    told = ["a: kept from an earlier run", "b: kept from an earlier run"]
    told = [*told, "c: measured", "d: measured"]
    expected = [f"piece {place}/4 {line}" for place, line in enumerate(told, start=1)]
    assert capsys.readouterr().err.splitlines() == expected
    assert pieces == whole
    assert started == again


def test_pieces_of_another_measurement_are_dropped(tmp_path):
    collect(tmp_path, {"adapter": "old"}, fail_at=3)
    pieces, made, _ = collect(tmp_path, {"adapter": "new"})
    assert made == [0, 1, 2, 3]
    assert {piece["made_with"]["adapter"] for piece in pieces} == {"new"}


def test_the_start_is_the_first_runs(tmp_path):
    Shards(tmp_path, {"plan": 1})
    run = files.read_json(tmp_path / "run.json")
    run["start"] |= {"started_utc": "2001-01-01T00:00:00+00:00", "git_sha": "earlier"}
    files.write_json(tmp_path / "run.json", run)
    assert Shards(tmp_path, {"plan": 1}).start == run["start"]
    assert Shards(tmp_path, {"plan": 2}).start["started_utc"] > "2002"


SLOW_RUN = """
import sys, time
from pathlib import Path
from diffdraft.measure.shards import Shards

def make(place):
    time.sleep(0.2)
    print(place, flush=True)
    return place * 10

print(Shards(Path(sys.argv[1]), {}).collect("abcd", make, "piece"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_kill_9_loses_one_piece(tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(SLOW_RUN)
    command = [sys.executable, str(script), str(tmp_path / "work")]
    environment = {"PYTHONPATH": str(LIBRARY)}
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    assert running.stdout.readline() == "0\n"
    time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    kept = [path.name for path in sorted((tmp_path / "work").glob("0*.json"))]
    assert kept == ["0000_a.json"]
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert again.stdout == "1\n2\n3\n[0, 10, 20, 30]\n"
