"""Statistics of the values around each voxel, named as in scikit-image's filters.rank."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.elementary.functions import apply
from beam_volumes.kernels.filters import local_rank as kernels
from beam_volumes.ops.filters.rank import maximum_filter, minimum_filter
from beam_volumes.ops.filters.stages import Neighbourhood
from beam_volumes.ops.parameters.building import stage_in
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.parameters.neighbourhood import Footprint
from beam_volumes.ops.pointwise import where
from beam_volumes.sweep.stage import Block, Padding

#: Voxels of a footprint: sums of counts and logarithms fit 64 bits.
_MAX_VOXELS = 1 << 20


@dataclass(frozen=True, eq=False)
class Entropy(Neighbourhood):
    """The entropy of the values under a footprint, in a volume of a shape."""

    runs: np.ndarray
    bins: int
    voxels: int
    shape: Triple

    shift_invariant = False
    kernel = staticmethod(kernels.entropy)

    @property
    def cost(self) -> float:
        return 10.0 + 4.0 * len(self.runs)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return super().scratch_bytes(rows, cols, depth) + self.table_bytes

    def parameters(self) -> tuple[Any, ...]:
        return self.runs, self.before, self.shape, self.bins, self.voxels

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        footprint = self.runs, self.before, self.shape, self.bins
        return inputs[0], out, y0, y1, out.cols, *footprint, out.start, *self.more()

    def more(self) -> tuple[Any, ...]:
        """Return the last arguments of the kernel, among them a table of logarithms."""
        return _logarithms(self.voxels)

    @property
    def table_bytes(self) -> int:
        """Bytes to compute the table."""
        return 64 * self.voxels


@dataclass(frozen=True, eq=False)
class LocalRank(Entropy):
    """A statistic of the values under a footprint, from the same histogram."""

    statistic: str
    has_centre: bool

    kernel = staticmethod(kernels.local_rank)

    @property
    def cost(self) -> float:
        return 50.0 + 4.0 * len(self.runs)

    @property
    def table_bytes(self) -> int:
        return 40 * self.bins

    def parameters(self) -> tuple[Any, ...]:
        return (*super().parameters(), self.statistic, self.has_centre)

    def more(self) -> tuple[Any, ...]:
        which = kernels.STATISTICS.index(self.statistic), int(self.has_centre)
        shift = (self.bins.bit_length() - 1) // 2
        # 62 bits for the sum of logarithms, which are below 16.
        scale = 2.0 ** (58 - self.voxels.bit_length())
        logs = _logs_of_values(self.bins, scale if self.statistic == "geometric_mean" else 0.0)
        return *which, shift, logs, scale


@functools.lru_cache(2)
def _logs_of_values(bins: int, scale: float) -> np.ndarray:
    """Return ``log(1 + value)`` times a scale as integers."""
    logs = np.empty(bins)
    apply("log1p", [np.arange(bins)], logs)
    return np.rint(logs * scale).astype(np.int64)


@functools.lru_cache(2)
def _logarithms(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``n * log2(n)`` as integers and ``log2(n)`` for n up to a count."""
    logs = np.empty(count + 1)
    apply("log2", [np.maximum(np.arange(count + 1), 1)], logs)
    return np.rint(np.arange(count + 1) * logs * 2.0**kernels.BITS).astype(np.int64), logs


