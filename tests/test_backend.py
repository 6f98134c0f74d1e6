"""One module knows what the back ends differ in: it is asked, and nothing goes around it."""

import ast
import json
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from diffdraft import backend, fast_blas

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCES = [
    path
    for folder in ("workflow_scripts", "bench")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
    if path != Path(backend.__file__)
]
# What MLX and Python offer to ask for, or choose, a device and its memory.
OURS = {
    *("default_device", "set_default_device", "default_stream", "set_default_stream"),
    *("device_info", "device_count", "is_available", "synchronize", "DeviceType"),
    *("gpu", "metal", "cuda", "getrusage", "clear_cache", "set_cache_limit", "set_wired_limit"),
    *("get_peak_memory", "reset_peak_memory", "get_active_memory", "get_cache_memory"),
    *("get_memory_limit", "set_memory_limit"),
}


class FakeMlx:
    """MLX on another machine: its default device, and what was asked of it."""

    DeviceType = SimpleNamespace(cpu="cpu", gpu="gpu")

    def __init__(self, kind: str) -> None:
        self.kind, self.calls = kind, []
        self.metal = SimpleNamespace(is_available=lambda: kind == "metal")
        self.peak = 7_000

    def default_device(self):
        return SimpleNamespace(type="cpu" if self.kind == "cpu" else "gpu")

    def synchronize(self):
        self.calls.append("synchronize")

    def get_peak_memory(self):
        return self.peak

    def get_active_memory(self):
        return 3_000

    def reset_peak_memory(self):
        self.peak = 0

    def device_info(self):
        return {"device_name": f"a {self.kind} chip", "architecture": "arch"}


@pytest.fixture(params=["cpu", "metal", "cuda"])
def fake(request, monkeypatch):
    mlx = FakeMlx(request.param)
    monkeypatch.setattr(backend, "mx", mlx)
    return mlx


def test_the_name_is_that_of_the_default_device(fake):
    assert backend.name() == fake.kind


def test_a_cpu_computes_in_float32_and_a_gpu_in_bfloat16(fake):
    assert backend.traits().dtype == ("float32" if fake.kind == "cpu" else "bfloat16")


def test_the_barrier_waits(fake):
    backend.barrier()
    assert fake.calls == ["synchronize"]


def test_memory_is_that_of_the_device_or_of_the_process(fake):
    memory = backend.memory()
    if fake.kind == "cpu":
        assert memory.of == "process"
        assert memory.active is None
        assert memory.peak > 10_000_000  # Python with MLX and numpy
        assert backend.reset_peak_memory() is False
        assert fake.peak == 7_000
    else:
        assert memory == backend.Memory(7_000, 3_000, "device")
        assert backend.reset_peak_memory() is True
        assert backend.memory().peak == 0


def test_the_record_names_back_end_and_chip(fake):
    record = backend.record()
    assert record["backend"] == fake.kind
    assert record["chip"] == backend.chip() == f"a {fake.kind} chip"
    assert record["architecture"] == "arch"
    assert record["peak_memory_of"] == ("process" if fake.kind == "cpu" else "device")
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_resident_memory_is_in_bytes_on_every_system(monkeypatch, platform, unit):
    def usage(who):
        return SimpleNamespace(ru_maxrss=50 if who == resource.RUSAGE_SELF else 60)

    monkeypatch.setattr(backend.resource, "getrusage", usage)
    monkeypatch.setattr(backend.sys, "platform", platform)
    assert backend.process_peak_bytes() == 50 * unit
    assert backend.process_peak_bytes(children=True) == 60 * unit


def test_this_machine_answers():
    assert backend.name() in backend.TRAITS
    backend.barrier()
    assert backend.memory().peak > 0
    assert backend.chip() != ""


def test_it_puts_blas_under_mlx_before_it_imports_it():
    code = (
        "from diffdraft import backend, fast_blas; import sys;"
        "assert 'mlx.core' in sys.modules; print(fast_blas.use())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY / "workflow_scripts",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == fast_blas.use()


def test_every_precision_of_a_back_end_is_one_that_targets_load_in():
    from diffdraft.targets.load import DTYPES

    assert {traits.dtype for traits in backend.TRAITS.values()} <= set(DTYPES)


def asked(path):
    """What a source file names that only the back end's module may name."""
    tree = ast.parse(path.read_text())
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "mlx"
        for alias in node.names
    }
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return sorted((OURS & names) | {word for word in ("gpu", "metal", "cuda") if word in texts})


def test_nothing_else_asks_for_the_device():
    found = {path.relative_to(REPOSITORY).as_posix(): asked(path) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "mx.synchronize()",
        "peak = mx.metal.get_peak_memory()",
        "from mlx.core import default_device",
        "if name == 'cuda': pass",
    ],
)
def test_a_module_that_asks_itself_is_found(tmp_path, line):
    (tmp_path / "module.py").write_text(f"import mlx.core as mx\n{line}\n")
    assert asked(tmp_path / "module.py")
