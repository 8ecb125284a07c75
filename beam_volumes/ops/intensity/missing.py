"""Missing slices, filled from the slices next to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Halo
from beam_volumes.graph.nodes import ConstantValue, Formula, FormulaValue, Value
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.ops.geometry.channels import each_channel
from beam_volumes.ops.intensity.slice_contrast import across, others_of
from beam_volumes.ops.measure import statistics
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import constant_in, stage_in
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.stage import Block, Stage


@dataclass(frozen=True, eq=False)
class FillSlices(Stage):
    """Slices from two slices; a lazy array has their positions and the weight of the second."""

    axis: int
    before: int
    after: int

    @property
    def halos(self) -> tuple[Halo, ...]:
        reach = [(0, 0)] * 3
        reach[self.axis] = self.before, self.after
        return ((reach[0], reach[1], reach[2]),)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 64 * rows * cols + 64 * (rows + cols)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        source, axis = inputs[0], self.axis
        first = (0, y0, 0)[axis]
        size = (out.depth, y1 - y0, out.cols)[axis]
        start = out.start[axis] + first
        low, high, weight = np.asarray(values[0])[:, start : start + size]
        low, high = (np.int64(p) - out.start[axis] + self.before for p in (low, high))
        for k in range(out.depth):
            to = out.slice(k, y0, y1)
            if axis == 0:
                a, b = (source.slice(int(p[k]), y0, y1) for p in (low, high))
                if weight[k]:
                    _blend(a, b, weight[k], to)
                else:
                    to[...] = a
                continue
            lines = source.slice(k) if axis == 1 else source.slice(k, y0, y1).T
            to = to if axis == 1 else to.T
            to[...] = lines[low]
            (between,) = np.nonzero(weight)
            for i in between:
                _blend(lines[low[i]], lines[high[i]], weight[i], to[i])


def _blend(a: np.ndarray, b: np.ndarray, weight: float, to: np.ndarray) -> None:
    """Write the weighted mean of voxels, computed in float64 and rounded once."""
    if to.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            made = a * np.float64(1 - weight) + b * np.float64(weight)
            made = np.where(a == b, a, made)
            made[np.isnan(made)] = np.nan
            to[...] = made
        return
    made = np.rint(a * np.float64(1 - weight) + b * np.float64(weight))
    if to.dtype.kind in "iu":
        top = float(np.iinfo(to.dtype).max)
        if int(top) > np.iinfo(to.dtype).max:  # float64 has no such number
            top = float(np.nextafter(top, 0))
        made = np.minimum(made, top)
    to[...] = np.where(a == b, a, made.astype(to.dtype))


@dataclass(frozen=True, eq=False)
class Sources(Formula):
    """Numbers for `FillSlices` from a flag of each slice."""

    linear: bool
    max_gap: int

    def evaluate(self, *arguments: Any) -> Any:
        flags = np.asarray(arguments[0], bool)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
        for start, stop in edges.reshape(-1, 2):
            if stop - start > self.max_gap and stop - start < flags.size:
                raise ValueError(
                    f"{self.name}: the {stop - start} slices from {start} are missing; give "
                    f"max_gap={stop - start} or more, which needs more memory"
                )
        return sources_of(flags, self.linear, self.name)


def sources_of(flags: np.ndarray, linear: bool, name: str) -> np.ndarray:
    """Find two valid slices for each slice, and the weight of the second."""
    n = flags.size
    (valid,) = np.nonzero(~flags)
    if not valid.size:
        raise ValueError(f"{name}: all {n} slices are missing; at least one must be valid")
    at = np.arange(n)
    after = np.searchsorted(valid, at)
    high = valid[np.minimum(after, valid.size - 1)]
    low = np.where(flags, valid[np.maximum(after - 1, 0)], at)
    if linear:
        weight = (at - low) / np.maximum(high - low, 1)
        inside = (low < at) & (at < high)
        low = np.where((low > at) | ~flags, high, low)
        return np.stack([low, np.where(inside, high, low), np.where(inside, weight, 0.0)])
    nearest = np.where(np.abs(high - at) < np.abs(at - low), high, low)
    return np.stack([nearest, nearest, np.zeros(n)])


@documented
def fill_missing(
    volume: Volume,
    missing: int | Sequence[int] | Sequence[bool] | None = None,
    method: str = "nearest",
    axis: int | str = "z",
    *,
    nodata: float | None = None,
    max_gap: int = 8,
) -> Volume:
    """Fill missing slices from the nearest valid slices.

    Use it for lost or damaged sections of a stack. Other slices do not change.

    Parameters
    ----------
    %(volume)s
    missing : int, sequence of int or sequence of bool, optional
        The positions of missing slices along the axis, or a bool for each slice. Negative positions
        count from the end.
    method : {"nearest", "linear"}, default: "nearest"
        ``"nearest"`` copies the nearest valid slice, and of two equally near slices the earlier
        one. ``"linear"`` interpolates between the valid slices before and after a gap. Gaps at an
        end of the axis always get the nearest valid slice. Use ``"nearest"`` for labels.
    axis : int or str, default: "z"
        The axis across slices, a number or name.
    nodata : number, optional
        Detects missing slices instead of ``missing``: all their voxels have this value, which may
        be NaN. Slices are detected in each channel and time point.
    max_gap : int, default: 8
        With ``nodata``, the largest number of consecutive missing slices.

    Returns
    -------
    Volume
        A volume of the same dtype. Interpolated integers are rounded half to even.

    Raises
    ------
    ValueError
        If a position or the axis does not exist, the volume has only one axis, all slices are
        missing, or a parameter is out of range. With ``nodata``, on computation, if all slices or
        more than ``max_gap`` consecutive slices are missing.
    TypeError
        If ``volume`` is neither a volume nor an array, or not exactly one of ``missing`` and
        ``nodata`` is given.

    See Also
    --------
    normalize_slices : gives all slices the same contrast.
    register_slices : aligns the slices of a stack.

    Notes
    -----
    One sweep, or two with ``nodata``. The halo is the distance to the valid slices, which is at
    most the longest gap, or ``max_gap`` with ``nodata``. Means of two slices are computed in
    float64 and rounded once.

    References
    ----------
    The weights of ``"linear"`` are those of `numpy.interp`.

    Examples
    --------
    >>> stack = bv.open(np.array([[[10, 20]], [[0, 0]], [[0, 0]], [[40, 20]]], "u1"))
    >>> np.asarray(bv.fill_missing(stack, [1, 2], "linear"))[:, 0]
    array([[10, 20],
           [20, 20],
           [30, 20],
           [40, 20]], dtype=uint8)
    >>> np.asarray(bv.fill_missing(stack, nodata=0))[:, 0, 0]
    array([10, 10, 40, 40], dtype=uint8)
    """
    name = "fill_missing"
    volume = as_volume(volume)
    along = across(volume, axis, name)
    if method not in ("nearest", "linear"):
        raise ValueError(f'{name}: method={method!r}; use "nearest" or "linear"')
    if (missing is None) == (nodata is None):
        raise TypeError(f"{name}: give missing= or nodata=, one of them")
    gap, linear = par.whole_number(max_gap, "max_gap", name), method == "linear"
    n = volume.nodes[0].shape[along]
    if nodata is None:
        flags = _flags(missing, n, name)
        if not flags.any():
            return volume
        sources = sources_of(flags, linear, name)
        return _filled(volume, along, *_reach(sources), ConstantValue.of(sources))
    if not par.is_number(nodata):
        raise TypeError(f"{name}: nodata={nodata!r} is not a number")
    constant_in(volume.dtype, nodata, "nodata", name)
    value, reach = volume.dtype.type(nodata), min(gap, max(0, n - 1))

    def one(v: Volume) -> Volume:
        is_empty: Any = np.isnan(v) if value != value else v == value
        flags = statistics.all(is_empty, others_of(v, along))
        formula = Sources(name, linear, gap)
        numbers = FormulaValue.of(formula, (flags.value,), np.dtype(np.float64), (3, n))
        return _filled(v, along, reach, reach, numbers)

    return each_channel(one, volume)


def _filled(volume: Volume, axis: int, before: int, after: int, sources: Value) -> Volume:
    stage = FillSlices("fill_missing", kernel_dtype(volume.dtype), axis, before, after)
    return stage_in(volume.dtype, volume, stage, sources)


def _reach(sources: np.ndarray) -> tuple[int, int]:
    """Return the largest distances to the slices before and after."""
    away = sources[:2] - np.arange(sources.shape[1])
    return int(max(0, -away.min())), int(max(0, away.max()))


def _flags(missing: Any, n: int, name: str) -> np.ndarray:
    """Return whether each slice is missing."""
    given = np.atleast_1d(np.asarray(missing))
    if given.dtype.kind == "b":
        if given.shape != (n,):
            raise ValueError(
                f"{name}: missing has the shape {given.shape}; give one bool for each of {n} slices"
            )
        return given
    flags = np.zeros(n, bool)
    if not given.size:
        return flags
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise TypeError(
            f"{name}: missing={missing!r}; give positions of slices, or a bool for each slice"
        )
    for i in given.tolist():
        if not -n <= i < n:
            raise ValueError(f"{name}: missing={missing!r}: slice {i} is not one of {n} slices")
        flags[i] = True
    return flags
