"""Calls of kernels that have a twin for devices, small enough for numba's simulator."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.base.geometry import connectivity_structure
from beam_volumes.graph.elementwise import Elementwise
from beam_volumes.kernels.filters.columns import columns_of
from beam_volumes.kernels.geometry.resample import taps_along
from beam_volumes.kernels.intensity.colour import DENSITIES, LIGHT, log_least, table_of
from beam_volumes.kernels.labels import components
from beam_volumes.kernels.measure import accumulate, histogram
from beam_volumes.kernels.morphology.distance import FAR, metric
from beam_volumes.kernels.rows import rows_of
from beam_volumes.ops.parameters.building import kernel_constant
from tests.kernels import twins_on_host
from tests.kernels.rings import ball, into_ring, random_volume, with_nans

SHAPE = (2, 4, 5)


@dataclass
class Case:
    """One call: the kernel by its name in `beam_volumes.kernels`, and its arguments as for `rings.apply`."""

    name: str
    volume: np.ndarray
    taps: tuple[int, ...]
    parameters: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self):
        return f"{self.name}-{self.volume.dtype}-{self.options}"


@dataclass
class Call:
    """A call with any arguments, among them rows and arrays; ``host`` names another kernel than the twin."""

    name: str
    arguments: tuple[Any, ...]
    host: str = ""

    def __str__(self):
        return f"{self.name}-{self.arguments}"


def rows_in_ring(rng, array):
    ring, slots, y, x = into_ring(rng, array)
    return rows_of(ring, slots, y, x)


def volume_of(rng, dtype, taps=None):
    """A small volume; floats have holes, infinities and zeros of both signs."""
    volume = random_volume(rng, SHAPE, dtype)
    if volume.dtype.kind == "f":
        volume = with_nans(rng, volume, 0.02)
        volume.flat[rng.integers(0, volume.size, 9)] = [0.0, -0.0, 0.0, -0.0, np.inf, -0.0, 0, 0, 0]
    return volume


def offsets_in(rng, taps):
    found = np.argwhere(rng.random(taps) < 0.6)
    return found if len(found) else np.zeros((1, 3), np.int64)


def real_of(dtype):
    return np.float64 if np.dtype(dtype).char in "lqLQidI" else np.float32


def linear(rng, dtype, mode):
    real = real_of(dtype)
    smooth, general = np.array([0.25, 0.5, 0.25], real), rng.normal(size=2).astype(real)
    for weights, out in (
        ((smooth, smooth, np.array([-0.5, 0, 0.5], real)), real),
        ((general, smooth[:1] * 4, general), np.uint8),
        ((smooth * 2, general, smooth[:1] * 4), np.int16),
    ):
        taps = tuple(w.size for w in weights)
        yield "filters.separable.correlate", taps, weights, dict(mode=mode, dtype=out)
    taps = 2, 2, 3
    offsets = offsets_in(rng, taps)
    weights = rng.normal(size=len(offsets)).astype(real)
    yield "filters.separable.correlate_nd", taps, (offsets, weights), dict(mode=mode, dtype=real)
    kind = {"?": "i2", "u1": "i2", "u2": "i4", "f4": "f4"}.get(dtype, "f8")
    scalars = np.dtype(kind).type(0), np.dtype(kind).type(2), real(0)
    yield "filters.gradient.gradient_magnitude", (3, 3, 3), scalars, dict(mode=mode, dtype=real)
    if dtype in ("?", "u1", "u2"):
        more = (*(2, 3, 2), np.uint32(0), np.uint32(0), real(1 / 12))
        yield "filters.uniform.uniform_box", (2, 3, 2), more, dict(mode=mode, dtype=dtype)


def ordered(rng, dtype, mode):
    taps, options = (2, 3, 3), dict(mode=mode)
    for is_max in (False, True):
        yield "filters.extremum.extremum_box", taps, (*taps, is_max), options
        offsets = offsets_in(rng, taps)
        yield "filters.extremum.extremum_footprint", taps, (offsets, is_max), options
    columns = (*columns_of(np.argwhere(ball(1)), 3), 3, 3, True)
    yield "filters.columns.extremum_of_columns", (3, 3, 3), columns, options
    yield "filters.median.median3", (3, 3, 3), (), options
    offsets = offsets_in(rng, taps)
    yield "filters.rank.rank_footprint", taps, (offsets, int(rng.integers(len(offsets)))), options
    name = (
        "filters.rank_box.rank_box"
        if np.dtype(dtype).itemsize == 1
        else "filters.rank_walk.rank_walk"
    )
    yield name, taps, (*taps, int(rng.integers(18))), options


def shaped(rng, dtype, mode):
    taps, options = (3, 3, 3), dict(mode=mode)
    offsets = offsets_in(rng, (2, 3, 2))
    for is_max in (False, True):
        if dtype in ("?", "u1"):
            yield "morphology.footprint.binary_footprint", (2, 3, 2), (offsets, is_max), options
            steps = np.array([[0, 1, 4], [0, 1, 4], [0, 2, 8]], np.uint8)
            radii = np.array([1, 1, 1])
            yield "morphology.ball.binary_ball", taps, (radii, steps, 2, is_max), options
        heights = rng.normal(0, 50, len(offsets))
        yield "morphology.footprint.grey_footprint", (2, 3, 2), (offsets, heights, is_max), options


def plain(rng, dtype, mode):
    ring = random_volume(rng, (3, 6, 7), dtype)
    repeated = rng.integers(2, 4, 6), rng.integers(1, 5, 7)
    for fill in (False, True):
        maps = [np.where(rng.random(m.size) < 0.3, -1, m) if fill else m for m in repeated]
        slots = np.array([2, 0])
        yield Call("rows.pad_margins", (ring, slots, 2, 4, 1, 5, *maps, ring[0, 0, 0]))


def tensors(rng, dtype, mode):
    if dtype not in ("f4", "f8"):
        return
    finite = [random_volume(rng, SHAPE, dtype) for _ in range(6)]
    finite[3][:] *= rng.random(SHAPE) < 0.8
    holes = [with_nans(rng, a, 0.03) for a in finite]
    holes[5][0], holes[4][0] = 0, 0
    matrix = tuple(rows_in_ring(rng, a) for a in holes)

    def rows_for(kind, array=None):
        return rows_in_ring(rng, np.zeros(SHAPE, kind) if array is None else array)

    for ndim, which in ((3, 0), (3, 2), (2, 1)):
        call = (matrix, rows_for(dtype), 1, 3, 4, ndim, which)
        yield Call("filters.eigen.eigenvalue", call)
    if dtype == "f4":
        clean = tuple(rows_in_ring(rng, a) for a in finite)
        yield Call("filters.eigen.spread", (clean, rows_for("u8"), 1, 3, 4))
        pairs = with_nans(rng, random_volume(rng, (*SHAPE[:2], 2 * SHAPE[2]), "f4")).view("u8")
        for which in range(3):
            call = ((rows_for("u8", pairs), *matrix[:3]), rows_for("f4"), 1, 3, 4, which)
            yield Call("filters.eigen.eigenvalue_of_spread", call)
    for ndim, *more in (
        (3, 0.5, 0.5, 60.0, 1.0, 1.0), (3, 0.0, 0.5, 60.0, 2.0, -1.0), (3, 0.5, 0.5, 0.0, 1.0, 1.0),
        (2, 0.5, 0.5, 60.0, 1.0, -1.0), (2, 0.0, 0.0, 60.0, 0.7, 1.0),
    ):  # fmt: skip
        yield Call("filters.eigen.ridge", (matrix, rows_for(dtype), 1, 3, 4, ndim, *more))


def resampled(rng, dtype, mode):
    volume = volume_of(rng, dtype)
    small = (1, 2, 3)
    for factors in ((2, 2, 2), (1, 3, 2)):
        for method in (-1, 0, 1, 2, 3):
            shape = tuple(-(-n // f) for n, f in zip(SHAPE, factors, strict=True))
            rows = rows_in_ring(rng, volume), rows_in_ring(rng, np.zeros(shape, dtype))
            name, more = ("pick", (method,)) if method >= 0 else ("mean", ())
            call = *rows, 0, shape[1], shape[2], *SHAPE[1:], np.array(factors), *more
            yield Call(f"geometry.downsample.{name}", call)
    number = {"reflect": 0, "mirror": 1, "nearest": 2, "constant": 3}[mode]
    cval = np.dtype(dtype).type(1)
    rows = rows_in_ring(rng, volume), rows_in_ring(rng, np.zeros(small, dtype))
    indices = [rng.integers(-1, n, m) for n, m in zip(SHAPE, small, strict=True)]
    yield Call("geometry.resample.gather", (*rows, 0, 2, 3, *indices, cval))
    constant = kernel_constant(np.dtype(dtype), 1)
    flat = []
    for n, m in zip(SHAPE, small, strict=True):
        flat += np.empty((m, 2), np.int64), np.empty((m, 2))
        taps_along(-1, 0.2, 1.7, 0.5, n, number, *flat[-2:])
    rows = rows_in_ring(rng, volume), rows_in_ring(rng, np.zeros(small, dtype))
    yield Call("geometry.resample.interpolate", (*rows, 0, 2, 3, *flat, constant))
    matrix = np.eye(3) + rng.normal(0, 0.3, (3, 3))
    for count in (1, 2):
        rows = rows_in_ring(rng, volume), rows_in_ring(rng, np.zeros(small, dtype))
        where = (0, 0, 0), SHAPE, (0, 1, 1), matrix, rng.normal(0, 1, 3)
        call = *rows, 0, 2, 3, *where, np.full(3, count), number, constant
        yield Call("geometry.resample.affine", call)


def coloured(rng, dtype, mode):
    if dtype not in ("u1", "u2", "f4", "f8"):
        return
    channels = tuple(
        rows_in_ring(
            rng, rng.random(SHAPE).astype(dtype) if dtype[0] == "f" else volume_of(rng, dtype)
        )
        for _ in range(3)
    )
    for kind in range(6):
        table, weights = table_of(np.dtype(dtype), kind), rng.normal(size=3)
        result = rows_in_ring(rng, np.zeros(SHAPE, "f8" if dtype == "f8" else "f4"))
        scale = log_least() if kind in (DENSITIES, LIGHT) else 1.0
        call = (*channels, result, 1, 4, 5, table, weights, kind, scale)
        yield Call("intensity.colour.of_three", call)


def curved(rng, dtype, mode):
    for out in ("u1", dtype, "f4"):
        src, made = rows_in_ring(rng, volume_of(rng, dtype)), np.zeros(SHAPE, out)
        for table in (False, True):
            xs = np.arange(7.0) - 2 if table else np.sort(rng.normal(0, 60, 7))
            call = src, rows_in_ring(rng, made), 1, 4, 5, xs, rng.normal(60, 99, 7), table
            if not table or np.dtype(dtype).kind != "f":
                yield Call("intensity.curve.along_curve", call)
        for step in range(3):
            numbers = [rng.normal(size=8) for _ in range(5)]
            numbers[0], numbers[1] = numbers[0] - 50, numbers[1] + 90
            call = src, rows_in_ring(rng, made), 1, 4, 5, *numbers, 1, *np.eye(3, dtype=int)[step]
            yield Call("intensity.curve.shift_and_scale", call)


def distances(rng, dtype, mode):
    kind = dtype if np.dtype(dtype).kind == "f" else np.dtype(dtype).itemsize
    kind = {"f4": "f8", "f8": "f8", 8: "i8"}.get(kind, "i4")
    sides, lengths = ((2, 2, 2), (1, 1, 1 << (20 if kind == "i8" else 2)))
    how = metric(lengths, sides) if kind != "f8" else metric((9, 9, 9), (0.7, 1.3, 0.9))
    place, (wz, wy, wx) = "tests.kernels.twins_on_host", how.weights
    mask = rows_in_ring(rng, rng.random((4, 3, 19)) < 0.7)
    planes = [
        np.where(rng.random((1, 3, 19)) < 0.3, FAR, rng.integers(0, 9, (1, 3, 19))) for _ in "ba"
    ]
    below, above = (rows_in_ring(rng, plane.astype("i4")) for plane in planes)
    found = rows_in_ring(rng, rng.integers(0, 3, (4, 3, 19)).astype("i4"))
    for name, *rows in (
        ("forward", mask, below, found),
        ("backward", found, above),
        ("ends", mask, below, above),
    ):
        yield Call(f"morphology.distance.{name}", (*rows, 3, 19), f"{place}.{name}")
    for voxels in (mask, found, rows_in_ring(rng, rng.random((2, 3, 19)))):
        yield Call("measure.digests.digest", (voxels, 3, 19, np.zeros(1, "i8")), f"{place}.digest")
    # Floats of lines longer than `REACH` are computed in another way.
    shapes = [(2, 5, 6), (2, 70, 2), (1, 2, 70)] if kind == "f8" else [(2, 5, 6)]
    for shape, share in itertools.product(shapes, (0.2, 0.9, 2)):
        given = np.where(rng.random(shape) < share, FAR, rng.integers(0, 4, shape)).astype("i4")
        given[0, :1], given[0, -1:] = 0, 60  # far from others
        found = rows_in_ring(rng, np.zeros(shape, kind))
        call = rows_in_ring(rng, given), found, *shape[1:], how.far, wz, wy
        yield Call("morphology.distance.along_y", call, f"{place}.along_y")
        squares = rng.integers(0, 30, shape) * (0.37 if kind == "f8" else 1)
        squares = np.where(rng.random(shape) < share, how.far, squares).astype(kind)
        for root, out in ((True, "f4"), (False, "f8")):
            found = rows_in_ring(rng, np.zeros(shape, out))
            more = how.far, wx, how.scale, root
            call = rows_in_ring(rng, squares), found, *shape[1:], *more
            yield Call("morphology.distance.along_x", call, f"{place}.along_x")


def fused(rng, dtype, mode):
    kind = np.dtype(dtype)
    wide = np.dtype("f8" if kind.itemsize > 2 and kind.kind != "f" else "f4")
    wide = kind if kind.kind == "f" else wide
    chains = [
        [("greater", "?", (("input", 0), ("constant", kind.type(1))))],
        [("equal", "?", (("input", 0), ("input", 1))), ("logical_not", "?", (("part", 0),))],
        [("astype", wide, (("input", 0),)), ("subtract", wide, (("part", 0), ("value", 0))),
         ("divide", wide, (("part", 1), ("constant", 3.5))), ("square", wide, (("part", 2),)),
         ("add", wide, (("part", 3), ("part", 1))), ("sqrt", wide, (("part", 4),))],
        [("greater_equal", "?", (("input", 0), ("input", 1))),
         ("where", dtype, (("part", 0), ("input", 0), ("constant", kind.type(0))))],
        [("astype", "f8", (("input", 0),)), ("exp", "f8", (("part", 0),)), ("log", "f8", (("part", 1),)),
         ("astype", "f4", (("part", 2),))],
        [("astype", "i2", (("input", 0),)), ("absolute", "i2", (("part", 0),))],
        [("round", "u1", (("input", 0),)), ("invert", "u1", (("part", 0),))],
    ]  # fmt: skip
    chains += [[("round", name, (("input", 0),))] for name in ("?", "i2", "u4", "i8", "f4", "f8")]
    if kind.kind != "b":
        chains += [
            [(name, dtype, (("input", 0), ("input", 1)))]
            for name in ("add", "subtract", "multiply", "minimum", "maximum")
        ]
        chains += [[("negative", dtype, (("input", 0),))]]
        chains += [
            [(name, dtype, (("input", 0), ("constant", 2)))] for name in ("multiply", "maximum")
        ]
    if kind.kind == "f":
        chains += [[(name, "?", (("input", 0),))] for name in ("isnan", "isinf", "isfinite")]
        chains += [[(name, "f8", (("input", 0),))] for name in ("astype",)]
        whole = ("u1", "i2", "u4", "i8", "u8")
        chains += [[("astype", name, (("input", 0),))] for name in ("f4", "f8", *whole)]
    volumes = [volume_of(rng, dtype) for _ in range(2)]
    if kind.kind == "f":
        volumes[1].view(f"u{kind.itemsize}").flat[3] = (
            volumes[1].dtype.type(-np.nan).view(f"u{kind.itemsize}") | 5
        )
    huge = volumes[0].copy()
    if kind.kind == "f":
        huge.flat[:12] *= kind.type(2.0 ** rng.integers(0, 70))
    for parts in chains:
        function, wanted, _ = parts[-1]
        first = huge if function == "round" else volumes[0]
        if kind.kind == "f" and function in ("astype", "round") and len(parts) == 1:
            first = first.copy()
            inner, bits = first[:, 1:, :4], first.view(f"u{kind.itemsize}")
            if np.dtype(wanted).kind in "iu":
                inner[...] = np.resize(around_ends(np.dtype(wanted), kind), inner.shape)
            else:  # NaNs with other bits are converted, too
                inner[0, 0, :3] = np.nan
                bits[0, 1, :3] ^= np.array(
                    [0, 1 << 5 * kind.itemsize, 1 << 8 * kind.itemsize - 1], bits.dtype
                )
        inputs = tuple(rows_in_ring(rng, v) for v in (first, volumes[1]))
        made = rows_in_ring(rng, np.zeros(SHAPE, parts[-1][1]))
        call = tuple(parts), inputs, made, 1, 4, 4, (wide.type(-2.5),)
        yield Call("pointwise.apply", call, "tests.kernels.device_cases.elementwise")


def around_ends(wanted, kind):
    """Floats at, and next to, the ends of a type of integers, and halves between the last ones."""
    ends = np.iinfo(wanted)
    some = [float(end) + step for end in (ends.min, ends.max) for step in (-1, -0.5, 0, 0.5, 1)]
    near = np.array([float(ends.min), float(ends.max), float(ends.max + 1)], kind)
    some += [np.nextafter(near, kind.type(side)) for side in (-np.inf, np.inf)]
    return np.hstack([*some, np.array([0.5, -0.5])]).astype(kind)


def elementwise(parts, inputs, out, y0, y1, nx, values):
    stages = [Elementwise(f, np.dtype(d), f, arguments) for f, d, arguments in parts]
    for k in range(len(out.firsts)):
        views = [
            r.lines[r.firsts[k] + y0 : r.firsts[k] + y1, r.left : r.left + nx]
            for r in (*inputs, out)
        ]
        made = []
        for stage in stages:
            result = np.empty(views[-1].shape, stage.dtype)
            stage.apply(views[:-1], result, values, made)
            made.append(result)
        views[-1][...] = made[-1]


def folded(rng, dtype, mode):
    """Reductions with one copy of the counters. More copies would have other contents."""
    voxels, where = rows_in_ring(rng, volume_of(rng, dtype)), rng.random(SHAPE) < 0.6
    if np.dtype(dtype).kind == "f":
        voxels.lines.flat[::5] *= np.dtype(dtype).type(1e-38)  # among them subnormal numbers
    if np.dtype(dtype).kind != "b":
        voxels.lines.flat[::7] = 98  # edges of bins
        voxels.lines.flat[3::7] = 14 * rng.integers(0, 8, voxels.lines.flat[3::7].size)
    kind, bits = np.dtype(dtype), histogram.digit_bits(dtype)
    for mask in (None, rows_in_ring(rng, where)):
        given = voxels, mask, SHAPE[1], SHAPE[2]
        sums = 2 + accumulate.exponents(kind) * accumulate.DIGITS
        edges = np.linspace(0, 98, 8).astype("f8" if kind.itemsize > 2 else "f4")
        calls = [("accumulate.extent", 4, ())]
        calls += [("accumulate.moments", sums, (squares,)) for squares in (False, True)]
        calls += [("histogram.bin_counts", 8, (edges,))]
        calls += [("histogram.radix_counts", 1 + (1 << bits), (1 << bits, 0, None))]
        if kind.itemsize > 2:
            of = accumulate.key_bits(kind)
            keys = voxels.lines.view(of.sign.dtype).ravel()
            keys = keys ^ np.where(keys & of.sign, of.negative, of.positive)
            prefixes = np.unique((keys >> of.sign.dtype.type(8 * kind.itemsize - 16)).astype("u8"))
            counters = len(prefixes) << bits
            calls += [("histogram.radix_counts", 1 + counters, (counters, 1, prefixes))]
        for name, cells, more in calls:
            host = f"tests.kernels.twins_on_host.{name.partition('.')[2]}"
            yield Call(f"measure.{name}", (*given, np.zeros(cells, "i8"), *more), host)


def connected(rng, dtype, mode):
    place = "tests.kernels.twins_on_host"
    for share in (0.1, 0.4, 0.7):
        mask = np.where(rng.random((3, 6, 9)) < share, 3, 0).astype(dtype)
        rows, shape = rows_in_ring(rng, mask), mask.shape[1:]
        for structure in (*map(connectivity_structure, (1, 2, 3)), rng.random((3, 3, 3)) < 0.3):
            structure = structure | structure[::-1, ::-1, ::-1]
            links, is_joined = components.links_of(structure)
            counts = np.zeros(19, "i8")
            call = rows, *shape, is_joined, counts
            yield Call("labels.components.count_runs", call, f"{place}.count_runs")
            offsets, *runs = twins_on_host.runs_of(rows, *shape, links, is_joined)
            call = rows, *shape, links, is_joined, offsets, *map(np.zeros_like, runs)
            yield Call("labels.components.find_runs", call, f"{place}.find_runs")


FAMILIES = {
    "connected": connected,
    "folded": folded,
    "linear": linear,
    "ordered": ordered,
    "shaped": shaped,
    "plain": plain,
    "tensors": tensors,
    "resampled": resampled,
    "coloured": coloured,
    "curved": curved,
    "distances": distances,
    "fused": fused,
}


def cases(family, dtype, mode="reflect", seed=0):
    """All calls of a family for a dtype and a boundary mode."""
    rng = np.random.default_rng(seed)
    for case in FAMILIES[family](rng, dtype, mode):
        if isinstance(case, Call):
            yield case
            continue
        name, taps, parameters, options = case
        yield Case(name, volume_of(rng, dtype), taps, parameters, {**options, "seed": seed})
