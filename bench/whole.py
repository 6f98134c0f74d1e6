"""`make run` and `make test` as a newcomer has them: in a fresh clone, installation included.

It takes as long as both do, so it runs only when named: `make bench BARS=whole`.
"""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import Measured
from diffdraft import backend

ON_REQUEST = True
BYTES_PER_GIB = 1 << 30


def measure() -> Iterator[Measured]:
    """Minutes of both, and the largest process of `make run`."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "diffdraft"
        subprocess.run(["git", "clone", "--quiet", ".", clone], check=True)
        yield minutes(clone, "run", 20)
        peak = backend.process_peak_bytes(children=True) / BYTES_PER_GIB
        yield Measured("peak memory of the largest process so far", peak, 4, "GiB", at_most=True)
        yield minutes(clone, "test", 10)


def minutes(clone: Path, target: str, bar: float) -> Measured:
    """Wall time of a make target; the second one finds what the first has installed."""
    start = time.perf_counter()
    subprocess.run(["make", target], cwd=clone, check=True, stdout=subprocess.DEVNULL)
    taken = (time.perf_counter() - start) / 60
    return Measured(f"make {target}, from a fresh clone", taken, bar, "min", at_most=True)
