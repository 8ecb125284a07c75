"""More of `tests.catalogue`: operations that are made of others, and along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.ndimage as ndi
from hypothesis import strategies as st

import beam_volumes as bv
from tests.catalogue import (
    Op,
    _gaussian,
    axes_choices,
    drawn_footprint,
    each,
    edges,
    full,
    half_precision,
    origin_for,
    padded,
    spread_over,
)


def _second(volume, axis, weights, **how):
    return bv.correlate1d(volume, weights, axis, **how)


def _their_second(x, axis, output, mode, cval, weights):
    return ndi.correlate1d(x, weights, axis, output, mode, cval)


@st.composite
def derivatives(draw, ndim=3, dtype="u1"):
    """prewitt, laplace, gaussian_laplace; gradients of sobel and prewitt, any second derivatives."""
    names = ["prewitt", "laplace", "gaussian_laplace"]
    name = draw(st.sampled_from([*names, "generic_gradient_magnitude", "generic_laplace"]))
    mode, cval = draw(edges(ndim, dtype))
    how: dict[str, Any] = {"mode": mode, "cval": cval}
    cubes = [(np.ones((3,) * ndim, bool), (0,) * ndim, (m,) * ndim) for m in each(mode, ndim)]
    if name == "prewitt":
        axis = draw(st.integers(-ndim, ndim - 1))
        reach = [(np.ones((3,) * ndim, bool), (0,) * ndim, each(mode, ndim))]
        return Op(
            f"prewitt({axis}, {how})",
            lambda v: bv.prewitt(v, axis, **how),
            lambda x: ndi.prewitt(x, axis, **how),
            reach,
            2.0 * 3 ** (ndim - 1),
            cval,
        )
    if name.endswith("laplace") and name != "gaussian_laplace":
        axes, chosen = draw(axes_choices(ndim))
        mode, cval = draw(edges(len(chosen), dtype))
        how = {"mode": mode, "cval": cval, "axes": axes}
        where = ndi.generate_binary_structure(len(chosen), 1)
        modes = full(each(mode, len(chosen)), chosen, ndim, "reflect")
        ours: dict[str, Any] = how
        theirs = how
        if name == "generic_laplace":
            how = {**how, "extra_keywords": {"weights": (1.5, -2, 0.25)}}
            ours, theirs = how | {"derivative2": _second}, how | {"derivative2": _their_second}
        return Op(
            f"{name}({how})",
            lambda v: getattr(bv, name)(v, **ours),
            lambda x: getattr(ndi, name)(x, **theirs),
            [(spread_over(where, chosen, ndim), (0,) * ndim, modes)],
            4.0 * len(chosen),
            cval,
        )
    if name == "gaussian_laplace":
        sigma = draw(st.sampled_from([0.6, 1.1, (0.5, 0.9, 1.2)[:ndim]]))
        radii = [int(4 * s + 0.5) for s in each(sigma, ndim)]
        where = np.ones([2 * r + 1 for r in radii], bool)
        weight = sum(_gaussian(s, 2, r) for s, r in zip(each(sigma, ndim), radii, strict=True))
        return Op(
            f"gaussian_laplace({sigma}, {how})",
            lambda v: bv.gaussian_laplace(v, sigma, **how),
            lambda x: ndi.gaussian_laplace(x, sigma, **how),
            [(where, (0,) * ndim, m) for _, _, m in cubes],
            max(weight, 1.0),
            cval,
            together=True,
        )
    inner = draw(st.sampled_from(["sobel", "prewitt"]))
    given = inner if draw(st.booleans()) else getattr(bv, inner)
    return Op(
        f"generic_gradient_magnitude({inner}, {how})",
        lambda v: bv.generic_gradient_magnitude(v, given, **how),
        lambda x: ndi.generic_gradient_magnitude(x, getattr(ndi, inner), **how),
        cubes,
        2.0 * 4 ** (ndim - 1) * ndim,
        cval,
        together=True,
    )


@st.composite
def one_axis(draw, ndim=3, dtype="u1"):
    """The filters along one axis."""
    name = draw(
        st.sampled_from(
            ["correlate", "convolve", "gaussian_filter", "minimum_filter", "maximum_filter"]
        )
    )
    axis = draw(st.integers(-ndim, ndim - 1))
    chosen = (axis % ndim,)
    (mode,), cval = (draw(edges(1, dtype, sequence=False))[0],), draw(edges(1, dtype))[1]
    size = draw(st.integers(1, 6))
    shift = draw(st.integers(-((size - 1) // 2), (size - 1) // 2))
    how: dict[str, Any] = {"axis": axis, "mode": mode, "cval": cval}
    weight: float | None = None
    if name == "gaussian_filter":
        first: Any = draw(st.sampled_from([0.5, 1.2]))
        order = draw(st.sampled_from([0, 1, 2]))
        how["order"] = order
        radius, shift = int(4 * first + 0.5), 0
        weight, size = max(1.0, _gaussian(first, order, radius)), 2 * radius + 1
    else:
        how["origin"] = shift
        if name in ("correlate", "convolve"):
            first = np.random.default_rng(draw(st.integers(0, 99))).normal(size=size)
            weight = max(1.0, float(np.abs(first).sum()))
            if name == "convolve":
                shift = -shift - (size % 2 == 0)
        else:
            first = size

    def twin(x):
        run = getattr(ndi, f"{name}1d")
        return run(x, first, **how) if weight else half_precision(lambda a: run(a, first, **how), x)

    return Op(
        f"{name}1d({first}, {how})",
        lambda v: getattr(bv, f"{name}1d")(v, first, **how),
        twin,
        [
            (
                np.ones(full([size], chosen, ndim, 1), bool),
                full([shift], chosen, ndim, 0),
                (mode,) * ndim,
            )
        ],
        weight,
        cval,
    )


@st.composite
def any_rank(draw, ndim=3, dtype="u1"):
    """rank_filter and percentile_filter."""
    axes, chosen = draw(axes_choices(ndim))
    footprint = drawn_footprint(draw, len(chosen), 3)
    count = int(footprint.sum())
    mode, cval = draw(edges(len(chosen), dtype, sequence=False))
    origin = origin_for(draw, footprint.shape)
    where = spread_over(footprint, chosen, ndim)
    shift = full(each(origin, len(chosen)), chosen, ndim, 0)
    name = draw(st.sampled_from(["rank_filter", "percentile_filter"]))
    if name == "rank_filter":
        first: Any = draw(st.integers(-count, count - 1))
    else:
        first = draw(st.sampled_from([0, 100, -20, 33.4, 50, 99.9]) | st.floats(-100, 100))
    how: dict[str, Any] = {
        "footprint": footprint, "mode": mode, "cval": cval, "origin": origin, "axes": axes
    }  # fmt: skip

    def twin(x):
        halo = [2 * s for s in where.shape]

        def run(a):
            return getattr(ndi, name)(a, first, footprint=where, origin=shift)

        if x.dtype == np.int64:  # which scipy takes through doubles
            numbers, at = np.unique(np.append(x, cval), return_inverse=True)
            modes = (mode,) * ndim
            return numbers[padded(run, at[:-1].reshape(x.shape), halo, modes, at[-1])]
        return half_precision(lambda a: padded(run, a, halo, (mode,) * ndim, cval), x)

    return Op(
        f"{name}({first}, {how})",
        lambda v: getattr(bv, name)(v, first, **how),
        twin,
        [(where, shift, (mode,) * ndim)],
    )


@st.composite
def differences(draw, ndim=3, dtype="u1"):
    """Tophats, morphological gradients and Laplacians, hit-or-miss."""
    names = ["white_tophat", "black_tophat", "morphological_gradient", "morphological_laplace"]
    if np.dtype(dtype).kind == "b":
        names = ["binary_hit_or_miss", "white_tophat", "black_tophat"]
    name = draw(st.sampled_from(names))
    axes, chosen = draw(axes_choices(ndim))
    n = len(chosen)
    footprint = drawn_footprint(draw, n, 3)
    if name == "binary_hit_or_miss":
        second = draw(st.sampled_from([None, drawn_footprint(draw, n, 3)]))
        how: dict[str, Any] = {
            "structure1": footprint,
            "structure2": second,
            "origin1": tuple(draw(st.integers(-((s - 1) // 2), (s - 1) // 2)) for s in footprint.shape),
            "axes": axes,
        }  # fmt: skip
        if second is not None:
            how["origin2"] = 0
        return Op(
            f"{name}({how})",
            lambda v: bv.binary_hit_or_miss(v, **how),
            lambda x: ndi.binary_hit_or_miss(x, **how),
            [],
        )
    mode, cval = draw(edges(n, dtype, sequence=False))
    how = {"footprint": footprint, "mode": mode, "cval": cval, "axes": axes}
    where = spread_over(footprint, chosen, ndim)
    turned = where[tuple(slice(None, None, -1) for _ in range(ndim))]
    erode = (where, (0,) * ndim, (mode,) * ndim)
    dilate = (turned, tuple(-int(s % 2 == 0) for s in where.shape), (mode,) * ndim)
    together = name.startswith("morphological")
    reach = [dilate, erode] if name == "black_tophat" else [erode, dilate]
    own = name != "morphological_gradient"

    def twin(x):
        if x.dtype == np.float16:
            # Every step is rounded to half precision.
            dilated = half_precision(lambda a: ndi.grey_dilation(a, **how), x)
            eroded = half_precision(lambda a: ndi.grey_erosion(a, **how), x)
            opened = half_precision(lambda a: ndi.grey_opening(a, **how), x)
            closed = half_precision(lambda a: ndi.grey_closing(a, **how), x)
            return {
                "white_tophat": lambda: x - opened,
                "black_tophat": lambda: closed - x,
                "morphological_gradient": lambda: dilated - eroded,
                "morphological_laplace": lambda: dilated + eroded - x - x,
            }[name]()
        return getattr(ndi, name)(x, **how)

    return Op(
        f"{name}({how})",
        lambda v: getattr(bv, name)(v, **how),
        twin,
        reach,
        together=together,
        own=own,
    )
