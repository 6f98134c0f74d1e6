import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffdraft.measure import machine

STAT = "cpu  100 5 20 800 50 3 2 1 7 0\ncpu0 50 2 10 400 25 1 1 0 3 0\nintr 1\n"


def test_ticks_of_all_cores_without_counting_guests_twice():
    assert machine.cpu_ticks(STAT) == (850, 981)


def test_another_format_is_an_error():
    with pytest.raises(ValueError, match="starts with 'cpu0'"):
        machine.cpu_ticks("cpu0 1 2 3 4 5 6 7 8\n")


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_share_between(idle, busy):
    share = machine.share_between((7, 11), (7 + idle, 11 + idle + busy))
    assert share == pytest.approx(busy / (idle + busy) if idle + busy else 0)


def test_own_ticks_are_not_of_others():
    assert machine.share_between((0, 0), (10, 20), 10) == 0
    assert machine.share_between((0, 0), (5, 20), 10) == pytest.approx(0.25)
    assert machine.share_between((0, 0), (20, 20), 1) == 0


def test_reads_two_moments(monkeypatch, tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu 0 0 0 100 0 0 0 0 0 0\n")
    monkeypatch.setattr(machine, "PROC_STAT", stat)
    monkeypatch.setattr(machine.time, "process_time", lambda: 0.0)

    def later(seconds):
        assert seconds == 0.3
        stat.write_text("cpu 30 0 0 160 10 0 0 0 0 0\n")

    monkeypatch.setattr(machine.time, "sleep", later)
    assert machine.busy_share(0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(("load", "share"), [(1.0, 0.25), (9.0, 1.0)])
def test_load_average_where_there_is_no_proc(monkeypatch, tmp_path, load, share):
    monkeypatch.setattr(machine, "PROC_STAT", tmp_path / "nothing")
    monkeypatch.setattr(machine.os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 4)
    assert machine.busy_share() == share


def test_this_machine():
    assert 0 <= machine.busy_share(0.02) <= 1


def test_a_thread_of_this_process_that_spins_is_not_other_work(monkeypatch, tmp_path):
    """As a worker of the BLAS does after a product: the machine is idle but for it."""
    stat, used = tmp_path / "stat", iter([1.0, 1.1])
    stat.write_text("cpu 0 0 0 0 0 0 0 0 0 0\n")
    monkeypatch.setattr(machine, "PROC_STAT", stat)
    monkeypatch.setattr(machine.os, "sysconf", lambda name: 100)
    monkeypatch.setattr(machine.time, "process_time", lambda: next(used))
    monkeypatch.setattr(
        machine.time, "sleep", lambda _: stat.write_text("cpu 12 0 0 8 0 0 0 0 0 0\n")
    )
    assert machine.busy_share(0.1) == pytest.approx(0.1)
