"""Operations drawn at random, each with its expected result: scipy on the whole volume.

Every case knows its twin: rank filters and morphology are compared bit by bit in scipy's dtype, linear
filters with scipy on float64 within ``16 eps sum|w| max|x|``. Where voxels are NaN the twin runs with
zeros there, and the result must be NaN exactly where the footprint reaches one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.ndimage as ndi
from hypothesis import strategies as st

import beam_volumes as bv

DTYPES = ["?", "u1", "u2", "i2", "i4", "i8", "f2", "f4", "f8"]
MODES = ["reflect", "mirror", "nearest", "constant", "grid-mirror", "grid-constant"]
FILTER_MODES = [*MODES, "wrap", "grid-wrap"]
_NUMPY_MODES = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "constant": "constant",
    "grid-constant": "constant",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}


def voxels(shape, dtype, seed=0, *, narrow=False, nan=0.0, inf=0.0):
    """An array of a dtype over its whole range, or (``narrow``) with many ties, with some NaN, inf."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.6
    if dtype.kind in "ui":
        info = np.iinfo(dtype)
        low, high = (max(info.min, -4), 9) if narrow else (info.min, info.max)
        return rng.integers(low, high, shape, dtype, endpoint=True)
    x = (rng.integers(-4, 9, shape) if narrow else rng.normal(10, 100, shape)).astype(dtype)
    for share, value in ((nan, np.nan), (inf, np.inf), (inf, -np.inf)):
        x[rng.random(shape) < share] = value
    return x


def assert_same(ours, theirs):
    """Equal dtypes, shapes and values; NaN is equal to NaN."""
    __tracebackhide__ = True
    assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    np.testing.assert_array_equal(ours, theirs)


def assert_linear_close(ours, theirs, weight, largest):
    """``|a - b| <= 16 eps(result dtype) sum|w| max|x|``; what is not finite is equal."""
    __tracebackhide__ = True
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(ours[~finite], theirs[~finite].astype(ours.dtype))
    # Half precision is single precision rounded once more.
    eps = float(np.finfo(ours.dtype).eps)
    error = np.abs(ours.astype(np.float64) - theirs)[finite]
    assert np.isfinite(ours[finite]).all()
    if error.size:
        assert error.max() <= 16 * eps * weight * largest, (
            error.max(),
            16 * eps * weight * largest,
        )


def largest(x, cval=0.0):
    """max|x| of the finite voxels and the constant outside."""
    x = np.abs(x.astype(np.float64))
    return max(float(x[np.isfinite(x)].max(initial=0.0)), abs(cval))


def linear_dtype(dtype):
    """What linear filters return."""
    dtype = np.dtype(dtype)
    return np.dtype("f4") if dtype.itemsize <= 2 or dtype == np.float32 else np.dtype("f8")


def padded(function: Callable[[np.ndarray], np.ndarray], x, halo, modes, cval):
    """A filter of an array padded by numpy axis by axis: a twin where scipy has no per-axis modes."""
    for axis, (h, mode) in enumerate(zip(halo, modes, strict=True)):
        width = [(0, 0)] * x.ndim
        width[axis] = (h, h)
        constant = {"constant_values": cval} if "constant" in mode else {}
        x = np.pad(x, width, mode=_NUMPY_MODES[mode], **constant)
    return function(x)[tuple(slice(h, n - h) for h, n in zip(halo, x.shape, strict=True))]


def half_precision(function, x, **how):
    """scipy has no float16: the twin of a filter that selects values runs in float32."""
    if x.dtype == np.float16:
        return function(x.astype(np.float32), **how).astype(np.float16)
    return function(x, **how)


