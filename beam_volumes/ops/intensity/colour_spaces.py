"""Colours in CIE Lab and from hue, saturation and value, named as in scikit-image's color."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.elementary import functions
from beam_volumes.kernels.intensity import colour
from beam_volumes.ops.elementary import power
from beam_volumes.ops.geometry.channels import stack
from beam_volumes.ops.intensity.colour import OfThree, inverted, rgb2hed, three_channels
from beam_volumes.ops.parameters.building import stage_of_volumes
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.pointwise import clip, where

#: CIE X, Y and Z of linear red, green and blue (ITU-R BT.709), as rounded in scikit-image.
XYZ_FROM_RGB = (
    (0.412453, 0.357580, 0.180423),
    (0.212671, 0.715160, 0.072169),
    (0.019334, 0.119193, 0.950227),
)
#: X and Z of white by illuminant, for the observers 2, 10 and R; Y is 1.
_WHITE = {
    "A": ((1.098466069456375, 0.3558228003436005), (1.111420406956693, 0.3519978321919493), None),
    "B": ((0.9909274480248003, 0.8531327322886154), (0.9917777147717607, 0.8434930535866175), None),
    "C": ((0.980705971659919, 1.1822494939271255), (0.9728569189782166, 1.1614480488951577), None),
    "D50": (
        (0.9642119944211994, 0.8251882845188288),
        (0.9672062750333777, 0.8142801513128616),
        (0.9639501491621826, 0.8241280285499208),
    ),
    "D55": (
        (0.956797052643698, 0.9214805860173273),
        (0.9579665682254781, 0.9092525159847462),
        (0.9565317453467969, 0.9202554587037198),
    ),
    "D65": (
        (0.95047, 1.08883),
        (0.94809667673716, 1.0730513595166162),
        (0.9532057125493769, 1.0853843816469158),
    ),
    "D75": (
        (0.9497220898840717, 1.226393520724154),
        (0.9441713925645873, 1.2064272211720228),
        None,
    ),
    "E": ((1.0, 1.0), (1.0, 1.0), None),
}
_OBSERVERS = ("2", "10", "R")


@documented
def rgb2lab(
    volume: Volume, illuminant: str = "D65", observer: str = "2", *, dtype: Any = None
) -> Volume:
    """Compute the lightness and colour of sRGB colours in CIE Lab.

    Use it to compare colours: equal distances in Lab look about equally different.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels: red, green and blue. Integers range from 0 to the largest value of their
        dtype, floats from 0 to 1.
    illuminant : {"A", "B", "C", "D50", "D55", "D65", "D75", "E"}, default: "D65"
        The light that appears white, in capital or small letters.
    observer : {"2", "10", "R"}, default: "2"
        The angle of view in degrees. ``"R"`` has the values of R's ``convertColor``.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels lightness, a and b. Lightness is from 0 to 100. a is from green to red and b
        from blue to yellow, about -128 to 127. All are NaN if a channel is NaN.

    Raises
    ------
    ValueError
        If the volume does not have three channels, ``illuminant`` or ``observer`` is unknown, or
        ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    lab2rgb : the inverse.
    rgb2hsv : hue, saturation and value.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. Powers of integers are looked up
    in a table. Values are computed in float64 and rounded once, with the same bits on every
    machine. They agree with scikit-image's in float64 to about 1e-13.

    References
    ----------
    `skimage.color.rgb2lab`. IEC 61966-2-1 defines sRGB, and CIE 015 the space Lab.

    Examples
    --------
    >>> pixel = np.array([255, 0, 0], "u1").reshape(3, 1, 1, 1)
    >>> np.asarray(bv.rgb2lab(bv.open(pixel))).ravel().round(2)
    array([53.24, 80.09, 67.2 ], dtype=float32)
    """
    name = "rgb2lab"
    white = _white(illuminant, observer, name)
    three, result = three_channels(name, volume, dtype)
    source = three[0].dtype
    table = _linear_table(source)
    if source.kind == "f":
        three = tuple(_linear(v.astype(np.float64)) for v in three)
    x, y, z = (
        _curved(_weighted(name, row, three, table) / w)
        for row, w in zip(XYZ_FROM_RGB, white, strict=True)
    )
    made = (116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z))
    return stack([v.astype(result) for v in made], ("lightness", "a", "b"))


@documented_like(rgb2lab)
def lab2rgb(
    volume: Volume, illuminant: str = "D65", observer: str = "2", *, dtype: Any = None
) -> Volume:
    """Compute sRGB colours from CIE Lab.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        The channels lightness, a and b, as from `rgb2lab`. Integers are first divided by the
        largest value of their dtype, as in scikit-image.

    Returns
    -------
    Volume
        The channels red, green and blue, from 0 to 1. Colours outside of sRGB are clipped.
        All are NaN if a channel is NaN.

    See Also
    --------
    rgb2lab : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. Values are computed in float64
    and rounded once, with the same bits on every machine. They agree with scikit-image's in float64
    to about 1e-13.

    References
    ----------
    `skimage.color.lab2rgb`.

    Examples
    --------
    >>> lab = bv.rgb2lab(bv.open(np.array([150, 60, 160], "u1").reshape(3, 1, 1, 1)))
    >>> (np.asarray(bv.lab2rgb(lab)).ravel() * 255).round()
    array([150.,  60., 160.], dtype=float32)
    """
    name = "lab2rgb"
    white = _white(illuminant, observer, name)
    three, result = three_channels(name, volume, dtype)
    lightness, a, b = (_unit(v) for v in three)
    y = (lightness + 16.0) / 116.0
    curved = (a / 500.0 + y, y, np.maximum(y - b / 200.0, 0.0))
    xyz = tuple(_straight(v) * w for v, w in zip(curved, white, strict=True))
    made = (_gamma(_weighted(name, row, xyz)) for row in inverted(XYZ_FROM_RGB, name))
    return stack([v.astype(result) for v in made], ("red", "green", "blue"))


@documented_like(rgb2hed)
def hsv2rgb(volume: Volume, *, dtype: Any = None) -> Volume:
    """Compute colours from hue, saturation and value.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels as from `rgb2hsv`. Integers range from 0 to the largest value of their dtype,
        floats from 0 to 1. Hues outside of this range wrap around.

    Returns
    -------
    Volume
        The channels red, green and blue, from 0 to 1; all NaN if a channel is NaN or the hue is
        infinite.

    See Also
    --------
    rgb2hsv : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. Values are computed in float64
    and rounded once, with the same bits on every machine. They agree with scikit-image's in float64
    to about 1e-15.

    References
    ----------
    `skimage.color.hsv2rgb`.

    Examples
    --------
    >>> orange = np.array([1 / 12, 1, 1]).reshape(3, 1, 1, 1)
    >>> np.asarray(bv.hsv2rgb(bv.open(orange))).ravel()
    array([1. , 0.5, 0. ])
    """
    three, result = three_channels("hsv2rgb", volume, dtype)
    hue, saturation, value = (_unit(v) for v in three)
    made = []
    for start in (5.0, 3.0, 1.0):  # sixths of the circle at which red, green and blue begin
        at: Any = np.remainder(np.remainder(hue, 1.0) * 6.0 + start, 6.0)
        share = clip(np.minimum(at, 4.0 - at), 0.0, 1.0)
        made.append((value * (1.0 - saturation * share)).astype(result))
    return stack(made, ("red", "green", "blue"))


def _white(illuminant: Any, observer: Any, name: str) -> tuple[float, float, float]:
    """Return X, Y and Z of white."""
    light, angle = str(illuminant).upper(), str(observer).upper()
    if not isinstance(observer, str):
        raise TypeError(f"{name}: observer={observer!r}; use {', '.join(map(repr, _OBSERVERS))}")
    if light not in _WHITE:
        raise ValueError(f"{name}: illuminant={illuminant!r}; use {', '.join(_WHITE)}")
    if angle not in _OBSERVERS:
        raise ValueError(f"{name}: observer={observer!r}; use {', '.join(map(repr, _OBSERVERS))}")
    known = _WHITE[light]
    x, z = known[_OBSERVERS.index(angle)] or known[0]  # R equals 2 for the other lights
    return x, 1.0, z


def _unit(volume: Volume) -> Volume:
    """Convert voxels to float64, from 0 to 1 for integers."""
    wide = volume.astype(np.float64)
    return wide * (1.0 / np.iinfo(volume.dtype).max) if volume.dtype.kind == "u" else wide


def _weighted(
    name: str, weights: Any, three: tuple[Volume, ...], table: np.ndarray | None = None
) -> Volume:
    """Add three volumes with weights, after a lookup of integers in a table."""
    table = np.empty(0) if table is None else table
    red, green, blue = (float(w) for w in weights)
    return stage_of_volumes(
        OfThree(name, np.dtype("f8"), colour.SUM, table, (red, green, blue)), three
    )


@lru_cache(maxsize=4)
def _linear_table(dtype: np.dtype) -> np.ndarray:
    """Compute the light of each value of an integer dtype; empty for floats."""
    values = colour.table_of(dtype, colour.SUM)
    made = np.empty_like(values)
    functions.apply("power", [(values + 0.055) / 1.055, 2.4], made)
    return np.where(values > 0.04045, made, values / 12.92)


def _linear(v: Volume) -> Volume:
    """Compute the light of sRGB colours."""
    return where(v > 0.04045, power((v + 0.055) / 1.055, 2.4), v / 12.92)


def _gamma(v: Volume) -> Volume:
    """Invert `_linear`, from 0 to 1."""
    made = where(v > 0.0031308, 1.055 * power(v, 1 / 2.4) - 0.055, v * 12.92)
    return clip(made, 0.0, 1.0)


def _curved(v: Volume) -> Volume:
    """Compute Lab's cube root, with a straight line near 0."""
    return where(v > 0.008856, power(v, 1 / 3), 7.787 * v + 16.0 / 116.0)


def _straight(v: Volume) -> Volume:
    """Invert `_curved`."""
    return where(v > 0.2068966, v * v * v, (v - 16.0 / 116.0) / 7.787)
