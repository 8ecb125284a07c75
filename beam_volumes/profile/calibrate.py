"""Measure the speed of this machine: operations, reading, writing and the overhead of runs."""

from __future__ import annotations

import datetime
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import tifffile
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.kernels.jit import compilations
from beam_volumes.ops.geometry.registration.images import COSTS, aligned
from beam_volumes.plan.cost import machine
from beam_volumes.plan.cost.speeds import (
    PIPELINE,
    PROCESS,
    Fixed,
    Speeds,
    operation_key,
    registration_key,
)
from beam_volumes.plan.fit.planned_pass import Pass, swept
from beam_volumes.plan.fit.seconds import kind_of, kind_of_sink, measured_seconds, parts_of
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.planner import Wanted, make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.profile.measure import timed
from beam_volumes.session.session import Session
from beam_volumes.sweep.activity import Meter

#: Shapes of the volumes that measure slow operations, fast ones, and reading and writing.
SHAPE, WIDE, STORED = (32, 192, 192), (32, 512, 512), (64, 512, 512)
#: Operations that take less than this, in nanoseconds per voxel, are fast: calls for each plane take a
#: large share of their time on small planes.
_FAST = 50.0
#: Plans that take longer than this, in seconds, are run only once.
_SLOW = 3.0
#: Most runs of a plan until one compiles nothing.
_TRIES = 4
#: Formats and codecs that are measured.
_WRITTEN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("none.zarr", {"codec": "none"}),
    ("blosc.zarr", {"codec": "blosc"}),
    ("zstd.zarr", {"codec": "zstd"}),
    ("zstd.ome.zarr", {"codec": "zstd"}),
    ("none.precomputed", {"codec": "none"}),
    ("image.tif", {}),
    ("tiff/*.tif", {}),
    ("png/*.png", {}),
)
#: Assumed share of time that threads of a sweep work, if wall times are unreliable.
_EFFICIENCY = 0.85
#: Shapes of the images that measure comparisons.
_COMPARED = ((512, 512), (48, 72, 72))
#: How the test slide is stored.
_TILES: dict[str, Any] = {"tile": (256, 256), "photometric": "rgb", "compression": "jpeg"}

#: Yields lists of targets to measure together, for a volume of some dtype.
Operations = Callable[[bv.Volume], Iterator[list[Wanted]]]


def calibrate(dtypes: Iterable[str], operations: Operations, note: Callable[[str], None]) -> Speeds:
    """Measure this machine for volumes of ``dtypes``, after compiling missing kernels; report to ``note``."""
    costs: dict[str, float] = {}
    fast: set[str] = set()
    for dtype in dtypes:
        narrow, wide = (operations(bv.open(specimen(shape, dtype))) for shape in (SHAPE, WIDE))
        for targets, larger in zip(narrow, wide, strict=True):
            with suppress(ValueError, TypeError):  # it does not accept this dtype
                _measure_operations(targets, larger, costs, fast)
        note(f"{len(costs)} operations; {np.dtype(dtype)}")
    costs.update(_measure_comparisons())
    note("comparisons of registrations")
    with tempfile.TemporaryDirectory() as folder:
        read, write, unit = _measure_storage(folder)
        note(f"{len(read)} kinds of sources and {len(write)} kinds of outputs")
        known = Speeds(costs, read, write, unit, {}, 1.0)
        overhead = _measure_overhead(folder, known)
    fixed = {how: _measure_fixed(how) for how in (PROCESS, PIPELINE)}
    note("runs in this process, and as a local pipeline")
    date = datetime.date.today().isoformat()
    return Speeds(costs, read, write, unit, fixed, overhead, date)