@documented
def entropy(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute the entropy of the values around each voxel, a measure of texture.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: bool, uint8 or uint16.
    %(size)s
    %(footprint)s
    %(axes)s

    Returns
    -------
    Volume
        A float32 volume: the number of bits needed to encode the value of a voxel under the
        footprint, 0 where all are equal.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If not exactly one of
        ``size`` and ``footprint`` is given.
    TypeError
        If ``volume`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    autolevel : stretches the contrast around each voxel.
    features : other measures of texture.

    Notes
    -----
    Voxels beyond the edges are ignored. The result equals scikit-image's, which is float64. The
    time grows with the number of rows of the footprint, not columns.

    %(halo)s

    References
    ----------
    `skimage.filters.rank.entropy`.

    Examples
    --------
    >>> v = bv.open(np.array([[5, 5, 5, 1, 2, 3]], "u1"))
    >>> np.asarray(bv.entropy(v, (1, 3))).round(2)
    array([[0.  , 0.  , 0.92, 1.58, 1.58, 1.  ]], dtype=float32)
    """
    volume = as_volume(volume)
    source = volume.astype(np.uint8) if volume.dtype.kind == "b" else volume
    around = Footprint.of(volume, "entropy", size, footprint, 0, axes, "reflect", 0.0)
    dtype = np.dtype(np.float32)
    return stage_in(dtype, source, Entropy(*_fields(source, around, dtype)))


def _fields(source: Volume, around: Footprint, dtype: np.dtype) -> tuple[Any, ...]:
    """Check the volume and the footprint; return the fields of `Entropy`."""
    if source.dtype.kind != "u" or source.dtype.itemsize > 2:
        raise TypeError(
            f"{around.name}: a volume of {source.dtype}; convert it to uint8 or uint16, such as by "
            "rescale_intensity"
        )
    voxels = len(around.offsets)
    if voxels > _MAX_VOXELS:
        raise ValueError(
            f"{around.name}: a footprint of {voxels:,} voxels; up to {_MAX_VOXELS:,} are possible"
        )
    fields = around.fields(dtype, Padding(("nearest",) * 3))
    bins = 1 << 8 * source.dtype.itemsize
    return *fields, _runs(around.offsets), bins, voxels, source.nodes[0].shape


def _runs(offsets: np.ndarray) -> np.ndarray:
    """Return the runs of a footprint along x: slice, row, first column, and the one after the last."""
    begins = np.ones(len(offsets), bool)
    begins[1:] = (np.diff(offsets, axis=0) != (0, 0, 1)).any(axis=1)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(offsets)) - 1
    return np.column_stack([offsets[first], offsets[last, 2] + 1]).astype(np.int64)


@documented_like(entropy)
def local_rank(
    volume: Volume,
    statistic: str,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Compute a statistic of the values around each voxel from their histogram.

    Use it for local thresholds, majorities and means that ignore everything beyond the edges.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: uint8 or uint16.
    statistic : str
        What to compute of the values under the footprint. The names are from
        `skimage.filters.rank`:

        - ``"mean"``, ``"median"``, ``"minimum"``, ``"maximum"`` and ``"sum"``; means are rounded
          down.
        - ``"geometric_mean"``: of the values plus 1, minus 1, rounded to the nearest integer.
        - ``"modal"``: the most frequent value, and of several the lowest.
        - ``"gradient"``: the maximum minus the minimum.
        - ``"pop"``: the number of voxels under the footprint.
        - ``"threshold"``: 1 where the voxel is above the mean, otherwise 0.
        - ``"otsu"``: the threshold by Otsu's method.
        - ``"subtract_mean"``: half of the voxel minus the mean, plus 127 (32767 for uint16).
        - ``"equalize"``: the fraction of values up to the voxel's, times the largest number
          of the dtype.
        - ``"noise_filter"``: the distance to the nearest value of a neighbour. It is 0 where a
          neighbour has the same value. The values 0 and 255 (65535 for uint16) count as neighbours.
    %(size)s
    %(footprint)s
    %(axes)s

    Returns
    -------
    Volume
        A volume of the input's dtype. Sums and numbers of voxels wrap around in this dtype: convert
        the volume to uint16 for larger ones. If no voxel of the volume is under the footprint, the
        result is 0.

    See Also
    --------
    entropy : the number of bits of the values.
    autolevel : stretches the contrast around each voxel.
    median_filter : a median that extends the volume beyond its edges.
    rank_filter : selects a value by its rank.

    Notes
    -----
    Voxels beyond the edges are ignored. The result equals scikit-image's. For uint16,
    ``"equalize"``, ``"noise_filter"`` and ``"subtract_mean"`` of scikit-image use the maximum of
    the image instead of 65535. The time grows with the number of rows of the footprint, not
    columns.

    %(halo)s

    References
    ----------
    `skimage.filters.rank`.

    Examples
    --------
    Replace each voxel with the most frequent class around it:

    >>> classes = bv.open(np.array([[5, 5, 1, 5, 2, 2]], "u1"))
    >>> np.asarray(bv.local_rank(classes, "modal", (1, 3)))
    array([[5, 5, 5, 1, 2, 2]], dtype=uint8)
    """
    name = "local_rank"
    volume = as_volume(volume)
    if statistic not in kernels.STATISTICS:
        names = ", ".join(map(repr, kernels.STATISTICS))
        raise ValueError(f"{name}: statistic={statistic!r}; use one of {names}")
    around = Footprint.of(volume, name, size, footprint, 0, axes, "reflect", 0.0)
    centred = bool(around.inside[around.before])
    fields = *_fields(volume, around, volume.dtype), statistic, centred
    stage = LocalRank(*fields)
    return stage_in(volume.dtype, volume, stage)


@documented_like(entropy)
def autolevel(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Stretch the contrast locally: the minimum around a voxel becomes 0, the maximum full scale.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: unsigned integers of up to 32 bits, or floats.

    Returns
    -------
    Volume
        A volume of the input's dtype; 0 where all voxels of the neighbourhood are equal. Floats
        range from 0 to 1.

    See Also
    --------
    enhance_contrast : selects the minimum or the maximum.
    equalize_adapthist : equalizes local histograms.

    Notes
    -----
    Voxels beyond the edges are ignored. For uint8, the result equals scikit-image's; it scales
    uint16 to the maximum of the image instead.

    %(halo)s

    References
    ----------
    `skimage.filters.rank.autolevel`.

    Examples
    --------
    >>> v = bv.open(np.array([[5, 5, 5, 1, 2, 3]], "u1"))
    >>> np.asarray(bv.autolevel(v, (1, 3)))
    array([[  0,   0, 255,   0, 127, 255]], dtype=uint8)
    """
    volume = as_volume(volume)
    dtype = volume.dtype
    if dtype.kind not in "uf" or (dtype.kind == "u" and dtype.itemsize > 4):
        raise TypeError(
            f"autolevel: a volume of {dtype}; convert it to uint8 or uint16, or to floats"
        )
    low, high = _extremes(volume, "autolevel", size, footprint, axes)
    if dtype.kind == "f":
        span = apply_ufunc("subtract", high, low)
        level = apply_ufunc("divide", apply_ufunc("subtract", volume, low), span)
        return where(apply_ufunc("equal", span, 0), dtype.type(0), level)
    wide = np.uint64
    above = apply_ufunc("subtract", volume, low).astype(wide)
    span = apply_ufunc("maximum", apply_ufunc("subtract", high, low), dtype.type(1)).astype(wide)
    scaled = apply_ufunc("multiply", above, wide(np.iinfo(dtype).max))
    return apply_ufunc("floor_divide", scaled, span).astype(dtype)


@documented_like(autolevel)
def enhance_contrast(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Replace each voxel with the minimum or maximum of its neighbourhood, whichever is closer.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes: unsigned integers or floats.

    Returns
    -------
    Volume
        A volume of the input's dtype: the minimum if both are equally close.

    See Also
    --------
    autolevel : stretches the contrast.
    unsharp_mask : sharpens edges.

    Notes
    -----
    Voxels beyond the edges are ignored. The result equals scikit-image's.

    %(halo)s

    References
    ----------
    `skimage.filters.rank.enhance_contrast`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3, 7, 8, 9]], "u1"))
    >>> np.asarray(bv.enhance_contrast(v, (1, 3)))
    array([[1, 1, 2, 8, 7, 9]], dtype=uint8)
    """
    volume = as_volume(volume)
    if volume.dtype.kind not in "uf":
        raise TypeError(
            f"enhance_contrast: a volume of {volume.dtype}; convert it to unsigned integers or floats"
        )
    low, high = _extremes(volume, "enhance_contrast", size, footprint, axes)
    above, below = apply_ufunc("subtract", volume, low), apply_ufunc("subtract", high, volume)
    return where(apply_ufunc("less", below, above), high, low)


def _extremes(
    volume: Volume, name: str, size: Any, footprint: Any, axes: Any
) -> tuple[Volume, Volume]:
    """Return the minimum and maximum around each voxel, without voxels beyond the edges."""
    dtype = volume.dtype
    around = Footprint.of(volume, name, size, footprint, 0, axes, "reflect", 0.0)
    if not around.inside[around.before]:
        raise ValueError(f"{name}: footprint={footprint!r} does not contain its centre")
    ends = (-np.inf, np.inf) if dtype.kind == "f" else (0, int(np.iinfo(dtype).max))
    how: dict[str, Any] = {"mode": "constant", "axes": axes}
    low = minimum_filter(volume, size, footprint, cval=ends[1], **how)
    high = maximum_filter(volume, size, footprint, cval=ends[0], **how)
    return low, high
