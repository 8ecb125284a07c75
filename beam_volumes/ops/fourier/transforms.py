"""Fourier transforms of whole volumes, line by line, named as in numpy, and filters of frequencies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import fft

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.nesting import calling
from beam_volumes.graph.nodes import CropNode, Node, StageNode, ViewNode
from beam_volumes.graph.stages import interleaved_dtype, separated
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.elementary.angles import cos_value, sin_value
from beam_volumes.kernels.elementary.exp_log import exp_value, few
from beam_volumes.kernels.elementary.functions import apply
from beam_volumes.kernels.fourier.spectra import ellipsoid_spectrum
from beam_volumes.ops.filters.linear import accumulator
from beam_volumes.ops.fourier.blocks import check_finite
from beam_volumes.ops.geometry.joining import concatenate
from beam_volumes.ops.geometry.rearrange import pad
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import triple
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.storage.inputs.origins import extents_of
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.stage import Block, Stage, digest, identity

#: Names of the channels of complex numbers.
COMPLEX = ("real", "imag")
_NORMS = ("backward", "ortho", "forward")
#: z and x exchanged: lines along z are then lines along x.
_EXCHANGED: Triple = (2, 1, 0)


@dataclass(frozen=True, eq=False)
class Lines(Stage):
    """Fourier transforms of lines along y (``axis`` 1) or x (2), of real or complex numbers.

    If its dtype is real, the first half of each line is the spectrum of real numbers.
    """

    axis: int
    inverse: bool
    norm: str

    cost = 20.0

    @property
    def spans(self) -> tuple[int, ...]:
        return (self.axis,)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        # A slice, its transform, and the buffers of some lines.
        return 2 * rows * cols * self.dtype.itemsize + 512 * (rows if self.axis == 1 else cols)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        some = np.s_[:, y0:y1] if self.axis == 1 else np.s_[y0:y1]
        is_real = self.dtype.names is None
        part = self.dtype if is_real else self.dtype[0]
        function = fft.ifft if self.inverse else fft.fft
        for k in range(out.depth):
            real, *imag = (block.slice(k)[some] for block in inputs)
            check_finite(self.name, "line", real, *imag)
            line = np.empty(real.shape, np.result_type(part, np.complex64) if imag else part)
            line.real = real
            if imag:
                line.imag = imag[0]
            to = out.slice(k)[some]
            if is_real:
                n = line.shape[self.axis - 1]
                half = line.take(range(n // 2 + 1), self.axis - 1)
                to[...] = fft.irfft(half, n, self.axis - 1, self.norm, overwrite_x=True)
                continue
            made = function(line, axis=self.axis - 1, norm=self.norm, overwrite_x=True)
            to["0"], to["1"] = made.real, made.imag


def _times(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    """Multiply complex numbers. numpy's products of them depend on the processor."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


class Factor(Stage):
    """Complex numbers multiplied by a factor of each frequency."""

    cost = 6.0

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 6 * rows * cols * 8

    def factor(self, start: Triple, rows: int, cols: int) -> tuple[Any, Any]:
        """Return real and imaginary parts of the factors of a slice from a position."""
        raise NotImplementedError

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        z, y, x = out.start
        for k in range(out.depth):
            factor = self.factor((z + k, y + y0, x), y1 - y0, out.cols)
            own = inputs[0].slice(k, y0, y1), inputs[1].slice(k, y0, y1)
            to = out.slice(k, y0, y1)
            to["0"], to["1"] = _times(own, factor)


@dataclass(frozen=True, eq=False)
class FactorOfAxes(Factor):
    """Factors that are products of one number for each axis."""

    real: tuple[np.ndarray, np.ndarray, np.ndarray]
    imag: tuple[np.ndarray, np.ndarray, np.ndarray]

    def factor(self, start: Triple, rows: int, cols: int) -> tuple[Any, Any]:
        z, y, x = start
        at: Any = z, (slice(y, y + rows), None), slice(x, x + cols)
        first, second, third = (
            (real[i], imag[i]) for i, real, imag in zip(at, self.real, self.imag, strict=True)
        )
        return _times(third, _times(first, second))