@dataclass(repr=False)
class Op:
    """An operation on one volume with drawn parameters.

    Attributes
    ----------
    ours : callable
        Of a lazy volume.
    twin : callable
        Of an array; for linear filters of one in float64.
    reach : list of (footprint, origin, modes)
        The footprints through which a NaN spreads, one after the other, or all at once (``together``).
    own : bool
        Whether a voxel's own NaN stays, whatever the footprints.
    weight : float or None
        sum|w| of a linear filter; None: must be equal to the bit.
    """

    text: str
    ours: Callable[[Any], Any]
    twin: Callable[[np.ndarray], np.ndarray]
    reach: list[tuple[np.ndarray, tuple[int, ...], tuple[str, ...]]]
    weight: float | None = None
    cval: float = 0.0
    together: bool = False
    own: bool = False

    def __repr__(self) -> str:
        return self.text

    def check(self, result: np.ndarray, x: np.ndarray) -> None:
        """Compare a result with the twin of this input."""
        __tracebackhide__ = True
        hole = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
        before, after = hole, np.zeros_like(hole)
        for footprint, origin, modes in self.reach:
            halo = [n + abs(o) for n, o in zip(footprint.shape, origin, strict=True)]

            def spread(a, f=footprint, o=origin):
                return ndi.maximum_filter(a, footprint=f, origin=o)

            after = after | padded(spread, before, halo, modes, False)
            if not self.together:
                before, after = after, np.zeros_like(hole)
        was, hole = hole, after if self.together else before
        if self.own:
            hole = hole | was
        clean = x
        if x.dtype.kind == "f" and self.reach:
            clean = np.where(np.isnan(x), x.dtype.type(0), x)
        if self.weight is None:
            expected = self.twin(clean)
        else:
            expected = self.twin(clean.astype(np.float64))
            assert result.dtype == linear_dtype(x.dtype), (result.dtype, x.dtype)
        if result.dtype.kind == "f":
            np.testing.assert_array_equal(np.isnan(result), hole | np.isnan(expected))
            result, expected = (np.where(hole, a.dtype.type(0), a) for a in (result, expected))
        if self.weight is None:
            assert_same(result, expected)
        else:
            assert_linear_close(result, expected, self.weight, largest(clean, self.cval))


# -- parameters ------------------------------------------------------------------------------------


