"""A real BLAS under MLX on a Linux CPU.

MLX's Linux CPU wheel links Netlib's reference BLAS: about 2 GFLOP/s on a machine that can do 100
and more. Its library leaves `cblas_sgemm` and friends to be resolved when it is loaded, so a
library that exports them and is loaded first, for all (`RTLD_GLOBAL`), serves instead. `use`
loads one; it must run before the first `import mlx.core`, hence in the `__init__.py` of every
package that imports MLX. macOS and CUDA have their own BLAS and are left alone.

`DIFFDRAFT_BLAS=off` keeps the reference BLAS, to compare with.
"""

import ctypes
import ctypes.util
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from diffdraft import files
from diffdraft.errors import UserError

REPOSITORY = Path(__file__).resolve().parents[2]
SHIM_SOURCE = REPOSITORY / "envs" / "blas_shim.c"
SHIM_FOLDER = REPOSITORY / "build" / "blas"

UNTOUCHED = "MLX's own"
SHIM = "scipy-openblas32"
SYSTEM = "system OpenBLAS/MKL via ctypes"
REFERENCE = "none: reference BLAS"


@functools.cache
def use() -> str:
    """Make MLX use a real BLAS, and say which one serves; later calls only repeat the answer.

    Returns `UNTOUCHED` (macOS, CUDA, no MLX), `SHIM`, `SYSTEM` or `REFERENCE`; the last comes
    with one line on stderr, since everything is then about fifty times slower.
    """
    if not _mlx_needs_blas():
        return UNTOUCHED
    _compile_only_with_a_compiler()
    if os.environ.get("DIFFDRAFT_BLAS") == "off":
        return REFERENCE
    if "mlx.core" in sys.modules:
        _warn("mlx.core was imported before diffdraft.fast_blas.use(), so MLX keeps its slow BLAS")
        return REFERENCE
    if _load_shim():
        return SHIM
    if _load_system():
        return SYSTEM
    _warn(
        "MLX runs on its reference BLAS, about 50 times slower: install a C compiler (cc) and "
        "scipy-openblas32, or a system libopenblas"
    )
    return REFERENCE


def _mlx_needs_blas() -> bool:
    """Whether this is Linux with MLX's CPU wheel."""
    try:
        return sys.platform == "linux" and bool(version("mlx-cpu"))
    except PackageNotFoundError:
        return False


def _compile_only_with_a_compiler() -> None:
    """Turn `mx.compile` off where its run-time compiler is missing (MLX calls g++ by name)."""
    if shutil.which("g++") is None and "MLX_DISABLE_COMPILE" not in os.environ:
        os.environ["MLX_DISABLE_COMPILE"] = "1"
        _warn("no g++ found, so MLX runs without mx.compile: install g++ for fused operations")


def _load_shim() -> bool:
    """Build the bridge to scipy-openblas32 where that is not done yet, and load it for all."""
    # find_spec and not import: the package's own __init__ is of no use here, its path is.
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or not spec.origin:
        return False
    library = Path(spec.origin).parent / "lib" / "libscipy_openblas.so"
    try:
        ctypes.CDLL(str(_built_shim(library)), mode=ctypes.RTLD_GLOBAL)
    except (OSError, subprocess.CalledProcessError, UserError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        _warn(f"cannot build or load the scipy-openblas32 shim: {' '.join(detail.split())}")
        return False
    return True


def _built_shim(library: Path) -> Path:
    """Path of the compiled shim; its name holds the digest of all that it was made from."""
    made_from = f"{library}\n{version('scipy-openblas32')}\n".encode() + SHIM_SOURCE.read_bytes()
    shim = SHIM_FOLDER / f"libblas_shim_{files.sha256_bytes(made_from)[:16]}.so"
    if not shim.exists():
        with files.atomic(shim) as temporary:
            command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(temporary), str(SHIM_SOURCE)]
            link = [str(library), f"-Wl,-rpath,{library.parent}"]
            subprocess.run([*command, *link], check=True, capture_output=True, text=True)
    return shim


def _load_system() -> bool:
    """Load the first system BLAS that exports the CBLAS names."""
    for name in ("openblas", "mkl_rt"):
        found = ctypes.util.find_library(name)
        if found is None:
            continue
        try:
            library = ctypes.CDLL(found, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        if all(hasattr(library, f"cblas_{kind}gemm") for kind in "sdc"):
            return True
    return False


def _warn(line: str) -> None:
    print(f"diffdraft: {line}", file=sys.stderr)
