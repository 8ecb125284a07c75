"""Filters on a GPU next to the CPU, disk to disk: equal bits, seconds, and memory next to the plan's.

    python benchmarks/gpu.py [MiB of a volume]

It needs a CUDA device and takes less than 10 minutes with the default of 512 MiB. The first rows are the
limits: copies over the bus from pinned memory, and copies in device memory.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numba import cuda

import beam_volumes as bv
from beam_volumes.base.text import format_bytes
from beam_volumes.sweep.device import listed

HEAD = ("", "bits", "CPU, s", "GPU, s", "times", "GPU, GiB/s", "device, MiB", "planned, MiB")

#: Name, dtype, and a function of a volume.
ROWS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("median 3", "u2", lambda v: bv.median_filter(v, 3)),
    ("median 3", "f4", lambda v: bv.median_filter(v, 3)),
    ("median 7", "u2", lambda v: bv.median_filter(v, 7)),
    ("gaussian 2", "f4", lambda v: bv.gaussian_filter(v, 2)),
    ("uniform 9", "u2", lambda v: bv.uniform_filter(v, 9)),
    ("maximum 7", "u2", lambda v: bv.maximum_filter(v, 7)),
    ("ball dilation r=3", "u2", lambda v: bv.grey_dilation(v, footprint=bv.ball(3))),
    ("sobel", "f4", bv.sobel),
    ("gaussian above otsu", "u2", lambda v: _above_otsu(bv.gaussian_filter(v, 1, dtype="u2"))),
    ("gaussian standardized", "f4", lambda v: _standardized(bv.gaussian_filter(v, 1))),
    ("gaussian clipped to percentiles", "f4", lambda v: _clipped(bv.gaussian_filter(v, 1))),
    ("distances", "u2", lambda v: bv.distance_transform_edt(v < 4090)),
    (
        "chain of five",
        "u2",
        lambda v: bv.uniform_filter(
            bv.minimum_filter(
                bv.maximum_filter(bv.gaussian_filter(bv.median_filter(v, 3), 1), 3), 3
            ),
            3,
        ),
    ),
)


def _above_otsu(v: Any) -> Any:
    return v > bv.threshold_otsu(v)


def _standardized(v: Any) -> Any:
    return (v - bv.mean(v)) / bv.std(v)


def _clipped(v: Any) -> Any:
    low, high = bv.percentile(v, 1), bv.percentile(v, 99)
    return bv.rescale_intensity(bv.clip(v, low, high), (low, high), (0, 1))


def main(mib: int = 512) -> None:
    """Print the table."""
    (found,) = listed()
    print(f"{found.name}, {format_bytes(found.memory)}, CUDA {found.cuda}")
    for name, speed in _ceilings(mib << 20).items():
        print(f"{name}: {speed:.1f} GiB/s")
    with tempfile.TemporaryDirectory() as folder:
        print(" | ".join(HEAD))
        for name, dtype, function in ROWS:
            print(" | ".join(_row(folder, mib << 20, name, dtype, function)), flush=True)
        if find_spec("torch") is None:
            print("network: needs PyTorch")
        else:
            print(" | ".join(_network(_torch_file(folder), 192)))


def _row(
    folder: str, size: int, name: str, dtype: str, function: Callable[[Any], Any]
) -> tuple[str, ...]:
    side = round((size / np.dtype(dtype).itemsize) ** (1 / 3) / 32) * 32
    shape = (max(32, side),) * 3
    rng = np.random.default_rng(0)
    voxels = rng.integers(0, 1 << 12, shape, dtype="u2").astype(dtype)
    source = bv.compute(
        bv.open(voxels).to(f"{folder}/in.zarr", codec="none"), runner=None, overwrite=True
    )
    seconds, results, peak = {}, {}, 0
    for device in ("cpu", "cuda"):
        target = function(source).to(f"{folder}/{device}.zarr", codec="none")
        how = {"device": device, "runner": None, "overwrite": True, "progress": False}
        # The first run compiles.
        for _ in range(2):
            with _Watched() as watched:
                begin = time.perf_counter()
                written = bv.compute(target, **how)
                seconds[device] = time.perf_counter() - begin
        results[device] = np.asarray(written)
        peak = watched.peak
    planned = bv.plan(target, device="cuda").predicted_device_memory
    same = results["cpu"].tobytes() == results["cuda"].tobytes()
    return (
        f"{name} {dtype} {shape[0]}^3",
        "equal" if same else "DIFFERENT",
        f"{seconds['cpu']:.2f}",
        f"{seconds['cuda']:.2f}",
        f"{seconds['cpu'] / seconds['cuda']:.1f}",
        f"{voxels.nbytes / seconds['cuda'] / (1 << 30):.2f}",
        f"{peak >> 20}",
        f"{planned >> 20}",
    )


def _torch_file(folder: str) -> str:
    """A network with a context of 2."""
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    first, second = (torch.nn.Conv3d(*n, 3, padding=1) for n in ((1, 16), (16, 1)))
    module = torch.nn.Sequential(first, torch.nn.ReLU(), second).eval()
    torch.jit.save(torch.jit.trace(module, torch.zeros(1, 1, 16, 16, 16)), f"{folder}/net.pt")
    return f"{folder}/net.pt"


def _network(file: str, side: int) -> tuple[str, ...]:
    """A row of a network: bits are compared between two runs in different slabs on the GPU."""
    voxels = np.random.default_rng(0).random((side,) * 3, np.float32)
    seconds, results = {}, {}
    for name, device, depth in (("cpu", "cpu", side), ("gpu", "cuda", side), ("cut", "cuda", 64)):
        made = bv.predict(voxels, file, patch=(68, 68, 68), context=2, device=device)
        begin = time.perf_counter()
        how = {"slab": (depth, side, side), "runner": None, "progress": False}
        results[name] = np.asarray(bv.compute(made, **how))
        seconds[name] = time.perf_counter() - begin
    same = results["gpu"].tobytes() == results["cut"].tobytes()
    difference = float(np.abs(results["gpu"] - results["cpu"]).max())
    return (
        f"network f4 {side}^3, differs from the CPU's by up to {difference:.2g}",
        "equal" if same else "DIFFERENT",
        f"{seconds['cpu']:.2f}",
        f"{seconds['gpu']:.2f}",
        f"{seconds['cpu'] / seconds['gpu']:.1f}",
        f"{voxels.nbytes / seconds['gpu'] / (1 << 30):.2f}",
    )


class _Watched:
    """The memory that is taken of the device while the context lasts, by samples."""

    peak = 0

    def __enter__(self) -> _Watched:
        self._before, self._ended = listed()[0].free, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(0.005):
            self.peak = max(self.peak, self._before - listed()[0].free)

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()


def _ceilings(size: int) -> dict[str, float]:
    """GiB/s of copies: to the device, from it, and within it (read and written bytes)."""
    pinned = cuda.pinned_array(size, np.uint8)
    pinned[...] = 1
    first, second = (cuda.device_array(size, np.uint8) for _ in range(2))
    ways: dict[str, tuple[int, Callable[[], Any]]] = {
        "to the device": (1, lambda: first.copy_to_device(pinned)),
        "from the device": (1, lambda: first.copy_to_host(pinned)),
        "within the device": (2, lambda: second.copy_to_device(first)),
    }
    found = {}
    for name, (times, copy) in ways.items():
        best = float("inf")
        for _ in range(5):
            cuda.synchronize()
            begin = time.perf_counter()
            copy()
            cuda.synchronize()
            best = min(best, time.perf_counter() - begin)
        found[name] = times * size / best / (1 << 30)
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
