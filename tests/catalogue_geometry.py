"""Operations that change the grid, drawn at random, each with its exact result."""

import itertools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.ndimage as ndi
import tensorstore as ts
from hypothesis import strategies as st

import beam_volumes as bv
from tests.catalogue import MODES, assert_same, half_precision, largest, linear_dtype


@dataclass(repr=False)
class Regrid:
    """An operation on one volume with drawn parameters, its twin on arrays."""

    text: str
    ours: Any
    twin: Any

    def __repr__(self):
        return self.text

    def check(self, result, x):
        __tracebackhide__ = True
        assert_same(result, self.twin(x))


def _named(function, twin, *args, **how):
    text = f"{function}({', '.join([*map(repr, args), *(f'{k}={v!r}' for k, v in how.items())])})"
    return Regrid(text, lambda v: getattr(bv, function)(v, *args, **how), twin)


@st.composite
def pads(draw, shape, dtype):
    width = [(draw(st.integers(0, 6)), draw(st.integers(0, 6))) for _ in shape]
    mode = draw(st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap"]))
    how = {"constant_values": draw(st.sampled_from([0, 1]))} if mode == "constant" else {}
    return _named("pad", lambda x: np.pad(x, width, mode, **how), width, mode, **how)


@st.composite
def flips(draw, shape, dtype):
    axes = draw(st.sets(st.integers(-len(shape), -1), max_size=len(shape)))
    axes = None if not axes else tuple(sorted(axes))
    return _named("flip", lambda x: np.flip(x, axes), axes)


@st.composite
def transposes(draw, shape, dtype):
    axes = draw(st.permutations(range(len(shape))))
    return _named("transpose", lambda x: x.transpose(axes), axes)


def downsampled(x, factors, method):
    """What `tensorstore.downsample` gives; floats without its rounding, and NaN where there is one."""
    if method == "stride":
        return x[tuple(slice(None, None, f) for f in factors)]
    if x.dtype.kind != "f":
        return np.asarray(ts.downsample(ts.array(x), factors, method).read().result())
    shape = tuple(-(-n // f) for n, f in zip(x.shape, factors, strict=True))
    hole, total, count = np.zeros(shape, bool), np.zeros(shape), np.zeros(shape)
    for offset in itertools.product(*map(range, factors)):
        part = x[tuple(slice(o, None, f) for o, f in zip(offset, factors, strict=True))]
        at = tuple(slice(0, n) for n in part.shape)
        with np.errstate(invalid="ignore"):
            total[at] += part
        count[at] += 1
        hole[at] |= np.isnan(part)
    if method == "mean":
        return (total / count).astype(x.dtype)
    clean = np.where(np.isnan(x), x.dtype.type(0), x)
    result = np.array(ts.downsample(ts.array(clean), factors, method).read().result())
    result[hole] = np.nan
    return result


@st.composite
def downsamples(draw, shape, dtype):
    factors = tuple(draw(st.sampled_from([1, 2, 2, 3, 5, 40])) for _ in shape)
    method = draw(st.sampled_from(["mean", "min", "max", "median", "mode", "stride"]))

    def twin(x):
        return half_precision(downsampled, x, factors=factors, method=method)

    return _named("downsample", twin, factors, method)


def _how(draw, dtype, orders=(0, 1, 1)):
    order = 0 if np.dtype(dtype).kind == "b" else draw(st.sampled_from(orders))
    mode = draw(st.sampled_from(MODES))
    return {"order": order, "mode": mode, "cval": draw(st.sampled_from([0, 1]))}


def _moves():
    return st.one_of(st.integers(-9, 9), st.floats(-3, 3, width=16), st.sampled_from([-40.5, 77]))


@st.composite
def upsamples(draw, shape, dtype):
    factors = tuple(draw(st.integers(1, 3)) for _ in shape)
    if np.dtype(dtype).kind != "b" and draw(st.booleans()):

        def linear(x):
            how = {"zoom": factors, "order": 1, "mode": "nearest", "grid_mode": True}
            return half_precision(ndi.zoom, x, **how)

        return _named("upsample", linear, factors, order=1)

    def repeated(x):
        for axis, f in enumerate(factors):
            x = x.repeat(f, axis)
        return x

    return _named("upsample", repeated, factors)


@st.composite
def shifts(draw, shape, dtype):
    by, how = tuple(draw(_moves()) for _ in shape), _how(draw, dtype)
    return _named("shift", lambda x: half_precision(ndi.shift, x, shift=by, **how), by, **how)


@st.composite
def zooms(draw, shape, dtype):
    by = tuple(draw(st.sampled_from([0.3, 0.77, 1, 1.5, 2.2])) for _ in shape)
    by = tuple(1 if round(n * z) == 0 else z for n, z in zip(shape, by, strict=True))
    how = _how(draw, dtype) | {"grid_mode": draw(st.booleans())}

    def twin(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scipy recommends other modes with grid_mode
            return half_precision(ndi.zoom, x, zoom=by, **how)

    return _named("zoom", twin, by, **how)


@st.composite
def affines(draw, shape, dtype):
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    matrix = rng.normal(0, 0.5, (len(shape),) * 2)
    matrix[0, 0] = abs(matrix[0, 0])
    offset = rng.normal(0, 4, len(shape)).tolist()
    output = tuple(draw(st.integers(1, n + 4)) for n in shape)
    how = _how(draw, dtype)

    def twin(x):
        return half_precision(
            ndi.affine_transform, x, matrix=matrix, offset=offset, output_shape=output, **how
        )

    return _named("affine_transform", twin, matrix.tolist(), offset, output, **how)


@st.composite
def rotations(draw, shape, dtype):
    angle = draw(st.sampled_from([30, 90, 180, -270, 45.5, 721]))
    how = _how(draw, dtype) | {"reshape": draw(st.booleans())}

    def twin(x):
        return half_precision(ndi.rotate, x, angle=angle, axes=(x.ndim - 1, x.ndim - 2), **how)

    return _named("rotate", twin, angle, **how)


#: The largest pole of each order: scipy's boundaries are as precise as its powers.
POLES = {1: 0.0, 2: 0.18, 3: 0.27, 4: 0.37, 5: 0.44}


@dataclass(repr=False)
class Spline(Regrid):
    """A spline, with its twin on float64."""

    order: int

    def check(self, result, x):
        __tracebackhide__ = True
        wanted = x.dtype if not self.text.startswith("spline") else linear_dtype(x.dtype)
        assert result.dtype == wanted
        if np.isnan(x.astype("f8")).any():
            return  # scipy spreads NaN along whole rows
        expected = self.twin(x.astype("f8"))
        size = max(1.0, largest(x), np.abs(expected).max(initial=0))
        short = min(n for n in (*x.shape, 99) if n > 1)
        error = (
            64 * np.finfo(linear_dtype(x.dtype)).eps + 40 * POLES[self.order] ** (2 * short)
        ) * size
        if result.dtype.kind in "iu":
            info = np.iinfo(result.dtype)
            expected, error = expected.clip(float(info.min), float(info.max)), error + 0.5
        elif result.dtype == "f2":
            error += 1e-3 * size
        assert result.shape == expected.shape
        assert np.abs(result.astype("f8") - expected).max(initial=0) <= error


@st.composite
def splines(draw, shape, dtype):
    """Of any function with orders above 1, and periodic ones with order 1."""
    is_periodic = draw(st.integers(0, 3)) == 0
    order = draw(st.integers(1 if is_periodic else 2, 5))
    if order > 1 and draw(st.integers(0, 4)) == 0:
        mode = draw(st.sampled_from(MODES))
        return Spline(
            f"spline_filter({order}, {mode!r})",
            lambda v: bv.spline_filter(v, order, mode=mode),
            lambda x: ndi.spline_filter(x, order, mode=mode),
            order,
        )
    if np.dtype(dtype).kind == "b":
        return draw(pads(shape, dtype))
    how = {
        "order": order,
        "mode": "grid-wrap" if is_periodic else draw(st.sampled_from(MODES)),
        "cval": draw(st.sampled_from([0, 1])),
    }
    how["prefilter"] = draw(st.sampled_from([True, True, False]))
    function = draw(st.sampled_from(["shift", "zoom", "affine_transform", "rotate"]))
    if function == "shift":
        args = (tuple(draw(_moves()) for _ in shape),)
    elif function == "zoom":
        by = tuple(draw(st.sampled_from([0.3, 0.77, 1, 1.5, 2.2])) for _ in shape)
        args = (tuple(1 if round(n * z) == 0 else z for n, z in zip(shape, by, strict=True)),)
    elif function == "rotate":
        plane = draw(st.permutations(range(len(shape))))[:2]
        args = draw(st.sampled_from([30, 90, 180, -270, 45.5, 131])), tuple(plane)
        how["reshape"] = draw(st.booleans())
    else:
        rng = np.random.default_rng(draw(st.integers(0, 999)))
        matrix = rng.normal(0, 0.5, (len(shape),) * 2)
        matrix[0, 0] = abs(matrix[0, 0])
        args = matrix.tolist(), rng.normal(0, 4, len(shape)).tolist()
    named = _named(function, lambda x: getattr(ndi, function)(x, *args, **how), *args, **how)
    return Spline(named.text, named.ours, named.twin, order)


FAMILIES = {
    "pad": pads,
    "flip": flips,
    "transpose": transposes,
    "downsample": downsamples,
    "upsample": upsamples,
    "shift": shifts,
    "zoom": zooms,
    "affine": affines,
    "rotate": rotations,
    "splines": splines,
}


def regrids(shape, dtype):
    """Any operation that changes the grid."""
    return st.one_of(*(family(shape, dtype) for family in FAMILIES.values()))
