"""What Metal, CUDA and the CPU differ in; nothing else in the package asks which of them it is.

MLX computes on its default device: the GPU where its library has kernels for one (Metal on macOS,
CUDA on Linux), else the CPU. How a real BLAS gets under MLX on a Linux CPU is another matter, to
be settled before MLX is imported: `fast_blas`.
"""

import resource
import sys
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from diffdraft import fast_blas

fast_blas.use()  # before MLX is imported

import mlx.core as mx  # noqa: E402

Name = Literal["metal", "cuda", "cpu"]


@dataclass(frozen=True)
class Traits:
    """What is known of a back end before anything is measured on it.

    `dtype` is the precision to compute in where nothing asks for another. `own_memory` says whether
    MLX's memory counters tell what a computation takes.
    """

    dtype: Literal["float32", "bfloat16"]
    own_memory: bool


TRAITS: dict[Name, Traits] = {
    "metal": Traits("bfloat16", own_memory=True),
    "cuda": Traits("bfloat16", own_memory=True),
    # MLX's bfloat16 products do not go through BLAS. Its counters miss what BLAS, tokenizers and
    # files take of the same memory.
    "cpu": Traits("float32", own_memory=False),
}


class Memory(NamedTuple):
    """Bytes. `of` is "device" for what MLX has allocated there, "process" for resident memory."""

    peak: int
    active: int | None
    of: Literal["device", "process"]


def name() -> Name:
    """The back end of MLX's default device."""
    if mx.default_device().type == mx.DeviceType.cpu:
        return "cpu"
    return "metal" if mx.metal.is_available() else "cuda"


def traits() -> Traits:
    """What is known of the back end of the default device."""
    return TRAITS[name()]


def barrier() -> None:
    """Wait until the device has nothing left to do, so that a clock charges it to nobody else.

    On a CPU too: MLX works there in a thread of its own.
    """
    mx.synchronize()


def memory() -> Memory:
    """The largest amount of memory so far and, on a device with counters, the present one.

    Of a process the peak is that of its whole life, whatever `reset_peak_memory` was told.
    """
    if traits().own_memory:
        return Memory(mx.get_peak_memory(), mx.get_active_memory(), "device")
    return Memory(process_peak_bytes(), None, "process")


def reset_peak_memory() -> bool:
    """Count the peak from here on; False where that cannot be done."""
    if not traits().own_memory:
        return False
    mx.reset_peak_memory()
    return True


def process_peak_bytes(children: bool = False) -> int:
    """Peak resident memory of this process, or of the largest child that has ended."""
    who = resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2): bytes on macOS, KiB on Linux
    return resource.getrusage(who).ru_maxrss * unit


def chip() -> str:
    """The name of the chip that computes, as MLX tells it."""
    return str(_info().get("device_name", "unknown"))


def record() -> dict[str, Any]:
    """The back end as provenance tells it: nothing in it names a machine or a person."""
    peak, _, counted = memory()
    return {
        "backend": name(),
        "chip": chip(),
        "architecture": str(_info().get("architecture", "unknown")),
        "peak_memory_bytes": peak,
        "peak_memory_of": counted,
    }


def _info() -> dict[str, Any]:
    return dict(mx.device_info())
