"""The BLAS put under MLX computes the same as the reference, and says what it did."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from diffdraft import fast_blas
from diffdraft.errors import UserError

needs_shim = pytest.mark.skipif(
    fast_blas.use() != fast_blas.SHIM, reason="only with MLX's Linux CPU wheel and a C compiler"
)
PRODUCTS = """
import json, sys
from diffdraft import fast_blas
serves = fast_blas.use()
import mlx.core as mx
import numpy as np
random = np.random.default_rng(7)
def real(*shape): return mx.array(random.standard_normal(shape).astype(np.float32))
def cplx(*shape): return real(*shape) + 1j * real(*shape)
products = {
    "square": real(64, 64) @ real(64, 64),
    "odd": real(37, 129) @ real(129, 5),
    "one row": real(1, 300) @ real(300, 7),
    "transposed left": real(41, 23).T @ real(41, 17),
    "transposed right": real(19, 53) @ real(31, 53).T,
    "batched": real(3, 2, 17, 40) @ real(3, 2, 40, 9),
    "batched, transposed": real(4, 11, 33) @ real(4, 8, 33).swapaxes(1, 2),
    "broadcast": real(5, 13, 21) @ real(21, 6),
    "added": mx.addmm(real(15, 22), real(15, 44), real(44, 22), alpha=0.5, beta=2.0),
    "strided": real(60, 50)[::2, ::5] @ real(10, 12),
    "complex": cplx(14, 27) @ cplx(27, 18),
    "complex, transposed": cplx(27, 14).T @ cplx(27, 18),
}
mx.eval(products)
np.savez(sys.argv[1], **{name: np.array(value) for name, value in products.items()})
print(json.dumps(serves))
"""


def python(code, *arguments, **environment):
    """Run code in a fresh process, as BLAS is chosen once a process; its stdout and stderr."""
    scripts = Path(fast_blas.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(scripts), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


@needs_shim
def test_products_agree_with_the_reference(tmp_path):
    fast, slow = tmp_path / "fast.npz", tmp_path / "slow.npz"
    assert json.loads(python(PRODUCTS, fast)[0]) == fast_blas.SHIM
    assert json.loads(python(PRODUCTS, slow, DIFFDRAFT_BLAS="off")[0]) == fast_blas.REFERENCE
    with np.load(fast) as ours, np.load(slow) as theirs:
        assert set(ours) == set(theirs)
        for name in theirs:
            # Products of up to 300 standard normals: rounding of a float32 sum is below 1e-4.
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-4, err_msg=name)


@needs_shim
@pytest.mark.parametrize(("setting", "provider"), [("", "libblas_shim"), ("off", "libblas-")])
def test_the_loader_binds_mlx_to_the_shim(setting, provider):
    code = (
        "from diffdraft import fast_blas; fast_blas.use()\n"
        "import mlx.core as mx; mx.eval(mx.ones((9, 9)) @ mx.ones((9, 9)))"
    )
    log = python(code, DIFFDRAFT_BLAS=setting, LD_DEBUG="bindings")[1]
    bound = [line for line in log.splitlines() if "libmlx.so" in line and "cblas_sgemm" in line]
    assert bound
    assert all(provider in line.split(" to ")[1] for line in bound)


@needs_shim
def test_says_so_when_mlx_came_first():
    out, err = python(
        "import mlx.core\nfrom diffdraft import fast_blas\nprint(fast_blas.use(), fast_blas.use())"
    )
    assert out == f"{fast_blas.REFERENCE} {fast_blas.REFERENCE}"
    assert err.count("imported before") == 1


@needs_shim
def test_without_a_compiler_one_line_says_what_to_do(tmp_path):
    code = (
        "import pathlib, sys; from diffdraft import fast_blas\n"
        "fast_blas.SHIM_FOLDER = pathlib.Path(sys.argv[1])\n"
        "fast_blas.ctypes.util.find_library = lambda name: None\n"
        "print(fast_blas.use()); import os; print(os.environ['MLX_DISABLE_COMPILE'])\n"
        "import mlx.core as mx; print((mx.ones((2, 2)) @ mx.ones((2, 2))).tolist())"
    )
    out, err = python(code, tmp_path / "blas", PATH=str(tmp_path))
    assert out.splitlines() == [fast_blas.REFERENCE, "1", "[[2.0, 2.0], [2.0, 2.0]]"]
    assert "install a C compiler" in err
    assert not list(tmp_path.rglob("*.so"))


@needs_shim
def test_shim_is_built_once_and_again_for_another_library(tmp_path, monkeypatch):
    monkeypatch.setattr(fast_blas, "SHIM_FOLDER", tmp_path)
    library = Path(fast_blas.importlib.util.find_spec("scipy_openblas32").origin).parent
    library = library / "lib" / "libscipy_openblas.so"
    first = fast_blas._built_shim(library)
    made = first.stat().st_mtime_ns
    assert fast_blas._built_shim(library) == first
    assert first.stat().st_mtime_ns == made
    source = tmp_path / "other.c"
    source.write_bytes(fast_blas.SHIM_SOURCE.read_bytes() + b"\n")
    monkeypatch.setattr(fast_blas, "SHIM_SOURCE", source)
    assert fast_blas._built_shim(library) != first
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".c", ".so", ".so"]


@needs_shim
def test_no_room_for_the_shim_is_one_line(monkeypatch, capsys):
    def full(library):
        raise UserError("build/blas", "disk", "No space left on device", "room for it")

    monkeypatch.setattr(fast_blas, "_built_shim", full)
    assert fast_blas._load_shim() is False
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "No space left on device" in said


def test_other_platforms_are_left_alone(monkeypatch):
    monkeypatch.setattr(fast_blas.sys, "platform", "darwin")
    assert fast_blas.use.__wrapped__() == fast_blas.UNTOUCHED