def specimen(shape: tuple[int, int, int], dtype: str) -> np.ndarray:
    """Make smooth objects with noise, or their mask or labels.

    >>> specimen((8, 16, 16), "u2").dtype, specimen((8, 16, 16), "?").mean() < 1
    (dtype('uint16'), np.True_)
    """
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, [-(-n // 16) + 1 for n in shape]).astype("f4")
    field = coarse
    for axis, n in enumerate(shape):
        at = np.arange(n) / 16
        low = at.astype(int)
        part = (at - low).reshape([-1 if a == axis else 1 for a in range(3)])
        field = np.take(field, low, axis) * (1 - part) + np.take(field, low + 1, axis) * part
    if dtype == "?":
        return field > 128
    if np.dtype(dtype).itemsize >= 4 and np.dtype(dtype).kind == "u":
        # Boxes with a side of 16 voxels, one label each; dark voxels are background.
        index = [np.arange(n) // 16 for n in shape]
        ids = 1 + index[0][:, None, None] * 4096 + index[1][:, None] * 64 + index[2]
        return np.where(field > 100, ids, 0).astype(dtype)
    noisy = np.clip(field + rng.normal(0, 8, shape), 0, 255)
    return (noisy * (100 if dtype == "u2" else 1)).astype(dtype)


def _planned(targets: list[Wanted]) -> Plan:
    """Plan targets for one slab at a time in this process."""
    options = RunOptions(memory="1GiB", workers=1, base=None, in_memory_results=True)
    return make_plan(targets, options)


def _measured(plan: Plan, unoverlapped: bool = True) -> tuple[tuple[Meter, ...], float, float]:
    """Run a plan; return the meters of its passes, wall seconds and CPU seconds of the fastest run."""
    # Quick plans run three times. Runs that compiled a kernel do not count: a run with other threads or after
    # a merge can need kernels that the run before it did not.
    Session(plan, "calibrate", None, overwrite=True).make_scratch()
    for _ in range(_TRIES):
        with compilations() as compiled:
            runs = [timed(plan, unoverlapped=unoverlapped)]
        if not compiled:
            break
    if min(runs[0][1:]) < _SLOW:
        runs += [timed(plan, unoverlapped=unoverlapped) for _ in range(2)]
    return min(runs, key=lambda run: run[2])


def _measure_operations(
    targets: list[Wanted], larger: list[Wanted], costs: dict[str, float], fast: set[str]
) -> None:
    """Add factors of operations in the targets that are not measured yet.

    ``larger`` are the same targets of a volume with larger planes, for those that are ``fast`` together.
    """
    plan = _planned(targets)
    declared = [item for p in plan.passes for item in dict(_operations(p)).values()]
    keys = {key for key, _ in declared}
    if not keys <= costs.keys():
        costs.update(_factors(plan) | costs)
    taken = sum(nanoseconds * costs.get(key, 0.0) for key, nanoseconds in declared)
    if not keys <= fast and taken < _FAST * math.prod(SHAPE):
        found = _factors(_planned(larger))
        costs.update({key: factor for key, factor in found.items() if key not in fast})
        fast |= keys


def _factors(plan: Plan) -> dict[str, float]:
    """Run a plan; return measured over declared nanoseconds by operation, of the first with a key."""
    found: dict[str, float] = {}
    meters, _, _ = _measured(plan)
    for p, meter in zip(plan.passes, meters, strict=True):
        each = dict(_operations(p))
        spent = {(a.kind, a.index): s.cpu for a, s in meter.spent.items()}
        padding = spent.pop(("pad", 0), 0.0)
        total = sum(spent.get(at, 0.0) for at in each) or 1.0
        for at, (key, nanoseconds) in each.items():
            taken = spent.get(at, 0.0) * (1 + padding / total)
            if nanoseconds > 0 and taken > 0:
                found.setdefault(key, round(1e9 * taken / nanoseconds, 4))
    return found


def _operations(p: Pass) -> Iterator[tuple[tuple[str, int], tuple[str, float]]]:
    """Yield each activity's kind and index, with its operation's key and declared nanoseconds."""
    steps = p.program.steps
    for i, (step, voxels) in enumerate(zip(steps, swept(p), strict=True)):
        dtypes = [steps[e.step].dtype for e in step.edges]
        if step.stage is not None and len(parts_of(step.stage)) == 1:
            key = operation_key(step.stage, step.stage.name, dtypes)
            yield ("stage", i), (key, voxels * step.stage.cost)
        if step.completion is not None:
            own = step.completion
            yield ("stage", i), (operation_key(own, step.name, dtypes), voxels * own.cost)
    for k, surveyed in enumerate(p.program.surveys):
        dtypes = [steps[e.step].dtype for e in surveyed.edges]
        key = operation_key(surveyed.survey, surveyed.survey.name, dtypes)
        yield ("survey", k), (key, p.voxels * surveyed.survey.cost)
    for k, fold in enumerate(p.program.folds):
        dtypes = [steps[fold.fed[0].voxels.step].dtype]
        key = operation_key(fold.reduction, fold.reduction.name, dtypes)
        yield ("fold", k), (key, p.voxels * fold.reduction.cost)


def _measure_comparisons() -> dict[str, float]:
    """Align images of a world by each model; return measured over rough nanoseconds."""
    found = {}
    for model, shape in itertools.product(COSTS, _COMPARED):
        ndim, random = len(shape), np.random.default_rng(0)
        world = ndimage.gaussian_filter(random.normal(size=[n + 3 for n in shape]), 2)
        world /= world.std()
        boxes = ([slice(k, k + n) for n in shape] for k in (0, 3))
        fixed, moving = (world[tuple(box)] + random.normal(0, 0.5, shape) for box in boxes)
        spent = []
        for _ in range(2):
            begun = time.process_time()
            aligned(fixed, moving, model, [n / 2 for n in shape], np.ones(ndim))
            spent.append(time.process_time() - begun)
        rough = COSTS[model][ndim > 2] * math.prod(shape)
        found[registration_key(model, ndim)] = round(1e9 * min(spent) / rough, 4)
    return found


def _measure_storage(folder: str) -> tuple[dict[str, float], dict[str, float], float]:
    """Measure nanoseconds per byte read and written, by kind, and per write unit."""
    volume = bv.open(specimen(STORED, "u1"))
    read: dict[str, float] = {}
    write: dict[str, float] = {}

    def spent(target: Any, *kinds: str) -> float:
        meters, _, _ = _measured(_planned([target]))
        found = (s.cpu for m in meters for a, s in m.spent.items() if a.kind in kinds)
        return 1e9 * sum(found)

    def written(source: bv.Volume, name: str, **how: Any) -> tuple[bv.Volume, Any, float]:
        target = source.to(f"{folder}/{name}", **how)
        taken = spent(target, "write", "check")
        return bv.open(target.sink.name), target.sink, taken

    for name, how in _WRITTEN:
        stored, sink, taken = written(volume, name, **how)
        write[kind_of_sink(sink)] = taken / volume.nbytes
        taken = spent(bv.mean(stored), "read")
        read[_kind(stored)] = taken / stored.nbytes
    read[_kind(volume)] = spent(bv.mean(volume), "read") / volume.nbytes
    plane = specimen(STORED, "u1").reshape(-1, STORED[2])
    tifffile.imwrite(f"{folder}/slide.tif", np.stack([plane] * 3, -1), **_TILES)
    slide = bv.open(f"{folder}/slide.tif")
    taken = spent(bv.rgb2gray(slide).to(f"{folder}/gray.zarr"), "read")
    read[_kind(slide)] = taken / slide.nbytes
    for dtype in ("u2", "f4", "u4", "?"):  # they compress differently
        other = bv.open(specimen(STORED, dtype))
        for codec in ("none", "zstd"):
            target = other.to(f"{folder}/{codec}-{np.dtype(dtype)}.zarr", codec=codec)
            write[kind_of_sink(target.sink)] = spent(target, "write", "check") / other.nbytes
    # Chunks of 16 KiB, compared with chunks of 4 MiB.
    _, sink, taken = written(volume, "small", format="zarr", codec="none", chunks=(4, 64, 64))
    units = volume.size / math.prod(sink.unit)
    unit = max(0.0, taken - write["zarr none |u1"] * volume.nbytes) / units
    return read, write, unit


def _kind(volume: bv.Volume) -> str:
    """The kind of source of an opened volume."""
    node = volume.nodes[0]
    assert isinstance(node, SourceNode)
    return kind_of(node.source)


def _measure_overhead(folder: str, speeds: Speeds) -> float:
    """Measure wall seconds of a sweep, times its threads, divided by the CPU seconds of its parts.

    If other processes use the cores, wall times are unreliable, and threads are assumed to wait little.
    """
    volume = bv.open(np.tile(specimen(STORED, "u1"), (2, 1, 1)))
    bv.compute(volume.to(f"{folder}/large.zarr"), runner=None, progress=False)
    smooth = bv.gaussian_filter(bv.open(f"{folder}/large.zarr"), 2)
    plan = _planned([bv.binary_opening(smooth > 100).to(f"{folder}/out.zarr")])
    known = sum(measured_seconds(p, speeds) for p in plan.passes)
    runs = [_measured(plan, unoverlapped=False)[1:] for _ in range(2)]
    seconds, busy = map(min, zip(*runs, strict=True))
    if os.getloadavg()[0] > 1.5 * machine.cores():
        seconds = busy / _EFFICIENCY / plan.threads
    return max(0.1, seconds * plan.threads / known)


#: Small runs that differ by a pass, slabs or a merge, in a fresh process, and the numbers of kernels that
#: the first and the last of them load. Runs in the process itself do not wait, so CPU seconds are measured.
_RUNS = """
import json, sys, tempfile, time
import numpy as np
import beam_volumes as bv
runner, clock, times = None, time.process_time, 3
if sys.argv[1] == "pipeline":
    runner, clock, times = "FnApiRunner", time.perf_counter, 1
def took(target, depth=32):
    began = clock()
    bv.compute(target, runner=runner, progress=False, overwrite=True, workers=1, slab=(depth, 64, 64))
    return clock() - began
with tempfile.TemporaryDirectory() as folder:
    v = bv.open(np.random.default_rng(0).integers(0, 255, (32, 64, 64), np.uint8))
    made = {"copy": v, "mask": v > bv.mean(v), "labels": bv.label(bv.gaussian_filter(v, 1) > 200)}
    copy, mask, labels = (m.to(f"{folder}/{k}.zarr", chunks=(4, 64, 64)) for k, m in made.items())
    first = took(mask)  # the first kernel of a process also starts numba
    passes = min(took(mask) for _ in range(times))
    whole, cut = (min(took(copy, depth) for _ in range(times)) for depth in (32, 4))
    cold = took(labels)
    merge = min(took(labels) for _ in range(times))
    known = {*bv.plan(mask).kernels}
    loaded = len(known), len({*bv.plan(labels).kernels} - known)
print(json.dumps([first, whole, cut, passes, cold, merge, *loaded]))
"""


def _measure_fixed(how: str) -> Fixed:
    """Measure the fixed time of a run, independent of voxels, in a fresh process."""
    command = [sys.executable, "-P", "-c", _RUNS, how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if how == PROCESS:  # the second process loads the kernels compiled by the first
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, whole, cut, passes, cold, merge, loaded, more = json.loads(done.stdout.splitlines()[-1])
    a_pass, slab = max(0.0, passes - whole), max(0.0, (cut - whole) / 7)
    kernel = max(0.0, (cold - merge) / max(1, more))
    # The start of a process, and the rest of a run without its pass and its slab.
    start, rest = first - passes - loaded * kernel, whole - a_pass - slab
    return Fixed(
        run=max(0.0, start) + max(0.0, rest),
        a_pass=a_pass,
        survey=max(0.0, merge - passes),
        slab=slab,
        kernel=kernel,
    )
