"""``beam-volumes warm-up``: compile kernels before workers need them."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np

import beam_volumes as bv
from beam_volumes.base.text import counted
from beam_volumes.cli.messages import print_note, print_result
from beam_volumes.cli.options import setting
from beam_volumes.drive import compute
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.cache import folder
from beam_volumes.kernels.jit import Compiled, compilations, processor
from beam_volumes.plan.cost.machine import cores
from beam_volumes.recipes.build import build
from beam_volumes.recipes.catalogue import Operation, operations
from beam_volumes.recipes.recipe import read_recipe
from beam_volumes.sweep.resources import thin_strips

#: Common dtypes of volumes, of intensities measured in regions, and of labels.
DTYPES, INTENSITIES, LABELS = ("u1", "u2", "f4", "?"), ("u1", "u2", "f4"), ("u4", "u8")
#: Shapes of the volumes and of their slabs.
SHAPE, SLAB = (12, 48, 48), (8, 32, 32)
_SIZE, _BALL = {"size": 3}, {"footprint": bv.ball(2)}
#: Arguments for operations with required parameters: one call for each kind of kernel.
CALLS: dict[str, tuple[dict[str, Any], ...]] = {
    "affine_transform": ({"matrix": (1, 0.9, 0.9)}, {"matrix": (1, 0.9, 0.9), "order": 0}),
    "apply_hysteresis_threshold": ({"low": 1, "high": 3},),
    "astype": tuple({"dtype": dtype} for dtype in (*DTYPES, *LABELS)),
    "blob_log": ({"max_sigma": 2, "num_sigma": 2},),
    "blob_dog": ({"max_sigma": 2},),
    "blob_doh": (),  # it takes planes, and has the kernels of others
    "classify": (),  # it needs a trained forest
    "clip": ({"min": 1, "max": 3},),
    "convolve1d": ({"weights": (1, 2, 1)},),
    "correlate1d": ({"weights": (1, 2, 1)},),
    "denoise_nl_means": ({"patch_size": 3, "patch_distance": 1},),
    "denoise_tv_chambolle": ({"max_num_iter": 3},),
    "downsample": tuple(
        {"factors": 2, "method": m} for m in ("mean", "min", "max", "median", "mode")
    ),
    "fill_missing": ({"missing": 1}, {"nodata": 0}),
    "flood": ({"seed_point": (1, 1, 1)},),
    "flood_fill": ({"seed_point": (1, 1, 1), "new_value": 1},),
    "frangi": ({"sigmas": (1,)},),
    "convolve": ({"weights": np.ones((3, 3, 3))},),
    "correlate": ({"weights": np.ones((3, 3, 3))},),
    "crop": ({"box": "1:9"},),
    "fuse": (
        {"transforms": ((0, 0, 0), (0, 0, 30.5))},
        {"transforms": ((0, 0, 0), (0, 0, 30.5)), "nodata": 0},
    ),
    "fftconvolve": ({"weights": np.ones((3, 3, 3))},),
    "generic_gradient_magnitude": ({"derivative": "sobel"},),
    "histogram": ({"bins": 8, "range": (0, 8)},),
    "joint_histogram": ({"bins": 8, "range": ((0, 8), (0, 8))},),
    "label": ({"connectivity": 1}, {"connectivity": 3}),
    "predict": (),  # it compiles no kernels
    "local_binary_pattern": ({"P": 8, "R": 1},),
    "local_rank": ({"statistic": "mean", **_SIZE},),
    "map_coordinates": ({"max_displacement": 99},),
    "match_template": (),  # it compiles no kernels
    "meijering": ({"sigmas": (1,)},),
    "median_filter": (_SIZE, {"size": 5}, _BALL),
    "pad": ({"pad_width": 1},),
    "peak_signal_noise_ratio": ({"data_range": 4},),
    "percentile": ({"q": 50}, {"q": 50, "axis": (1, 2)}),
    "percentile_filter": ({"percentile": 30, **_SIZE}, {"percentile": 30, **_BALL}),
    "random_noise": ({"mode": "gaussian"}, {"mode": "poisson", "peak": 9}),
    "rank_filter": ({"rank": 3, **_SIZE}, {"rank": 3, **_BALL}),
    "relabel": ({"mapping": ([1, 2], [2, 1]), "missing": 0},),
    "rescale": ({"scale": 0.7}, {"scale": 0.7, "order": 0}),
    "resize": ({"output_shape": 9}, {"output_shape": 9, "order": 0}),
    "rolling_ball": ({"radius": 2},),
    **dict.fromkeys(
        ("richardson_lucy", "richardson_lucy_residuals"),
        ({"psf": np.ones((3, 3, 3)), "iterations": 1},),
    ),
    "rotate": ({"angle": 5}, {"angle": 5, "order": 0}),
    "sato": ({"sigmas": (1,)},),
    "sel": ({"c": 0},),
    "shift": ({"shift": 0.5}, {"shift": 0.5, "order": 0}),
    "stack": ({"names": None},),
    "structural_similarity": (
        {"data_range": 4, "win_size": 3},
        {"data_range": 4, "gaussian_weights": True, "sigma": 0.5},
    ),
    "upsample": ({"factors": 2}, {"factors": 2, "order": 1}),
    "warp": ({"max_displacement": 99},),
    "watershed_affinities": ({"low": 1, "high": 3},),
    "wiener": ({"psf": np.ones((3, 3, 3)), "balance": 0.1},),
    "with_space": ({"origin": 8},),
    "zoom": ({"zoom": 1.2}, {"zoom": 1.2, "order": 0}),
}
#: Operations on colours, and all operations that need three channels.
COLOURS = (
    *("rgb2hed", "hed2rgb", "rgb2gray", "rgb2hsv", "separate_stains", "combine_stains"),
    *("hsv2rgb", "rgb2lab", "lab2rgb"),
)
WITH_CHANNELS = (*COLOURS, "sel", "watershed_affinities")
#: Parameters that are volumes with a channel for each axis.
FIELDS = ("coordinates", "displacement")
#: Operations that compile no kernels, or only kernels of `rescale`.
FOURIER = (*(f"fourier_{name}" for name in ("ellipsoid", "gaussian", "shift", "uniform")), "irfftn")
OTHERS = (
    *("classify", "keep_labels", "match_template", "meshes", "predict", "resample"),
    *FOURIER,
)
CALLS |= {name: ({"matrix": np.eye(3)},) for name in COLOURS if "stains" in name}
CALLS |= {f"binary_{name}": ({}, {"structure": bv.ball(2)}) for name in ("dilation", "erosion")}


def register(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Kernels are cached in NUMBA_CACHE_DIR, next to the package, or in the user's cache folder, for one "
        "type of processor. NUMBA_CPU_NAME=generic, set here and for workers, makes them usable on every "
        "processor of this architecture."
    )
    parser.add_argument(
        "recipe",
        metavar="RECIPE.yaml",
        nargs="?",
        help="compile the kernels of this recipe, which is run on a small part of its inputs (default: "
        "compile the kernels of all operations for common dtypes)",
    )
    setting(parser)


def act(args: argparse.Namespace) -> None:
    if args.recipe is None and args.set:
        raise ValueError("--set changes a recipe; give the recipe")
    begin = time.perf_counter()
    if args.recipe is not None:
        with compilations() as found:
            of_recipe(args.recipe, args.set)
    else:
        found = []
        for dtype, some in of_catalogue(processes=cores()):
            found += some
            print_note(f"{len(found)} kernels; {dtype}")
    for line in summary(found):
        print_result(line)
    print_result(
        f"{counted(len(found), 'kernel')} compiled in {time.perf_counter() - begin:.0f} s for {processor()} "
        f"and cached in {folder()}"
    )


def summary(found: Sequence[Compiled]) -> list[str]:
    """List the compiled kernels, the slowest to compile first.

    >>> summary([Compiled("sum", "uint8", 0.5), Compiled("label", "bool", 2), Compiled("sum", "bool", 0.1)])
    ['   2.0 s  label', '   0.6 s  sum for 2 combinations of types']
    """
    spent: dict[str, list[float]] = {}
    for c in found:
        spent.setdefault(c.name, []).append(c.seconds)
    return [
        f"{sum(s):6.1f} s  {name}" + (f" for {len(s)} combinations of types" if len(s) > 1 else "")
        for name, s in sorted(spent.items(), key=lambda item: -sum(item[1]))
    ]


def of_recipe(path: str, settings: Sequence[str] = ()) -> None:
    """Run a recipe on the middle of its inputs without writing outputs."""
    targets = build(read_recipe(path, settings), middle).targets
    _run([_unplaced(t) for t in targets])


def _unplaced(target: Any) -> Any:
    """Return the volume or table of a target, without its place."""
    if isinstance(target, bv.Target):
        return target.volume
    return target.table if isinstance(target, bv.TableTarget) else target


def middle(volume: Volume) -> Volume:
    """Crop the middle of a volume, which is least likely to be empty."""
    box = []
    sizes = (1, 1, *SHAPE)[-volume.ndim :]
    for n, limit in zip(volume.shape, sizes, strict=True):
        start = max(0, (n - limit) // 2)
        box.append(slice(start, start + limit))
    return volume[tuple(box)]


def of_catalogue(processes: int) -> Iterator[tuple[str, list[Compiled]]]:
    """Run every operation on small volumes; yield each dtype with the kernels compiled for it.

    Dtypes are distributed to several processes, since a process compiles one kernel at a time.
    """
    spawned = multiprocessing.get_context("spawn")
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"  # import nothing from the current directory
    try:
        with ProcessPoolExecutor(processes, spawned) as pool:
            yield from pool.map(of_dtype, (*DTYPES, *LABELS))
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


def of_dtype(dtype: str) -> tuple[str, list[Compiled]]:
    """Run every operation on a small volume; return the dtype and the kernels compiled for it."""
    volume = bv.open(np.random.default_rng(0).integers(0, 5, SHAPE).astype(dtype))
    with compilations() as found:
        for results in each_of_catalogue(volume):
            with suppress(ValueError):  # e.g. noise lacks two peaks; its kernels are compiled
                _run(results)
    return str(np.dtype(dtype)), found


def each_of_catalogue(volume: Volume) -> Iterator[list[Any]]:
    """Yield the results of each operation that accepts the dtype of a volume."""
    for operation in operations().values():
        if operation.name in OTHERS or operation.is_of_tables:
            continue
        is_of_labels = operation.positional[0] == "labels"
        if is_of_labels == (volume.dtype in [np.dtype(dtype) for dtype in LABELS]):
            with suppress(TypeError):
                yield [*applied(operation, volume)]


def applied(operation: Operation, volume: Volume) -> Iterator[Any]:
    """Yield the results of an operation with the volume for each of its inputs."""
    if operation.name == "num_labels":
        volume = bv.label(volume)
    if operation.name == "outlines":  # of an image
        volume = volume[0]
    if operation.name in WITH_CHANNELS:
        volume = bv.stack([volume] * 3)
    calls = calls_of(operation, volume.shape[0])
    intensity = operation.parameters.get("intensity")
    if intensity is not None and intensity.volume:
        calls = tuple({"intensity": volume.astype(dtype)} for dtype in INTENSITIES)
    for arguments in calls:
        inputs: list[Any] = [
            bv.stack([volume] * 3) if name in FIELDS else volume
            for name in operation.required
            if name not in arguments
        ]
        if any(p.volume == "volumes" for p in operation.parameters.values()):
            # Tiles are opened volumes.
            inputs = [(volume, volume) if operation.name == "fuse" else bv.structure_tensor(volume)]
        result = operation.call(*inputs, **arguments)
        yield from result if isinstance(result, tuple) else (result,)


def calls_of(operation: Operation, slices: int) -> tuple[dict[str, Any], ...]:
    """Return arguments for an operation on a volume of so many slices.

    They are from `CALLS`, or sizes and 1 for each required number.
    """
    if operation.name == "apply_transforms":
        by, shifts = [0.5] * slices, ((0.5, 0.5),) * slices
        node = {"z": list(range(slices)), "y": by, "x": by, "d_y": by, "d_x": by}
        return {"transforms": shifts}, {"transforms": shifts, "displacements": node}
    if operation.name in CALLS:
        return CALLS[operation.name]
    known = [operation.parameters[name] for name in operation.required if operation.parameters]
    numbers = {p.name: 1 for p in known if p.is_number}
    if "size" not in operation.parameters:
        return (numbers,)
    sizes = (_SIZE, _BALL) if "footprint" in operation.parameters else (_SIZE,)
    return tuple(numbers | size for size in sizes)


def _run(wanted: Sequence[Any]) -> None:
    with thin_strips():
        compute.compute(*wanted, runner=None, progress=False, slab=SLAB, threads=2)


VERBS = {
    "warm-up": (register, act),
}
