"""MLX's float32 product on the BLAS that diffdraft puts under it, against the stock wheel's."""

import os
import subprocess
import sys
from collections.abc import Iterator

from bench import Measured
from diffdraft import fast_blas

# A fresh process for each BLAS, since the choice is made once a process. The fastest of several.
PROGRAM = """
import time
from diffdraft import fast_blas
fast_blas.use()
import mlx.core as mx
a, b = mx.random.normal((512, 512)), mx.random.normal((512, 2048))
mx.eval(a @ b)
def seconds():
    start = time.perf_counter()
    mx.eval(a @ b)
    return time.perf_counter() - start
print(min(seconds() for _ in range(7)))
"""


def measure() -> Iterator[Measured]:
    """How many times faster."""
    if fast_blas.use() != fast_blas.UNTOUCHED:
        ratio = _seconds("off") / _seconds("")
        yield Measured("float32 matmul 512x512x2048, against the stock Linux wheel", ratio, 20)


def _seconds(setting: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "DIFFDRAFT_BLAS": setting},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)
