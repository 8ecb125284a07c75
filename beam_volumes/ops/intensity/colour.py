"""Colours and stains, named as in scikit-image's color."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from beam_volumes.graph.elementwise import checked_dtype
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.intensity import colour
from beam_volumes.kernels.scratch import Scratch
from beam_volumes.ops.filters.linear import accumulator
from beam_volumes.ops.geometry.channels import channels, stack
from beam_volumes.ops.parameters.building import kernel_input, stage_of_volumes
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.sweep.stage import Block, KernelStage

#: Rows are the red, green and blue absorbed by haematoxylin, eosin and DAB (Ruifrok and Johnston 2001).
RGB_FROM_HED = ((0.65, 0.70, 0.29), (0.07, 0.99, 0.11), (0.27, 0.57, 0.78))
#: ITU-R BT.709, as rounded in scikit-image.
LUMINANCE = (0.2125, 0.7154, 0.0721)


@dataclass(frozen=True, eq=False)
class OfThree(KernelStage):
    """One number from the three channels of each pixel: see `beam_volumes.kernels.intensity.colour`."""

    kind: int
    table: np.ndarray
    weights: tuple[float, float, float] = (0.0, 0.0, 0.0)
    scale: float = 1.0

    kernel = staticmethod(colour.of_three)

    @property
    def cost(self) -> float:
        slow = self.kind == colour.LIGHT or (self.kind == colour.DENSITIES and not self.table.size)
        return 25.0 if slow else 2.5

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        how = self.table, self.weights, self.kind, self.scale
        return colour.of_three.scratch(rows, cols, depth, self.dtype, *how)

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        return self.table.nbytes + 3 * 8

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        weights = np.array(self.weights, np.float64)
        return (*inputs, out, y0, y1, out.cols, self.table, weights, self.kind, self.scale)


@documented
def rgb2hed(volume: Volume, *, dtype: Any = None) -> Volume:
    """Separate haematoxylin, eosin and DAB.

    Use it for brightfield slides, to measure the amount of each stain from the absorbed light.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels: red, green and blue. Integers range from 0 to the largest value of their
        dtype, floats from 0 to 1.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels haematoxylin, eosin and dab, 0 or more.

    Raises
    ------
    ValueError
        If the volume does not have three channels, or ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    separate_stains : supports other stains.
    hed2rgb : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. A chunk that contains all
    channels is decoded once. Logarithms of integers are looked up in a table. The result has the
    same bits on every machine.

    References
    ----------
    `skimage.color.rgb2hed`. A. C. Ruifrok and D. A. Johnston, "Quantification of histochemical
    staining by color deconvolution", Analytical and Quantitative Cytology and Histology 23, 2001.

    Examples
    --------
    >>> pixel = np.array([150, 60, 160], "u1").reshape(3, 1, 1, 1)
    >>> np.asarray(bv.rgb2hed(bv.open(pixel))).ravel().round(3)
    array([0.045, 0.064, 0.018], dtype=float32)
    """
    inverse = inverted(RGB_FROM_HED, "rgb2hed")
    return _separated("rgb2hed", volume, inverse, ("haematoxylin", "eosin", "dab"), dtype)


@documented_like(rgb2hed)
def hed2rgb(volume: Volume, *, dtype: Any = None) -> Volume:
    """Compute colours from haematoxylin, eosin and DAB.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels as from `rgb2hed`. Set two of them to 0 to see a single stain.

    Returns
    -------
    Volume
        The channels red, green and blue, from 0 to 1.

    See Also
    --------
    combine_stains : supports other stains.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `skimage.color.hed2rgb`.

    Examples
    --------
    >>> hed = bv.rgb2hed(bv.open(np.array([150, 60, 160], "u1").reshape(3, 1, 1, 1)))
    >>> (np.asarray(bv.hed2rgb(hed)).ravel() * 255).round()
    array([150.,  60., 160.], dtype=float32)
    """
    return _combined("hed2rgb", volume, RGB_FROM_HED, dtype)


@documented
def separate_stains(
    volume: Volume,
    matrix: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Separate the stains of a slide with a matrix.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        Three channels: red, green and blue. Integers range from 0 to the largest value of their
        dtype, floats from 0 to 1.
    matrix : array_like of 3 x 3
        A matrix that converts logarithms of red, green and blue to stains, like
        ``skimage.color.hdx_from_rgb``. This matrix is the inverse of the matrix with the stains'
        colours as rows.
    names : sequence of str, optional
        Names of the three stains.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        A channel for each stain, 0 or more.

    Raises
    ------
    ValueError
        If the volume does not have three channels, there are not three different names, or the
        matrix is not 3 x 3 finite numbers. If ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    rgb2hed : separates haematoxylin, eosin and DAB.
    combine_stains : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `skimage.color.separate_stains`.

    Examples
    --------
    >>> matrix = np.linalg.inv([[0.65, 0.70, 0.29], [0.07, 0.99, 0.11], [0.27, 0.57, 0.78]])
    >>> slide = bv.open(np.full((3, 1, 4, 5), 255, "u1"))
    >>> float(np.asarray(bv.separate_stains(slide, matrix)).max())
    0.0
    """
    return _separated("separate_stains", volume, matrix, names, dtype)