@dataclass(frozen=True, eq=False)
class FactorOfFunction(Factor):
    """Factors that a user's function computes from frequencies."""

    function: Callable[..., Any]
    identity: str
    shape: Triple
    #: For each axis of the function's arguments, the axis of the blocks.
    axes: tuple[int, ...]

    @property
    def extents(self) -> tuple[Extent, ...]:
        found = extents_of(self.function, texts=False)
        return tuple(e for e in found if e.hidden_by is None)

    def token(self) -> str:
        return digest("FactorOfFunction", self.identity, str(self.dtype), self.shape, self.axes)

    def factor(self, start: Triple, rows: int, cols: int) -> tuple[Any, Any]:
        extents = 1, rows, cols
        frequencies = []
        for a in self.axes:
            sides = [-1 if b == a else 1 for b in range(3)]
            own = fft.fftfreq(self.shape[a])[start[a] : start[a] + extents[a]]
            frequencies.append(own.reshape(sides))
        with calling(self.name):
            found = np.asarray(self.function(*frequencies))
        if found.dtype.kind not in "buifc":
            raise TypeError(f"{self.name}: func returned {found.dtype}; it must return numbers")
        try:
            whole = np.broadcast_to(found, extents)[0]
        except ValueError:
            raise ValueError(
                f"{self.name}: func returned shape {found.shape} for frequencies that broadcast to {extents}"
            ) from None
        return whole.real.astype(np.float64), whole.imag.astype(np.float64)


@dataclass(frozen=True, eq=False)
class ButterworthFactor(Factor):
    """Factors of a Butterworth filter, which depend on the distance from frequency 0."""

    shape: Triple
    axes: tuple[int, ...]
    cutoff: float
    order: float
    high_pass: bool
    squared: bool

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 16 * rows * cols * 8

    def factor(self, start: Triple, rows: int, cols: int) -> tuple[Any, Any]:
        extents = 1, rows, cols
        squares = np.zeros(extents)
        for a in self.axes:
            own = fft.fftfreq(self.shape[a])[start[a] : start[a] + extents[a]] / self.cutoff
            squares += (own * own).reshape([-1 if b == a else 1 for b in range(3)])
        apply("power", [squares, self.order], squares)
        ratio = np.minimum(squares[0], 1e300)  # its product with a low-pass factor is finite
        found = 1 / (1 + ratio)
        if self.high_pass:
            found *= ratio
        return (found if self.squared else np.sqrt(found)), 0.0


def _along(
    nodes: Sequence[Node], name: str, axis: int, inverse: bool, norm: str, to_real: bool = False
) -> tuple[Node, ...]:
    """Transform lines along an axis of real or complex nodes; z and x are exchanged for z."""
    part = accumulator(nodes[0].dtype)
    stage = Lines(name, part if to_real else interleaved_dtype(part, 2), axis or 2, inverse, norm)
    node = StageNode.of(stage, tuple(nodes if axis else _exchanged(nodes)))
    made = (node,) if to_real else separated(node, name)
    return made if axis else _exchanged(made)


def _exchanged(nodes: Sequence[Node]) -> tuple[Node, ...]:
    return tuple(ViewNode.of(n, _EXCHANGED, (False, False, False)) for n in nodes)


