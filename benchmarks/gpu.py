"""Filters on a GPU next to two cores, disk to disk: equal bits, seconds, and memory next to the plan's.

    python benchmarks/gpu.py [MiB of a volume]

It needs a CUDA device. The first lines are the limits: copies over the bus from pinned memory, copies in
device memory, and copies from disk to disk. The table begins with cuCIM's tiled filter of a slide, next to
CuPy, and a network, if CuPy and PyTorch are installed. No row begins after 9 minutes; the others are listed.
The exit code is 1 if bits differ, or if a run takes more memory of the device than planned.

A machine without a network, which has numba-cuda, numpy before 2.5, scipy, tensorstore and tifffile, needs
a few small wheels. Direct reads need the wheels of kvikio-cu13, libkvikio-cu13 and rapids-logger, too.
Make them on another machine with the same version of Python, and install them::

    pip wheel --no-deps --wheel-dir wheels . argcomplete cloudpickle platformdirs psutil PyYAML tqdm
    pip install --no-deps --no-index --find-links wheels beam-volumes argcomplete cloudpickle platformdirs \\
        psutil PyYAML tqdm

apache-beam, pyarrow and imagecodecs are not necessary.
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
from beam_volumes.sweep.devices import listed
from beam_volumes.sweep.direct import way

HEAD = ("", "bits", "2 cores, s", "GPU, s", "times", "GPU, GiB/s", "device, MiB", "planned, MiB")
#: Voxels that touch along an axis; no box, and no ball of another radius.
CROSS = np.abs(np.indices((3, 3, 3)) - 1).sum(axis=0) < 2
CORNER = np.abs(np.indices((3, 3, 3)) - 2).sum(axis=0) < 4
WEIGHTS = np.random.default_rng(0).random((3, 3, 3))
#: No row begins after this time.
SECONDS = 9 * 60

#: Name, dtype, and a function of a volume, the most important first; they use all device code.
ROWS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("median 7", "u2", lambda v: bv.median_filter(v, 7)),
    ("median 3", "u2", lambda v: bv.median_filter(v, 3)),
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
    ("median 3 of TIFF", "u2", lambda v: bv.median_filter(v, 3)),
    ("median 3", "f4", lambda v: bv.median_filter(v, 3)),
    ("median 7", "u1", lambda v: bv.median_filter(v, 7)),
    ("median of a cross", "u2", lambda v: bv.median_filter(v, footprint=CROSS)),
    ("gaussian 2", "f4", lambda v: bv.gaussian_filter(v, 2)),
    ("uniform 9", "u2", lambda v: bv.uniform_filter(v, 9)),
    ("correlate 3x3x3", "u2", lambda v: bv.correlate(v, WEIGHTS)),
    ("sobel", "f4", bv.sobel),
    ("prewitt along each axis", "u2", lambda v: bv.generic_gradient_magnitude(v, bv.prewitt)),
    ("maximum 7", "u2", lambda v: bv.maximum_filter(v, 7)),
    ("maximum of a cross", "f4", lambda v: bv.maximum_filter(v, footprint=CROSS)),
    ("ball dilation r=3", "u2", lambda v: bv.grey_dilation(v, footprint=bv.ball(3))),
    ("dilation by heights", "u2", lambda v: bv.grey_dilation(v, structure=9.0 * CROSS)),
    ("binary ball r=3", "u1", lambda v: bv.binary_dilation(v > 250, bv.ball(3))),
    ("binary corner", "u1", lambda v: bv.binary_erosion(v > 9, CORNER)),
    ("distances", "u2", lambda v: bv.distance_transform_edt(v < 4090)),
    ("distances, unequal sides", "u2", lambda v: bv.distance_transform_edt(v < 4090, (2, 1.5, 1))),
    ("frangi 1, 2", "f4", lambda v: bv.frangi(v, [1, 2])),
    ("sato 2", "f4", lambda v: bv.sato(v, [2])),
    ("hessian eigenvalue", "f4", lambda v: bv.hessian_matrix_eigvals(bv.hessian_matrix(v, 1))[0]),
    ("hessian eigenvalue", "f8", lambda v: bv.hessian_matrix_eigvals(bv.hessian_matrix(v, 1))[0]),
    (
        "structure tensor eigenvalue",
        "f4",
        lambda v: bv.structure_tensor_eigenvalues(bv.structure_tensor(v, 1))[0],
    ),
    ("labels", "u2", lambda v: bv.label(bv.gaussian_filter(v, 1) > 2048)),
    ("rotation, linear", "u2", lambda v: bv.rotate(v, 20, reshape=False, order=1)),
    ("zoom 0.7, linear", "u2", lambda v: bv.zoom(v, 0.7, order=1)),
    ("reflected margins", "u2", lambda v: bv.pad(v, 9, mode="reflect")),
    ("downsample by means", "u2", lambda v: bv.downsample(v, 2)),
    ("downsample by medians", "u2", lambda v: bv.downsample(v, 2, method="median")),
    ("equalized histogram", "u2", lambda v: bv.equalize_hist(bv.gaussian_filter(v, 1))),
    ("equal slices", "f4", lambda v: bv.normalize_slices(bv.gaussian_filter(v, 1))),
    ("histogram", "u2", lambda v: bv.histogram(bv.gaussian_filter(v, 1), 99, (0, 5000))[0]),
    ("gaussian above otsu", "u2", lambda v: _above_otsu(bv.gaussian_filter(v, 1, dtype="u2"))),
    ("gaussian standardized", "f4", lambda v: _standardized(bv.gaussian_filter(v, 1))),
    ("gaussian clipped to percentiles", "f4", lambda v: _clipped(bv.gaussian_filter(v, 1))),
)


def _above_otsu(v: Any) -> Any:
    return v > bv.threshold_otsu(v)


def _standardized(v: Any) -> Any:
    return (v - bv.mean(v)) / bv.std(v)


def _clipped(v: Any) -> Any:
    low, high = bv.percentile(v, 1), bv.percentile(v, 99)
    return bv.rescale_intensity(bv.clip(v, low, high), (low, high), (0, 1))


def _edges(slide: Any) -> Any:
    return bv.sobel(bv.gaussian_filter(bv.rgb2gray(slide), 2))


def main(mib: int = 512) -> int:
    """Print the table; return the number of wrong rows."""
    begin = time.perf_counter()
    found, *_ = listed()
    print(f"{found.name}, {format_bytes(found.memory)}, CUDA {found.cuda}")
    print(f"raw chunks are read straight to the device, {way()}")
    wrong, size = 0, mib << 20
    with tempfile.TemporaryDirectory() as folder:
        for name, speed in _ceilings(folder, max(size, 1 << 20)).items():
            print(f"{name}: {speed:.1f} GiB/s")
        print(" | ".join(HEAD), flush=True)

        def show(*columns: str) -> None:
            nonlocal wrong
            wrong += "DIFFERENT" in columns or "ABOVE" in columns[-1]
            print(" | ".join(columns), flush=True)

        side = max(64, round((size / 3) ** 0.5 / 256) * 256)
        slide = _noise((side, side, 3), "u1")
        colours = _copied(folder, bv.open(slide, axes="yxc"), "slide.zarr")
        columns = _columns(folder, colours, _edges, slab=(1024, 1024))
        show(f"slide {side}^2, grey, gaussian, sobel in tiles", *columns)
        print("the slide with CuPy: needs CuPy" if find_spec("cupy") is None else _with_cupy(slide))
        if find_spec("torch") is None:
            print("network: needs PyTorch")
        else:
            show(*_network(_torch_file(folder), 192))
        stored = {}
        for name, dtype, function in ROWS:
            side = max(32, round((size / np.dtype(dtype).itemsize) ** (1 / 3) / 32) * 32)
            if time.perf_counter() - begin > SECONDS:
                print(f"{name} {dtype} {side}^3 | not measured for lack of time")
                continue
            place = f"{dtype}.tif" if name.endswith("TIFF") else f"{dtype}.zarr"
            if place not in stored:
                stored[place] = _copied(folder, bv.open(_noise((side,) * 3, dtype)), place)
            show(f"{name} {dtype} {side}^3", *_columns(folder, stored[place], function))
    return wrong


def _noise(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    voxels = np.random.default_rng(0).integers(0, 1 << 12, shape, dtype="u2")
    return voxels.astype(dtype)


def _columns(
    folder: str, source: Any, function: Callable[[Any], Any], **cut: Any
) -> tuple[str, ...]:
    """The columns of a row, after a small run that compiles."""
    small = _copied(folder, source[tuple(slice(0, 32) for _ in source.shape)], "small.zarr")
    seconds, results, peak, planned = {}, {}, 0, 0
    for device in ("cpu", "cuda"):
        cores = {"workers": 1, "threads": 2} if device == "cpu" else {}
        how = {"device": device, **cores, **cut}
        run = {"runner": None, "progress": False, "overwrite": True, **how}
        bv.compute(function(small), **run)
        target = function(source)
        if isinstance(target, bv.Volume):
            target = target.to(f"{folder}/{device}.zarr", codec="none")
        with _Watched() as watched:
            begin = time.perf_counter()
            written = bv.compute(target, **run)
            seconds[device] = time.perf_counter() - begin
        results[device] = np.asarray(written)
        peak, planned = watched.peak, bv.plan(target, **how).predicted_device_memory
    same = results["cpu"].tobytes() == results["cuda"].tobytes()
    return (
        "equal" if same else "DIFFERENT",
        f"{seconds['cpu']:.2f}",
        f"{seconds['cuda']:.2f}",
        f"{seconds['cpu'] / seconds['cuda']:.1f}",
        f"{source.nbytes / seconds['cuda'] / (1 << 30):.2f}",
        f"{peak >> 20}",
        f"{planned >> 20}" + (" ABOVE" if peak > planned else ""),
    )


def _copied(folder: str, volume: Any, name: str) -> Any:
    target = volume.to(f"{folder}/{name}", codec="none")
    return bv.compute(target, runner=None, progress=False, overwrite=True)


def _with_cupy(slide: np.ndarray, tile: int = 512) -> str:
    """The same filters by CuPy, tile by tile, which is wrong near the borders of tiles."""
    cupy: Any = import_module("cupy")
    filters: Any = import_module("cupyx.scipy.ndimage")

    def filtered(part: np.ndarray) -> np.ndarray:
        on_device = cupy.asarray(part).astype("f4") / 255
        grey = on_device @ cupy.asarray([0.2125, 0.7154, 0.0721], "f4")
        smooth = filters.gaussian_filter(grey, 2)
        return cupy.hypot(*(filters.sobel(smooth, axis) for axis in (0, 1))).get()  # type: ignore[no-any-return]

    filtered(slide[:tile, :tile])
    made = np.empty(slide.shape[:2], "f4")
    begin = time.perf_counter()
    for y in range(0, len(slide), tile):
        for x in range(0, len(slide), tile):
            made[y : y + tile, x : x + tile] = filtered(slide[y : y + tile, x : x + tile])
    seconds = time.perf_counter() - begin
    wrong = 100 * np.mean(~np.isclose(made, filtered(slide), rtol=1e-3, atol=1e-4))
    return (
        f"the slide with CuPy, from memory to memory in tiles: {seconds:.2f} s, {wrong:.2f} % of "
        "the pixels are wrong"
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
    """The memory that is taken of all devices while the context lasts, by samples."""

    peak = 0

    def __enter__(self) -> _Watched:
        self._before, self._ended = self._free(), threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(0.005):
            self.peak = max(self.peak, self._before - self._free())

    @staticmethod
    def _free() -> int:
        return sum(found.free for found in listed())

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()


def _ceilings(folder: str, size: int) -> dict[str, float]:
    """GiB/s of copies: to the device, from it, within it (read and written bytes), and of files."""
    pinned = cuda.pinned_array(size, np.uint8)
    pinned[...] = 1
    first, second = (cuda.device_array(size, np.uint8) for _ in range(2))
    side = max(16, round(size ** (1 / 3) / 16) * 16)
    stored = _copied(folder, bv.open(_noise((side,) * 3, "u1")), "in.zarr")
    ways: dict[str, tuple[int, Callable[[], Any]]] = {
        "to the device": (size, lambda: first.copy_to_device(pinned)),
        "from the device": (size, lambda: first.copy_to_host(pinned)),
        "within the device": (2 * size, lambda: second.copy_to_device(first)),
        "from disk to disk": (side**3, lambda: _copied(folder, stored, "copy.zarr")),
    }
    found = {}
    for name, (moved, copy) in ways.items():
        best = float("inf")
        for _ in range(5):
            cuda.synchronize()
            begin = time.perf_counter()
            copy()
            cuda.synchronize()
            best = min(best, time.perf_counter() - begin)
        found[name] = moved / best / (1 << 30)
    return found


if __name__ == "__main__":
    sys.exit(min(1, main(*map(int, sys.argv[1:2]))))
