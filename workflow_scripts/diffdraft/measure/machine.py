"""How busy the machine is, so that a timing can say what it was taken beside."""

import os
import time
from pathlib import Path

PROC_STAT = Path("/proc/stat")
WINDOW_SECONDS = 0.1  # ten clock ticks a core: a resolution of a few per cent
IDLE_FIELDS = slice(3, 5)  # idle and iowait, of proc(5)
TIME_FIELDS = slice(0, 8)  # without guest times, which user time holds already


def busy_share(window_seconds: float = WINDOW_SECONDS) -> float:
    """Share of all cores busy with other processes, in [0, 1], over a short window.

    This process sleeps in the window, but a thread of its BLAS may still spin there, waiting for
    more work (OpenBLAS: about a tenth of a second): what this process itself used is not counted.

    Where there is no /proc/stat (macOS) it is the one-minute load average over the cores, which
    also remembers this process's own work.
    """
    if not PROC_STAT.exists():
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    before, own_before = cpu_ticks(PROC_STAT.read_text()), time.process_time()
    time.sleep(window_seconds)
    own_ticks = (time.process_time() - own_before) * os.sysconf("SC_CLK_TCK")
    return share_between(before, cpu_ticks(PROC_STAT.read_text()), own_ticks)


def cpu_ticks(stat: str) -> tuple[int, int]:
    """(idle, all) clock ticks of all cores together since boot, from the text of /proc/stat."""
    name, *fields = stat.split("\n", 1)[0].split()
    if name != "cpu":
        raise ValueError(f"/proc/stat starts with {name!r}, not with 'cpu'")
    ticks = [int(field) for field in fields[TIME_FIELDS]]
    return sum(ticks[IDLE_FIELDS]), sum(ticks)


def share_between(before: tuple[int, int], after: tuple[int, int], own_ticks: float = 0) -> float:
    """Share of the ticks between two readings that were neither idle nor `own_ticks`; 0 if none."""
    idle, ticks = (late - early for early, late in zip(before, after, strict=True))
    return min(1.0, max(0.0, 1 - (idle + own_ticks) / ticks)) if ticks > 0 else 0.0