def _transformed(volume: Volume, axes: Any, norm: str, name: str, inverse: bool) -> Volume:
    volume = as_volume(volume)
    chosen = _checked(volume, axes, norm, name)
    if volume.space.has_channels:
        _check_complex(volume, name)
    # Planes first, then lines along z, which are read from the stored planes.
    order, nodes = sorted(chosen, reverse=True), volume.nodes
    if name == "rfftn":
        last = chosen[-1]
        order.remove(last)
        box = [n // 2 + 1 if a == last else n for a, n in enumerate(volume.grid_shape)]
        half = Box.of_shape(triple(box))
        nodes = tuple(CropNode.of(n, half) for n in _along(nodes, name, last, inverse, norm))
    for axis in order:
        nodes = _along(nodes, name, axis, inverse, norm)
    return Volume(nodes, volume.space.with_leading(volume.space.times, True, COMPLEX))


def _checked(volume: Volume, axes: Any, norm: Any, name: str) -> list[int]:
    """Return the chosen axes, in their order."""
    if norm not in _NORMS:
        raise ValueError(f"{name}: norm={norm!r}; use one of {', '.join(map(repr, _NORMS))}")
    chosen = par.axes_of(volume, axes, name)
    if not chosen:
        raise ValueError(f"{name}: axes={axes!r} contains no axis")
    return chosen


def _check_complex(volume: Volume, name: str) -> None:
    if volume.space.channels != COMPLEX:
        raise ValueError(
            f"{name}: volume has the channels "
            f"{', '.join(volume.space.channels) or len(volume.nodes)}, but complex numbers need "
            "the channels real and imag, as from bv.fftn; select one channel with "
            "volume.sel(c=...)"
        )


@documented
def fftn(volume: Volume, axes: int | Sequence[int] | None = None, norm: str = "backward") -> Volume:
    """Compute the Fourier transform of a whole volume.

    Use it to look at spectra, or before `fourier_gaussian` and related functions. To filter
    frequencies, `fourier_filter` is simpler and faster.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Complex numbers are the channels ``real`` and
        ``imag``; real numbers have no channels.
    %(axes)s
    norm : {"backward", "ortho", "forward"}, default: "backward"
        The normalization, as in `numpy.fft.fftn`.

    Returns
    -------
    Volume
        A volume with the channels ``real`` and ``imag``, in numpy's order of frequencies. The dtype
        is float32 for bool, integers of up to 16 bits, float16 and float32; float64 for other
        dtypes. The result keeps the voxel size and origin of the volume for `ifftn`.

    Raises
    ------
    ValueError
        If the axis does not exist, the volume has other channels, or ``norm`` is not supported. On
        computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    ifftn : the inverse.
    fftshift : moves frequency 0 to the centre.
    fourier_filter : multiplies frequencies by a function.

    Notes
    -----
    Three sweeps. The first transforms lines along x and y, and the second lines along z; their
    results are stored for the run. The third restores the order of the volume. Without z, there is
    one sweep. If whole slices do not fit in memory, more results are stored. `scipy.fft` transforms
    whole lines, so the result does not depend on slabs.

    References
    ----------
    `numpy.fft.fftn`, `scipy.fft.fftn`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 0, 0, 0], [1, 0, 0, 0]], "u1"))
    >>> spectrum = bv.fftn(v)
    >>> np.asarray(spectrum.sel(c="real"))
    array([[2., 2., 2., 2.],
           [0., 0., 0., 0.]], dtype=float32)
    """
    return _transformed(volume, axes, norm, "fftn", False)


@documented_like(fftn)
def ifftn(
    volume: Volume, axes: int | Sequence[int] | None = None, norm: str = "backward"
) -> Volume:
    """Compute the inverse Fourier transform of a whole volume.

    See Also
    --------
    fftn : the transform.

    Notes
    -----
    It needs as many sweeps as `fftn`, and two more if its input is a computed spectrum of all axes.
    If the original volume is real, so is the result: use its channel ``real``.

    References
    ----------
    `numpy.fft.ifftn`, `scipy.fft.ifftn`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3], [4, 5, 6]], "u1"))
    >>> np.asarray(bv.ifftn(bv.fftn(v)).sel(c="real")).round(3)
    array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32)
    """
    return _transformed(volume, axes, norm, "ifftn", True)


@documented_like(fftn)
def rfftn(
    volume: Volume, axes: int | Sequence[int] | None = None, norm: str = "backward"
) -> Volume:
    """Compute half of the Fourier transform of a whole real volume.

    Use it instead of `fftn` to store half as much: the other half contains the conjugate numbers.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: real numbers without channels.
    %(axes)s
        The last of these is halved, from n to ``n // 2 + 1`` frequencies.
    norm : {"backward", "ortho", "forward"}, default: "backward"
        The normalization, as in `numpy.fft.rfftn`.

    See Also
    --------
    irfftn : the inverse.
    fftn : the whole spectrum, which `fftshift` and `fourier_gaussian` need.

    Notes
    -----
    It needs as many sweeps as `fftn`. `scipy.fft` transforms whole lines, so the result does not
    depend on slabs.

    References
    ----------
    `numpy.fft.rfftn`, `scipy.fft.rfftn`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 0, 0, 0], [1, 0, 0, 0]], "u1"))
    >>> np.asarray(bv.rfftn(v).sel(c="real"))
    array([[2., 2., 2.],
           [0., 0., 0.]], dtype=float32)
    """
    volume = as_volume(volume)
    if volume.space.has_channels:
        raise ValueError(
            "rfftn: volume has channels, but real numbers are needed; select one with volume.sel(c=...)"
        )
    return _transformed(volume, axes, norm, "rfftn", False)


@documented_like(fftn)
def irfftn(
    volume: Volume,
    shape: Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str = "backward",
) -> Volume:
    """Compute a real volume from half of its Fourier transform.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A spectrum, as from `rfftn`, with the channels ``real`` and ``imag``.
    shape : sequence of int, optional
        Shape of the result along ``axes``. By default, the last extent is even: twice the number of
        frequencies, minus 2.
    %(axes)s
        The last of these axes is halved.
    norm : {"backward", "ortho", "forward"}, default: "backward"
        The normalization, as in `numpy.fft.irfftn`.

    Returns
    -------
    Volume
        A volume without channels, of the input's dtype.

    Raises
    ------
    ValueError
        If the axis does not exist, the volume does not have the channels ``real`` and ``imag``, or
        ``shape`` does not fit. On computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    rfftn : the transform.

    Notes
    -----
    Two sweeps for a stored spectrum (one without z), and one more for a computed spectrum.

    References
    ----------
    `numpy.fft.irfftn`, with ``s`` for ``shape``; `scipy.fft.irfftn`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3], [4, 5, 6]], "u1"))
    >>> np.asarray(bv.irfftn(bv.rfftn(v), v.shape)).round(3)
    array([[1., 2., 3.],
           [4., 5., 6.]], dtype=float32)
    """
    volume, name = as_volume(volume), "irfftn"
    _check_complex(volume, name)
    *others, last = chosen = _checked(volume, axes, norm, name)
    grid = list(volume.grid_shape)
    wanted = [2 * n - 2 if a == last else n for a, n in enumerate(grid)]
    if shape is not None:
        given = par.whole_numbers(shape, chosen, 1, "shape", 1, name)
        wanted = [given[a] if a in chosen else n for a, n in enumerate(grid)]
    n = wanted[last]
    if n < 1 or [n // 2 + 1 if a == last else w for a, w in enumerate(wanted)] != grid:
        m = grid[last]
        raise ValueError(
            f"{name}: shape={shape!r} does not fit a spectrum of shape {volume.shape[1:]}; give "
            f"{' or '.join(str(k) for k in (2 * m - 2, 2 * m - 1) if k)} for the last of the axes, and the "
            "extent of the spectrum for the others"
        )
    nodes = volume.nodes
    # Lines along z of a stored spectrum are read in their order.
    for axis in sorted(others):
        nodes = _along(nodes, name, axis, True, norm)
    widths = [(0, n - grid[a] if a == last else 0) for a in volume.space.visible]
    whole = pad(Volume(nodes, volume.space), widths)
    nodes = _along(whole.nodes, name, last, True, norm, to_real=True)
    return Volume(nodes, volume.space.with_leading(volume.space.times, False, ()))


@documented
def fftshift(volume: Volume, axes: int | Sequence[int] | None = None) -> Volume:
    """Move frequency 0 to the centre of a spectrum.

    Parameters
    ----------
    %(volume)s
    %(axes)s

    Returns
    -------
    Volume
        A volume of the input's dtype, with its channels.

    Raises
    ------
    ValueError
        If the axis does not exist.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    ifftshift : the inverse.

    Notes
    -----
    Parts of the volume are exchanged, which needs no additional sweep for an opened volume.

    References
    ----------
    `numpy.fft.fftshift`.

    Examples
    --------
    >>> np.asarray(bv.fftshift(bv.open(np.array([[0, 1, 2, -2, -1]], "i1"))))
    array([[-2, -1,  0,  1,  2]], dtype=int8)
    """
    return _rolled(volume, axes, "fftshift", False)


@documented_like(fftshift)
def ifftshift(volume: Volume, axes: int | Sequence[int] | None = None) -> Volume:
    """Move frequency 0 from the centre of a spectrum to its first voxel.

    See Also
    --------
    fftshift : the inverse.

    Notes
    -----
    Parts of the volume are exchanged, which needs no additional sweep for an opened volume.

    References
    ----------
    `numpy.fft.ifftshift`.

    Examples
    --------
    >>> np.asarray(bv.ifftshift(bv.open(np.array([[-2, -1, 0, 1, 2]], "i1"))))
    array([[ 0,  1,  2, -2, -1]], dtype=int8)
    """
    return _rolled(volume, axes, "ifftshift", True)


def _rolled(volume: Volume, axes: Any, name: str, back: bool) -> Volume:
    volume = as_volume(volume)
    result, first = volume, volume.ndim - len(volume.space.visible)
    for axis in par.axes_of(volume, axes, name):
        at = first + volume.space.visible.index(axis)
        n = volume.shape[at]
        split = n // 2 if back else n - n // 2
        if 0 < split < n:
            tail, head = (
                result[(slice(None),) * at + (part,)] for part in (slice(split, n), slice(0, split))
            )
            result = concatenate([tail, head], at).with_space(volume)
    return result


@documented
def fourier_gaussian(volume: Volume, sigma: float | str | Sequence[float | str]) -> Volume:
    """Multiply a spectrum by the Fourier transform of a Gaussian.

    Parameters
    ----------
    volume : Volume
        A spectrum, as from `fftn`, with the channels ``real`` and ``imag``.
    %(sigma)s

    Returns
    -------
    Volume
        A spectrum of the input's dtype.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume does not
        have the channels ``real`` and ``imag``.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    fftn, ifftn : transform and inverse.
    gaussian_filter : smooths without a transform, with any extension beyond the edges.

    Notes
    -----
    %(pointwise)s

    The volume is treated as periodic. scipy's ``n`` is not needed, because spectra are complete.

    References
    ----------
    `scipy.ndimage.fourier_gaussian`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 8, 0, 0, 0]], "u1"))
    >>> smooth = bv.ifftn(bv.fourier_gaussian(bv.fftn(v), (0, 0.8)))
    >>> np.asarray(smooth.sel(c="real")).round(1)
    array([[0.1, 1.9, 3.9, 1.9, 0.1, 0.1]], dtype=float32)
    """
    name = "fourier_gaussian"
    v = as_volume(volume)
    _check_complex(v, name)
    lengths = _limited(par.lengths(v, sigma, v.space.visible, "sigma"), f"{name}: sigma={sigma!r}")

    def weights(frequency: np.ndarray, s: float) -> np.ndarray:
        angles = (2 * math.pi * s) * frequency
        return np.array(few(exp_value, (-0.5 * (angles * angles)).tolist()))

    return _of_axes(v, name, [_real(weights, s) for s in lengths])


@documented_like(fourier_gaussian)
def fourier_uniform(volume: Volume, size: float | Sequence[float]) -> Volume:
    """Multiply a spectrum by the Fourier transform of a box.

    Parameters
    ----------
    size : float or sequence of float
        Extent of the box in voxels; one value for all axes or one per axis.

    See Also
    --------
    fftn, ifftn : transform and inverse.
    uniform_filter : computes means without a transform, with any extension beyond the edges.

    Notes
    -----
    %(pointwise)s

    The volume is treated as periodic. scipy's ``n`` is not needed, because spectra are complete. A
    size of 0 changes nothing, as in `fourier_ellipsoid`; in scipy, it removes all frequencies
    except 0.

    References
    ----------
    `scipy.ndimage.fourier_uniform`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 9, 0, 0, 0]], "u1"))
    >>> smooth = bv.ifftn(bv.fourier_uniform(bv.fftn(v), (1, 3)))
    >>> np.asarray(smooth.sel(c="real")).round(1)
    array([[ 0.2,  2.8,  3.1,  2.8,  0.2, -0.1]], dtype=float32)
    """
    name = "fourier_uniform"
    v = as_volume(volume)
    _check_complex(v, name)
    sizes = _limited(par.lengths(v, size, v.space.visible, "size"), f"{name}: size={size!r}")

    def weights(frequency: np.ndarray, s: float) -> np.ndarray:
        angles = (math.pi * s) * frequency
        sines = np.array(few(sin_value, angles.tolist()))
        return np.divide(sines, angles, out=np.ones(len(angles)), where=angles != 0)

    return _of_axes(v, name, [_real(weights, s) for s in sizes])


@documented_like(fourier_gaussian)
def fourier_shift(volume: Volume, shift: float | Sequence[float]) -> Volume:
    """Shift a volume in Fourier space, including by fractions of a voxel.

    Parameters
    ----------
    shift : float or sequence of float
        The distance in voxels; one value for all axes or one per axis.

    See Also
    --------
    fftn, ifftn : transform and inverse.
    shift : interpolates between voxels.

    Notes
    -----
    %(pointwise)s

    Voxels that leave the volume on one side enter it on the opposite side. scipy's ``n`` is not
    needed, because spectra are complete.

    References
    ----------
    `scipy.ndimage.fourier_shift`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 9, 0, 0]], "u1"))
    >>> moved = bv.ifftn(bv.fourier_shift(bv.fftn(v), (0, 2)))
    >>> np.asarray(moved.sel(c="real")).round(1) + 0.0
    array([[0., 0., 0., 0., 9.]], dtype=float32)
    """
    name = "fourier_shift"
    v = as_volume(volume)
    _check_complex(v, name)
    distances = par.per_axis(shift, v.space.visible, 0.0, "shift", name)
    for distance in distances:
        if not (par.is_number(distance) and math.isfinite(distance)):
            raise ValueError(f"{name}: shift={shift!r}: {distance!r} is not a finite number")
    _limited(distances, f"{name}: shift={shift!r}")

    def turns(frequency: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
        angles = ((-2 * math.pi * distance) * frequency).tolist()
        return np.array(few(cos_value, angles)), np.array(few(sin_value, angles))

    return _of_axes(v, name, [partial(turns, distance=float(d)) for d in distances])


@documented_like(fourier_gaussian)
def fourier_ellipsoid(volume: Volume, size: float | Sequence[float]) -> Volume:
    """Multiply a spectrum by the Fourier transform of an ellipsoid.

    Parameters
    ----------
    size : float or sequence of float
        Diameters of the ellipsoid in voxels; one value for all axes or one per axis.

    See Also
    --------
    fftn, ifftn : transform and inverse.
    fourier_uniform : the transform of a box.

    Notes
    -----
    %(pointwise)s

    The volume is treated as periodic. scipy's ``n`` is not needed, because spectra are complete.

    References
    ----------
    `scipy.ndimage.fourier_ellipsoid`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 0, 0], [0, 0, 9, 0], [0, 0, 0, 0]], "u1"))
    >>> smooth = bv.ifftn(bv.fourier_ellipsoid(bv.fftn(v), 2))
    >>> np.asarray(smooth.sel(c="real")).round(1)
    array([[-0.1,  0.2,  1. ,  0.2],
           [-0.4,  1.4,  3.9,  1.4],
           [-0.1,  0.2,  1. ,  0.2]], dtype=float32)
    """
    name = "fourier_ellipsoid"
    v = as_volume(volume)
    _check_complex(v, name)
    axes = v.space.visible
    sizes = _limited(par.lengths(v, size, axes, "size"), f"{name}: size={size!r}")
    diameters = tuple(sizes[a] for a in axes)
    dtype = interleaved_dtype(accumulator(v.dtype), 2)
    function = partial(ellipsoid_spectrum, diameters)
    key = digest(name, diameters)
    stage = FactorOfFunction(name, dtype, function, key, triple(v.grid_shape), axes)
    return Volume(separated(StageNode.of(stage, v.nodes), name), v.space)


def _limited(lengths: Sequence[float], what: str) -> Sequence[float]:
    for length in lengths:
        par.not_too_long(abs(length), what)
    return lengths


def _real(weights: Callable[[np.ndarray, float], np.ndarray], number: float) -> Any:
    """Return a function of frequencies to real factors, for one axis."""

    def factors(frequency: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = weights(frequency, number) if number else np.ones(len(frequency))
        return found, np.zeros(len(frequency))

    return factors


def _of_axes(volume: Volume, name: str, factors: Sequence[Any]) -> Volume:
    """Multiply a spectrum by factors of each axis, which are functions of its frequencies."""
    found = [
        function(fft.fftfreq(max(1, n))[:n])
        for function, n in zip(factors, volume.grid_shape, strict=True)
    ]
    real, imag = (tuple(f[i] for f in found) for i in range(2))
    dtype = interleaved_dtype(accumulator(volume.dtype), 2)
    stage = FactorOfAxes(name, dtype, real, imag)  # type: ignore[arg-type]
    return Volume(separated(StageNode.of(stage, volume.nodes), name), volume.space)


@documented
def fourier_filter(
    volume: Volume,
    func: Callable[..., np.ndarray],
    *,
    axes: int | Sequence[int] | None = None,
    name: str | None = None,
    version: str | int | None = None,
) -> Volume:
    """Multiply the spectrum of a volume by a function of frequency.

    Use it to remove stripes, or to keep structures in a range of sizes.

    Parameters
    ----------
    %(volume)s
        Each channel is filtered separately.
    func : callable
        A function of one array of frequencies for each axis, in the order of ``axes``, in cycles
        per voxel from -0.5 to 0.5. The arrays broadcast against each other. The function returns
        factors: real or complex numbers that broadcast with the arrays. For real results, opposite
        frequencies need conjugate factors; imaginary parts of the result are dropped. Several
        threads call the function.
    axes : int or sequence of int, optional
        Axes to transform, counted from 0, or backwards from -1; all axes by default. ``axes=(1,
        2)`` filters slice by slice.
    %(name_and_version)s

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    ValueError
        If the axis does not exist. On computation, if a voxel is NaN or infinite, or the shape of
        the factors is wrong.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``func`` is not callable.

    See Also
    --------
    fftn : computes the spectrum.
    difference_of_gaussians : keeps a band of sizes without a transform.

    Notes
    -----
    The volume is treated as periodic. Without z, there is one sweep if whole slices fit in memory,
    otherwise one more for each change between rows and columns. With z, there are three: spectra of
    slices are stored, filtered along z, and stored again. Each complex number needs 8 bytes for
    results in float32, and 16 bytes in float64. `scipy.fft` transforms whole lines, so the result
    does not depend on slabs.

    References
    ----------
    B. Münch et al., "Stripe and ring artifact removal with combined wavelet-Fourier filtering", Optics
    Express 17 (2009).

    Examples
    --------
    >>> rows = np.array([[5, 1], [5, 1], [6, 2], [6, 2]], "u1")  # the columns differ
    >>> def no_stripes(fy, fx):  # keep the mean
    ...     return (fy != 0) | (fx == 0)
    >>> np.asarray(bv.fourier_filter(rows, no_stripes, name="no stripes", version=1))
    array([[3., 3.],
           [3., 3.],
           [4., 4.],
           [4., 4.]], dtype=float32)
    """
    volume = as_volume(volume)
    what = "fourier_filter"
    if not callable(func):
        raise TypeError(f"{what}: func={func!r} is not callable")
    chosen = _checked(volume, axes, "backward", what)
    key = identity(name, version)
    dtype = interleaved_dtype(accumulator(volume.dtype), 2)
    return _filtered(
        volume,
        chosen,
        lambda shape, places: FactorOfFunction(what, dtype, func, key, shape, places),
    )


def _filtered(
    volume: Volume, chosen: Sequence[int], stage_of: Callable[[Triple, tuple[int, ...]], Factor]
) -> Volume:
    """Multiply the spectrum along some axes by the factors of a stage of a shape and its axes."""

    def filtered(node: Node) -> Node:
        # Where z is the last axis, factors are multiplied in the order of its lines.
        order = _EXCHANGED if 0 in chosen else (0, 1, 2)
        z, y, x = (node.shape[a] for a in order)
        stage = stage_of((z, y, x), tuple(order[a] for a in chosen))
        nodes: tuple[Node, ...] = (node,)
        for axis in sorted(chosen, reverse=True):
            nodes = _along(nodes, stage.name, axis, False, "backward")
        nodes = _exchanged(nodes) if 0 in chosen else nodes
        nodes = separated(StageNode.of(stage, nodes), stage.name)
        nodes = _exchanged(nodes) if 0 in chosen else nodes
        for axis in sorted(chosen):
            nodes = _along(nodes, stage.name, axis, True, "backward")
        return nodes[0]

    return volume.map_channels(filtered)


@documented_like(fourier_filter)
def butterworth(
    volume: Volume,
    cutoff_frequency_ratio: float = 0.005,
    high_pass: bool = True,
    order: float = 2.0,
    *,
    squared_butterworth: bool = True,
    npad: int = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Keep high or low frequencies of a volume with a Butterworth filter.

    Use it to subtract a slowly varying background, or to remove noise, without ringing at edges.

    Parameters
    ----------
    cutoff_frequency_ratio : float, default: 0.005
        The frequency at which the factor is 0.5, in cycles per voxel: above 0 and up to 0.5.
    high_pass : bool, default: True
        Whether to keep frequencies above the cutoff, instead of frequencies below it.
    order : float, default: 2.0
        The slope at the cutoff, above 0: a larger order separates frequencies more sharply.
    squared_butterworth : bool, default: True
        Whether factors are squares of the original filter. Otherwise the factor at the cutoff is
        ``1 / sqrt(2)``.
    npad : int, default: 0
        Number of voxels by which the volume is extended on each side of ``axes``, with its outer
        voxels. Use it against artifacts at the edges.

    Raises
    ------
    ValueError
        If a parameter is out of range or the axis does not exist. On computation, if a voxel is NaN
        or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    fourier_filter : multiplies frequencies by any function.
    difference_of_gaussians : keeps a band of sizes without a transform.

    Notes
    -----
    Without ``npad``, the volume is treated as periodic. Sweeps and memory are the same as for
    `fourier_filter`: one sweep without z, and three with z. Factors are computed in float64.

    References
    ----------
    `skimage.filters.butterworth`; S. Butterworth, "On the theory of filter amplifiers", Wireless
    Engineer 7 (1930).

    Examples
    --------
    >>> v = bv.open(np.array([[2, 4, 2, 4], [12, 14, 12, 14]], "u1"))  # alternating columns
    >>> np.asarray(bv.butterworth(v, 0.1, False, 9, axes=1)).round(2)
    array([[ 3.,  3.,  3.,  3.],
           [13., 13., 13., 13.]], dtype=float32)
    """
    volume, name = as_volume(volume), "butterworth"
    chosen = _checked(volume, axes, "backward", name)
    cutoff = par.positive(cutoff_frequency_ratio, "cutoff_frequency_ratio", name)
    if cutoff > 0.5:
        raise ValueError(
            f"{name}: cutoff_frequency_ratio={cutoff_frequency_ratio!r} is above 0.5, the largest "
            "frequency in cycles per voxel"
        )
    slope = par.positive(order, "order", name)
    width = par.whole_number(npad, "npad", name, 0)
    dtype = interleaved_dtype(accumulator(volume.dtype), 2)
    how = cutoff, slope, bool(high_pass), bool(squared_butterworth)

    def stage_of(shape: Triple, places: tuple[int, ...]) -> Factor:
        return ButterworthFactor(name, dtype, shape, places, *how)

    if not width or not volume.size:
        return _filtered(volume, chosen, stage_of)
    widths = [width * (a in chosen) for a in volume.space.visible]
    padded = pad(volume, [(w, w) for w in widths], "edge")
    extents = volume.shape[-len(widths) :]
    inside = ..., *(slice(w, w + n) for w, n in zip(widths, extents, strict=True))
    return _filtered(padded, chosen, stage_of)[inside]
