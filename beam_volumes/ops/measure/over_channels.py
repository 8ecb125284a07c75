"""Reductions over the channels of each voxel, to volumes without channels.

A voxel's channels are a line, like lines along axes of space. So each block of rows is reduced like lines in
`beam_volumes.ops.measure.folds_along`, with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.arithmetic import check_alike
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.measure import folds
from beam_volumes.ops.measure.folds_along import Along, MomentsAlong, along
from beam_volumes.ops.measure.percentile_formulas import percentile_dtype
from beam_volumes.ops.measure.percentiles_along import GatheredAlong
from beam_volumes.ops.measure.rounding import PairSum
from beam_volumes.ops.parameters.building import first_channel
from beam_volumes.sweep.reduction import Slices
from beam_volumes.sweep.stage import Block, Stage

#: Voxels of the result that are computed at a time: states of exact sums need far more memory.
_CELLS = 1 << 12
#: Maximum channels for sums as pairs of float64.
_MAX_ADDED = 1 << 20
#: Lines are along z of a block with a slice for each channel.
_KEPT = (False, True, True)


@dataclass(frozen=True, eq=False)
class OverChannels(Stage):
    """A reduction of the channels of each voxel.

    Inputs are the channels, then a mask for all of them, one for each, or none.
    """

    whole: folds.Fold  #: The reduction, as for a whole volume.
    channels: int

    compiled = True

    def _lines(self, rows: int, cols: int) -> Along:
        """Return the reduction for a number of lines."""
        shape: Triple = (self.channels, rows, cols)
        if isinstance(self.whole, folds.RadixCounts):
            return GatheredAlong.of(
                self.whole.source, self.whole.q, self.whole.nan, shape, _KEPT, (1, 2)
            )
        lines = along(self.whole, shape, _KEPT, (1, 2))
        # `scratch_bytes` has memory for floats of any size.
        return replace(lines, spare_bytes=None) if isinstance(lines, MomentsAlong) else lines

    @property
    def _adds_narrow_floats(self) -> bool:
        """Whether sums are floats that one float64 usually holds exactly."""
        source = self.whole.source
        return (
            isinstance(self.whole, folds.Sum | folds.Mean)
            and source.kind == "f"
            and source.itemsize <= 4
        )

    @property
    def _adds_wide_floats(self) -> bool:
        """Whether sums are floats that two float64 usually hold exactly."""
        wide = self.whole.source == np.float64 and self.channels <= _MAX_ADDED
        return wide and isinstance(self.whole, folds.Sum | folds.Mean)

    @property
    def cost(self) -> float:
        whole = self.whole
        wide = whole.source.kind == "f" or whole.source.itemsize == 8
        exact = isinstance(whole, folds.Moments) and (whole.squares or wide)
        if self._adds_wide_floats:
            return 40.0 + 15 * self.channels
        if exact and not self._adds_narrow_floats:
            return 1500.0 + 10 * self.channels  # each voxel is rounded separately
        return 5.0 + 2 * whole.cost * self.channels

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        cells = min(rows, max(1, _CELLS // max(1, cols))) * cols
        lines = self._lines(1, 1)
        floats = self.whole.source.kind == "f" and isinstance(self.whole, folds.Moments)
        # Digits of floats cover the range of exponents; results are Python integers in between.
        states = 3 * 4 * lines.cell_bytes if floats else lines.copies * lines.cell_bytes
        return cells * (512 + states + 2 * self.channels)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        masks = inputs[self.channels :]
        for k, a, b in _blocks(out, y0, y1):
            voxels = [i.slice(k, a, b) for i in inputs[: self.channels]]
            where = [m.slice(k, a, b) for m in masks]
            where = where * self.channels if len(where) == 1 else where
            into = out.slice(k, a, b)
            if self._adds_wide_floats:
                self._added_in_pairs(voxels, where, into)
            elif not (self._adds_narrow_floats and self._added(voxels, where, into)):
                lines = self._lines(*into.shape)
                state = lines.fold_slices(Slices(voxels, where or None), ())
                into[...] = lines.finish(state, ())

    def _added_in_pairs(
        self, voxels: list[np.ndarray], masks: list[np.ndarray], out: np.ndarray
    ) -> None:
        """Compute sums or means by pairs of float64 where these are exact."""
        shape = out.shape
        total, count = PairSum(shape), np.zeros(shape, np.int64)
        for c, x in enumerate(voxels):
            used = masks[c] if masks else np.ones(shape, bool)
            finite = np.isfinite(x)
            self.whole.strict(int(np.count_nonzero(used & ~finite)))
            used = used & finite
            total.add(np.where(used, x, 0.0))
            count += used
        if isinstance(self.whole, folds.Sum):
            out[...], sure = total.rounded(), total.exact
        else:
            means, sure = total.means(np.maximum(count, 1))
            out[...] = np.where(count > 0, means, np.nan)
        if not sure.all():
            lines = self._lines(1, int(np.count_nonzero(~sure)))
            where = [m[~sure][None] for m in masks]
            rest = [x[~sure][None] for x in voxels]
            state = lines.fold_slices(Slices(rest, where or None), ())
            out[~sure] = lines.finish(state, ())[0]

    def _added(self, voxels: list[np.ndarray], masks: list[np.ndarray], out: np.ndarray) -> bool:
        """Compute sums or means as float64; return False, without a result, if these are not exact."""
        shape = out.shape
        total, count = np.zeros(shape), np.full(shape, self.channels, np.int64)
        if masks or self.whole.nan == "omit":
            count[...] = 0
        for c, channel in enumerate(voxels):
            x = channel.astype(np.float64)
            used = masks[c] if masks else np.ones(shape, bool)
            finite = np.isfinite(x)
            self.whole.strict(int(np.count_nonzero(used & ~finite)))
            if masks or self.whole.nan == "omit":
                used = used & finite
                x[~used] = 0
                count += used
            added = total + x
            back = added - total
            if ((total - (added - back)) + (x - back)).any():
                return False
            total = added
        with np.errstate(over="ignore", under="ignore"):
            if isinstance(self.whole, folds.Sum):
                out[...] = total
                return True
            means = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)
            below, above = (np.nextafter(means, to).astype(out.dtype) for to in (-np.inf, np.inf))
            # Where the division gives the middle of two floats, it is unknown on which side the mean is
            middle = means == (below.astype(np.float64) + above) / 2
            rest = np.where(middle & (below != above), total - means * count, 0)
            out[...] = np.where(rest > 0, above, np.where(rest < 0, below, means))
        return True


def _blocks(out: Block, y0: int, y1: int) -> Iterator[tuple[int, int, int]]:
    """Divide rows of every slice into blocks: slice, first row, last row + 1."""
    rows = max(1, _CELLS // max(1, out.cols))
    for k in range(out.depth):
        for a in range(y0, y1, rows):
            yield k, a, min(y1, a + rows)


def over_channels(whole: folds.Fold, volume: Volume, mask: Volume | None) -> Volume:
    """Reduce the channels of each voxel, with an optional mask with or without channels.

    Several percentiles are channels of the result, like the first axis in numpy.
    """
    masks: tuple[Any, ...] = ()
    mask_volume: tuple[Volume, ...] = ()
    if mask is not None:
        mask = as_volume(mask)
        check_alike(whole.name, first_channel(volume), first_channel(mask))
        if len(mask.nodes) not in (1, len(volume.nodes)):
            raise ValueError(
                f"{whole.name}: the mask has {len(mask.nodes)} channels, but the volume has "
                f"{len(volume.nodes)}"
            )
        masks, mask_volume = (mask if mask.dtype == bool else mask != 0).nodes, (mask,)
    nodes = tuple(
        StageNode.of(
            OverChannels(one.name, one.dtype, one, len(volume.nodes)), (*volume.nodes, *masks)
        )
        for one in _one_by_one(whole)
    )
    space = shared_space(whole.name, volume, *mask_volume)
    space = space.of_one("c") if "c" in space.leading else space
    if isinstance(whole, folds.RadixCounts) and isinstance(whole.q, tuple):
        names = tuple(f"{q:g}" for q in whole.q)
        names = names if len({*names}) == len(names) else ()
        space = space.with_leading(space.times, True, names)
    return Volume(nodes, space)


def _one_by_one(whole: folds.Fold) -> Iterator[folds.Fold]:
    """Yield a reduction for each number."""
    if not isinstance(whole, folds.RadixCounts):
        yield whole
        return
    for q in whole.q if isinstance(whole.q, tuple) else (whole.q,):
        yield replace(whole, q=q, dtype=percentile_dtype(whole.source, whole.q), shape=())