@st.composite
def shapes(draw, ndim=3, most=60, voxels=3000):
    """Shapes with 1 to ``most`` voxels an axis, not too many in all."""
    shape = [draw(st.integers(1, 9)) for _ in range(ndim)]
    long = draw(st.integers(0, ndim - 1))
    shape[long] = draw(
        st.integers(1, max(1, min(most, voxels // max(1, np.prod(shape) // shape[long]))))
    )
    return tuple(shape)


@st.composite
def axes_choices(draw, ndim, ordered=True):
    """``axes=`` (None or some axes) and the axes it means.

    Arrays over axes that are not in order are left out: scipy takes no notice of their order.
    """
    if draw(st.integers(0, 2)):
        return None, tuple(range(ndim))
    chosen = draw(st.permutations(range(ndim)))[: draw(st.integers(1, ndim))]
    chosen = sorted(chosen) if ordered else chosen
    return tuple(chosen), tuple(chosen)


@st.composite
def edges(draw, n, dtype, sequence=True):
    """A mode, or one per axis, and a constant that the dtype holds."""
    if sequence and draw(st.booleans()):
        mode = tuple(draw(st.sampled_from(FILTER_MODES)) for _ in range(n))
    else:
        mode = draw(st.sampled_from(FILTER_MODES))
    cval = {"b": st.sampled_from([0, 1]), "u": st.sampled_from([0, 7])}.get(
        np.dtype(dtype).kind, st.sampled_from([0, -3, 5])
    )
    return mode, draw(cval)


def origin_for(draw, sizes):
    """0, or an origin per axis within scipy's limits."""
    if draw(st.booleans()):
        return 0
    return tuple(draw(st.integers(-(n // 2), (n - 1) // 2)) for n in sizes)


def each(value, n):
    return (value,) * n if isinstance(value, str | int | float) else tuple(value)


def full(values, chosen, ndim, default):
    """Values of chosen axes as values of all axes."""
    result = [default] * ndim
    for axis, v in zip(chosen, values, strict=True):
        result[axis] = v
    return tuple(result)


def spread_over(array, chosen, ndim):
    """An array over chosen axes as one over all axes."""
    order = np.argsort(chosen)
    shape = full([array.shape[i] for i in range(array.ndim)], chosen, ndim, 1)
    return np.transpose(array, order).reshape(shape)


# -- operations ------------------------------------------------------------------------------------


@st.composite
def ranks(draw, ndim=3, dtype="u1", names=("minimum_filter", "maximum_filter", "median_filter")):
    """Minimum, maximum and median over boxes and footprints."""
    name = draw(st.sampled_from(names))
    axes, chosen = draw(axes_choices(ndim))
    n = len(chosen)
    if draw(st.booleans()):
        how: dict[str, Any] = {"size": tuple(draw(st.integers(1, 4)) for _ in range(n))}
        if draw(st.integers(0, 3)) == 0:
            how = {"size": 3}
        footprint = np.ones(each(how["size"], n), bool)
    else:
        footprint = drawn_footprint(draw, n)
        how = {"footprint": footprint}
    box = bool(footprint.all())
    mode, cval = draw(edges(n, dtype, sequence=box))
    origin = origin_for(draw, footprint.shape)
    if isinstance(origin, tuple) and "size" in how and how["size"] == 3:
        origin = origin[0]
    how |= {"mode": mode, "cval": cval, "origin": origin, "axes": axes}
    modes = full(each(mode, n), chosen, ndim, "reflect")
    where = spread_over(footprint, chosen, ndim)
    shift = full(each(origin, n), chosen, ndim, 0)

    def twin(x):
        # Its own padding, for scipy takes one mode for medians; and ranks of values for int64, which
        # scipy takes through doubles.
        halo = [2 * s for s in where.shape]

        def run(a):
            return getattr(ndi, name)(a, footprint=where, origin=shift)

        if x.dtype == np.int64:
            numbers, at = np.unique(np.append(x, cval), return_inverse=True)
            return numbers[padded(run, at[:-1].reshape(x.shape), halo, modes, at[-1])]
        return half_precision(lambda a: padded(run, a, halo, modes, cval), x)

    return Op(
        f"{name}({how})", lambda v: getattr(bv, name)(v, **how), twin, [(where, shift, modes)]
    )


def drawn_footprint(draw, n, most=4):
    shape = tuple(draw(st.integers(1, most)) for _ in range(n))
    bits = draw(st.integers(0, 2**16))
    footprint = np.random.default_rng(bits).random(shape) < draw(st.sampled_from([0.3, 0.7]))
    if not footprint.any():
        footprint[tuple(m // 2 for m in shape)] = True
    return footprint


def _gaussian(sigma, order, radius):
    """scipy's weights, for sum|w|."""
    from scipy.ndimage._filters import _gaussian_kernel1d

    return float(np.abs(_gaussian_kernel1d(sigma, order, radius)).sum())


@st.composite
def gaussians(draw, ndim=3, dtype="u1"):
    """gaussian_filter with orders, radii, truncation."""
    axes, chosen = draw(axes_choices(ndim, ordered=False))
    n = len(chosen)
    sigma = tuple(draw(st.sampled_from([0, 0.4, 0.7, 1.3])) for _ in range(n))
    order = tuple(draw(st.sampled_from([0, 0, 0, 1, 2])) for _ in range(n))
    if draw(st.booleans()):
        sigma, order = draw(st.sampled_from([0.6, 1.0])), draw(st.sampled_from([0, 0, 1]))
    truncate = draw(st.sampled_from([4.0, 2.5]))
    radius = draw(st.sampled_from([None, None, 1, 7]))
    mode, cval = draw(edges(n, dtype))
    how = dict(sigma=sigma, order=order, mode=mode, cval=cval, truncate=truncate, axes=axes)
    if radius is not None:
        how["radius"] = radius
    sizes, weight = [], 1.0
    for s, o in zip(each(sigma, n), each(order, n), strict=True):
        r = 0 if s == 0 else int(truncate * s + 0.5) if radius is None else radius
        weight *= _gaussian(s, o, r) if s else 1.0
        sizes.append(2 * r + 1)
    where = np.ones(full(sizes, chosen, ndim, 1), bool)
    modes = full(each(mode, n), chosen, ndim, "reflect")
    return Op(
        f"gaussian_filter({how})",
        lambda v: bv.gaussian_filter(v, **how),
        lambda x: ndi.gaussian_filter(x, **how),
        [(where, (0,) * ndim, modes)],
        max(weight, 1.0),
        cval,
    )


@st.composite
def uniforms(draw, ndim=3, dtype="u1"):
    """uniform_filter; the twin correlates, for scipy's own runs sums along lines."""
    axes, chosen = draw(axes_choices(ndim, ordered=False))
    n = len(chosen)
    size = tuple(draw(st.integers(1, 5)) for _ in range(n))
    origin = origin_for(draw, size)
    mode, cval = draw(edges(n, dtype))
    how = dict(size=size, origin=origin, mode=mode, cval=cval, axes=axes)

    def twin(x):
        for axis, s, o, m in zip(chosen, size, each(origin, n), each(mode, n), strict=True):
            if s > 1:
                x = ndi.correlate1d(x, np.full(s, 1 / s), axis, mode=m, cval=cval, origin=o)
        return x

    where = np.ones(full(size, chosen, ndim, 1), bool)
    modes = full(each(mode, n), chosen, ndim, "reflect")
    shift = full(each(origin, n), chosen, ndim, 0)
    return Op(
        f"uniform_filter({how})",
        lambda v: bv.uniform_filter(v, **how),
        twin,
        [(where, shift, modes)],
        1.0,
        cval,
    )


@st.composite
def correlations(draw, ndim=3, dtype="u1"):
    """convolve and correlate with any weights, zeros among them."""
    name = draw(st.sampled_from(["convolve", "correlate"]))
    axes, chosen = draw(axes_choices(ndim))
    n = len(chosen)
    shape = tuple(draw(st.integers(1, 4)) for _ in range(n))
    weights = np.random.default_rng(draw(st.integers(0, 999))).integers(-2, 4, shape) / 3
    if draw(st.booleans()):
        origin = 0
    else:
        # scipy turns a convolution's origin around before it looks at the limits.
        flip = name == "convolve"
        origin = tuple(
            draw(st.integers(-((s - 1) // 2), s // 2 - (s % 2 == 0)))
            if flip
            else draw(st.integers(-(s // 2), (s - 1) // 2))
            for s in shape
        )
    mode, cval = draw(edges(n, dtype, sequence=False))
    how = dict(mode=mode, cval=cval, origin=origin, axes=axes)
    where = spread_over(weights != 0, chosen, ndim)
    shift = full(each(origin, n), chosen, ndim, 0)
    if name == "convolve":
        where = where[tuple(slice(None, None, -1) for _ in range(ndim))]
        shift = tuple(-o - (s % 2 == 0) for o, s in zip(shift, where.shape, strict=True))
    modes = full(each(mode, n), chosen, ndim, "reflect")
    return Op(
        f"{name}({weights.tolist()}, {how})",
        lambda v: getattr(bv, name)(v, weights, **how),
        lambda x: getattr(ndi, name)(x, weights, **how),
        [(where, shift, modes)] if where.any() else [],
        max(float(np.abs(weights).sum()), 1.0),
        cval,
    )


@st.composite
def sobels(draw, ndim=3, dtype="u1"):
    """sobel, which scipy makes of inner passes."""
    axis = draw(st.integers(-ndim, ndim - 1))
    mode, cval = draw(edges(ndim, dtype))
    how = dict(axis=axis, mode=mode, cval=cval)
    return Op(
        f"sobel({how})",
        lambda v: bv.sobel(v, **how),
        lambda x: ndi.sobel(x, **how),
        [(np.ones((3,) * ndim, bool), (0,) * ndim, each(mode, ndim))],
        2.0 * 4 ** (ndim - 1),
        cval,
    )


@st.composite
def magnitudes(draw, ndim=3, dtype="u1"):
    """gaussian_gradient_magnitude; the twin filters slice by slice what ``axes`` leaves out."""
    axes, chosen = draw(axes_choices(ndim, ordered=False))
    n = len(chosen)
    sigma = draw(st.sampled_from([0.7, (0.5, 1.0, 1.3)[:n]]))
    mode, cval = draw(edges(n, dtype))
    how = dict(sigma=sigma, mode=mode, cval=cval, axes=axes)
    radii = [int(4 * s + 0.5) for s in each(sigma, n)]
    where = np.ones(full([2 * r + 1 for r in radii], chosen, ndim, 1), bool)
    weight = sum(_gaussian(s, 1, r) for s, r in zip(each(sigma, n), radii, strict=True))

    def twin(x):
        squares = 0.0
        for axis, m in zip(chosen, each(mode, n), strict=True):
            order = [int(a == axis) for a in chosen]
            part = ndi.gaussian_filter(x, sigma, order, mode=m, cval=cval, axes=chosen)
            squares = squares + part**2
        if n == ndim and chosen == tuple(range(ndim)):
            np.testing.assert_array_equal(
                np.sqrt(squares), ndi.gaussian_gradient_magnitude(x, sigma, mode=mode, cval=cval)
            )
        return np.sqrt(squares)

    # As in scipy, an axis's mode applies to the derivative along it, in all directions.
    reach = [(where, (0,) * ndim, (m,) * ndim) for m in each(mode, n)]
    return Op(
        f"gaussian_gradient_magnitude({how})",
        lambda v: bv.gaussian_gradient_magnitude(v, **how),
        twin,
        reach,
        max(weight, 1.0),
        cval,
        together=True,
    )


@st.composite
def greys(draw, ndim=3, dtype="u1"):
    """Grey morphology over boxes, footprints and structures that are not flat."""
    name = draw(st.sampled_from(["grey_erosion", "grey_dilation", "grey_opening", "grey_closing"]))
    axes, chosen = draw(axes_choices(ndim))
    n = len(chosen)
    kinds = ["size", "footprint", "structure", "both"][: 2 if np.dtype(dtype).kind == "b" else 4]
    kind = draw(st.sampled_from(kinds))
    footprint = drawn_footprint(draw, n, 3)
    if kind == "size":
        how: dict[str, Any] = {"size": footprint.shape}
        footprint = np.ones(footprint.shape, bool)
    elif kind == "footprint":
        how = {"footprint": footprint}
    else:
        heights = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 3, footprint.shape)
        how = {"structure": heights}
        if kind == "both":
            how["footprint"] = footprint
        else:
            footprint = np.ones(footprint.shape, bool)
    mode, cval = draw(edges(n, dtype, sequence=kind == "size"))
    how |= {"mode": mode, "cval": cval, "axes": axes}
    if name in ("grey_erosion", "grey_dilation"):
        sizes = footprint.shape
        how["origin"] = (
            0
            if draw(st.booleans())
            else tuple(draw(st.integers(-((s - 1) // 2), (s - 1) // 2)) for s in sizes)
        )
    where = spread_over(footprint, chosen, ndim)
    shift = full(each(how.get("origin", 0), n), chosen, ndim, 0)
    turned = where[tuple(slice(None, None, -1) for _ in range(ndim))]
    back = tuple(-o - (s % 2 == 0) for o, s in zip(shift, where.shape, strict=True))
    modes = full(each(mode, n), chosen, ndim, "reflect")
    erode, dilate = (where, shift, modes), (turned, back, modes)
    reach = {
        "grey_erosion": [erode],
        "grey_dilation": [dilate],
        "grey_opening": [erode, dilate],
        "grey_closing": [dilate, erode],
    }[name]
    return Op(
        f"{name}({how})",
        lambda v: getattr(bv, name)(v, **how),
        lambda x: half_precision(lambda a: getattr(ndi, name)(a, **how), x),
        reach,
    )


@st.composite
def binaries(draw, ndim=3, dtype="?", mask=None):
    """Binary morphology; non-zero voxels are foreground."""
    name = draw(
        st.sampled_from(["binary_erosion", "binary_dilation", "binary_opening", "binary_closing"])
    )
    axes, chosen = draw(axes_choices(ndim))
    n = len(chosen)
    structure = draw(st.sampled_from([None, "drawn"]))
    shape = (3,) * n
    if structure is not None:
        structure = drawn_footprint(draw, n, 4)
        shape = structure.shape
    how = dict(
        structure=structure,
        iterations=draw(st.sampled_from([1, 1, 2, 3])),
        border_value=draw(st.sampled_from([0, 1])),
        origin=0
        if draw(st.booleans())
        else tuple(draw(st.integers(-((s - 1) // 2), (s - 1) // 2)) for s in shape),
        axes=axes,
    )
    return Op(
        f"{name}({how})",
        lambda v: getattr(bv, name)(v, **how),
        lambda x: getattr(ndi, name)(x, **how),
        [],
    )


def operations(ndim=3, dtype="u1"):
    """Any neighbourhood operation."""
    return st.one_of(
        *(
            family(ndim=ndim, dtype=dtype)
            for family in (
                ranks,
                gaussians,
                uniforms,
                correlations,
                sobels,
                magnitudes,
                greys,
                binaries,
            )
        )
    )