@documented
def combine_stains(volume: Volume, matrix: ArrayLike, *, dtype: Any = None) -> Volume:
    """Compute colours from stains with a matrix.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        One channel for each of three stains, as from `separate_stains`.
    matrix : array_like of 3 x 3
        A matrix with a row for each stain: the red, green and blue that it absorbs, like
        ``skimage.color.rgb_from_hdx``.
    dtype : dtype, optional
        float32 or float64; by default float32 for integers, float16 and float32, otherwise float64.

    Returns
    -------
    Volume
        The channels red, green and blue, from 0 to 1.

    Raises
    ------
    ValueError
        If the volume does not have three channels, the matrix is not 3 x 3 finite numbers, or
        ``dtype`` is not float32 or float64.
    TypeError
        If ``volume`` is neither a volume nor an array, or has signed integers or integers of more
        than 16 bits.

    See Also
    --------
    separate_stains : the inverse.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `skimage.color.combine_stains`.

    Examples
    --------
    >>> none = bv.open(np.zeros((3, 1, 4, 5), "f4"))
    >>> float(np.asarray(bv.combine_stains(none, np.eye(3))).min())
    1.0
    """
    return _combined("combine_stains", volume, matrix, dtype)


@documented_like(rgb2hed)
def rgb2gray(volume: Volume, *, dtype: Any = None) -> Volume:
    """Compute the brightness of colours as 0.2125 red + 0.7154 green + 0.0721 blue.

    Returns
    -------
    Volume
        A volume without channels, from 0 to 1.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs.

    References
    ----------
    `skimage.color.rgb2gray`.

    Examples
    --------
    >>> np.asarray(bv.rgb2gray(bv.open(np.full((3, 1, 1, 2), 51, "u1"))))
    array([[[0.2, 0.2]]], dtype=float32)
    """
    (gray,) = _of_three("rgb2gray", volume, ((colour.SUM, LUMINANCE, 1.0),), dtype)
    return gray


@documented_like(rgb2hed)
def rgb2hsv(volume: Volume, *, dtype: Any = None) -> Volume:
    """Compute the hue, saturation and value of colours.

    Use the saturation to find tissue on glass: ``s > bv.threshold_otsu(s)`` with ``s =
    bv.rgb2hsv(slide)[1]``.

    Returns
    -------
    Volume
        The channels hue, saturation and value, from 0 to 1; all 0 if a channel is NaN.

    Notes
    -----
    Pointwise: no halo, and no sweeps beyond those for the inputs. Channels that are not used are
    not computed.

    References
    ----------
    `skimage.color.rgb2hsv`.

    Examples
    --------
    >>> pixel = np.array([0.2, 0.4, 0.1], "f4").reshape(3, 1, 1, 1)
    >>> np.asarray(bv.rgb2hsv(bv.open(pixel))).ravel().round(3)
    array([0.278, 0.75 , 0.4  ], dtype=float32)
    """
    kinds = (colour.HUE, colour.SATURATION, colour.VALUE)
    made = _of_three("rgb2hsv", volume, [(kind, (0.0,) * 3, 1.0) for kind in kinds], dtype)
    return stack(made, ("hue", "saturation", "value"))


def _separated(
    name: str, volume: Volume, matrix: Any, names: Sequence[str] | None, dtype: Any
) -> Volume:
    m, scale = _matrix(matrix, name), colour.log_least()
    wanted = [(colour.DENSITIES, tuple(m[:, k]), scale) for k in range(3)]
    return stack(_of_three(name, volume, wanted, dtype), names)


def _combined(name: str, volume: Volume, matrix: Any, dtype: Any) -> Volume:
    m, scale = _matrix(matrix, name), -colour.log_least()
    wanted = [(colour.LIGHT, tuple(m[:, k]), scale) for k in range(3)]
    return stack(_of_three(name, volume, wanted, dtype), ("red", "green", "blue"))


def _of_three(name: str, volume: Volume, wanted: Sequence[Any], dtype: Any) -> tuple[Volume, ...]:
    """Make one volume from three channels for each kind, weights and scale."""
    three, result = three_channels(name, volume, dtype)
    source = three[0].dtype
    return tuple(
        stage_of_volumes(
            OfThree(name, result, kind, colour.table_of(source, kind), weights, scale), three
        )
        for kind, weights, scale in wanted
    )


def three_channels(name: str, volume: Volume, dtype: Any) -> tuple[tuple[Volume, ...], np.dtype]:
    """Return the three channels of a volume, and the dtype of the result."""
    volume = as_volume(volume)
    count = len(volume.nodes) if volume.space.has_channels else 1
    if count != 3:
        how = ": drop alpha with v[:3]" if count == 4 else ""
        raise ValueError(f"{name}: three channels are needed, but there are {count}{how}")
    if volume.dtype.kind == "i" or (volume.dtype.kind == "u" and volume.dtype.itemsize > 2):
        raise TypeError(
            f"{name}: {volume.dtype} has no known maximum; cast it to uint8 or uint16, or scale "
            "it to floats from 0 to 1"
        )
    result = accumulator(volume.dtype) if dtype is None else checked_dtype(dtype)
    if result not in (np.float32, np.float64):
        raise ValueError(f"{name}: dtype={dtype!r}; use float32 or float64")
    return channels(kernel_input(volume)), result


def _matrix(given: Any, name: str) -> np.ndarray:
    try:
        m = np.array(given, np.float64)
    except (TypeError, ValueError):
        m = np.empty(0)
    if m.shape != (3, 3) or not np.isfinite(m).all():
        raise ValueError(f"{name}: matrix={given!r}; give three rows of three finite numbers")
    return m


def inverted(matrix: Any, name: str) -> np.ndarray:
    """Invert 3 x 3 numbers exactly and round once, with the same result on every machine.

    >>> inverted(((2, 0, 0), (0, 4, 0), (0, 1, 1)), "stains").tolist()
    [[0.5, 0.0, 0.0], [0.0, 0.25, 0.0], [0.0, -0.25, 1.0]]
    """
    m = [[Fraction(x) for x in row] for row in matrix]

    def minor(i: int, j: int) -> Fraction:
        (a, b), (c, d) = ([m[r][s] for s in range(3) if s != j] for r in range(3) if r != i)
        return a * d - b * c

    whole = sum(m[0][j] * minor(0, j) * (-1) ** j for j in range(3))
    if not whole:
        raise ValueError(f"{name}: the matrix {matrix!r} has no inverse")
    inverse = [[float(minor(j, i) * (-1) ** (i + j) / whole) for j in range(3)] for i in range(3)]
    return np.array(inverse)
