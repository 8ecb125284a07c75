"""Elastic alignment of sections: displacements that vary within each slice."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import ndimage

from beam_volumes.graph.options import reserved
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.geometry.alignment import apply_transforms, bounding_box_of
from beam_volumes.ops.geometry.displacements import COLUMNS, Grid
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.geometry.registration.images import (
    Needs,
    aligned,
    check_quality,
    is_constant,
    marked,
)
from beam_volumes.ops.geometry.registration.meshes import Blocks, Mesh, joined
from beam_volumes.ops.geometry.registration.trends import Trend, smoothed
from beam_volumes.ops.geometry.transforms import matrices_of
from beam_volumes.ops.geometry.validity import check_mask, marked_volume, nodata_of, opened_mask
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.runs.console import shown_progress

#: The default number of distances between nodes along the longest side, and the least default distance, in
#: downsampled voxels.
_CELLS, _DEFAULT_SPACING = 16, 32
#: The least distance of nodes in downsampled voxels: smaller blocks match by chance.
_MIN_SPACING = 8
#: Later comparisons are of deformed slices, because blocks of slices deform as well. While more blocks match
#: than before by this share, there is one more, up to a maximum.
_PASSES, _MAX_PASSES, _MIN_GROWTH = 2, 5, 0.1
#: Solutions for the position of tissue before its slow movement.
_INVERSION_STEPS = 8
#: Bytes for each node of a slice and of a pair of slices, as measured: tables, displacements and splines.
_NODE_BYTES, _PAIR_BYTES = 320, 64
#: Bytes for each node of a plane while a mesh is fitted: factors, which grow with the logarithm of the nodes.
_MESH_BYTES = 450
#: Bytes for each voxel of a plane while a plane is deformed.
_DEFORM_BYTES = 76


@documented
def register_elastic(
    stack: Volume,
    transforms: Any = None,
    *,
    spacing: float | None = None,
    neighbours: int = 3,
    skip: Iterable[int] = (),
    max_displacement: float | None = None,
    min_quality: float = 0.3,
    max_side: int = 1024,
    trend: str | float = 20,
    mask: Volume | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> ComputedTable:
    """Find displacements within slices that align each slice with its neighbours.

    Use it after `register_slices` for sections that were stretched or compressed locally.
    `apply_transforms` applies both results in one interpolation.

    Parameters
    ----------
    stack : Volume or numpy.ndarray
        A volume or an array with one channel.
    transforms : array_like, table or path, optional
        Transforms that align the slices approximately, as accepted by `apply_transforms`. By default
        the stack is aligned already.
    spacing : float, optional
        Maximum distance of nodes along y and x, in voxels. Blocks of twice this side are compared
        around each node. Larger numbers give smoother displacements. By default, a sixteenth of the
        longer side of a plane, and at least 32 downsampled voxels.
    neighbours : int, default: 3
        Number of subsequent slices to compare each slice with. More than 1 bridges bad slices.
    skip : iterable of int, default: ()
        Slices to exclude from the comparison, which are not deformed. Empty slices are detected
        automatically.
    max_displacement : float, optional
        Maximum difference of the displacements of two compared slices along y and x, in voxels; half
        of ``spacing`` by default. It cannot exceed ``spacing``.
    min_quality : float, default: 0.3
        Minimum correlation of the aligned voxels of two blocks.
    max_side : int, default: 1024
        Maximum extent of the compared planes: larger ones are downsampled by an integer factor.
    trend : {"keep", "remove"} or float, default: 20
        What to do with slow movements of the tissue, which alignment straightens. A number removes
        them from the displacements: movements over more than about this many slices remain in the
        aligned volume. The number is the standard deviation of a Gaussian. ``"remove"`` only
        removes straight movements, and ``"keep"`` none. Two slices have no trend.
    mask : Volume or numpy.ndarray, optional
        Only voxels with a nonzero mask are compared. A mask has the shape of the stack, and bool or
        integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for tears. They are not compared.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    ComputedTable
        A row for each slice ``z`` and node. ``y`` and ``x`` are the position of the node in the
        aligned volume, and ``d_y`` and ``d_x`` its displacement, in voxels: the voxel at this
        position is taken from the position plus the displacement. ``links`` is the number of blocks
        at this node that were used, and ``quality`` their mean correlation. Nodes without links are
        interpolated. Slices without links have no displacement.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the volume has several channels, time points, no voxels,
        or no axes z, y and x. If the mask differs in shape, axes or voxel size, or the number of
        transforms does not match the slices.
    TypeError
        If ``stack`` or ``mask`` is neither a volume nor an array, or ``mask`` has floats.

    See Also
    --------
    register_slices : finds one transform for each slice.
    apply_transforms : applies the result.
    warp : applies stored displacements of all voxels.

    Notes
    -----
    One sweep aligns and downsamples the stack. The downsampled planes are kept in memory, up to
    ``options.max_inmemory``, with about 500 bytes for each node of a slice and 6 KiB for each node of
    one plane.

    Blocks are aligned as in `register_slices`: by phase correlation, and then by an affine map that
    minimizes squares of intensities, with the same limits for links that may be due to chance. Blocks
    that disagree with the median of their neighbours are not used. The other ones move the nodes of a
    grid that resists bending. At each node, the displacements of all slices are then solved together,
    and pairs that disagree with others lose weight. Slices are deformed and compared a second time,
    which finds the remaining errors. This is repeated, up to five comparisons, while more than a
    tenth more blocks match.

    Displacements are relative to the transforms: with ``trend="keep"``, their mean at each node is
    0. Only differences of slices are known, so slow movements of the tissue cannot be distinguished
    from errors that accumulate. A number for ``trend`` therefore removes both.

    Missing voxels are treated as in `register_slices`. Folds and tears without ``mask`` or
    ``nodata`` are ordinary voxels, but most of their blocks disagree with others.

    References
    ----------
    S. Saalfeld et al., "Elastic volume reconstruction from series of ultra-thin microscopy
    sections", Nature Methods 9, 2012; J. Westerweel and F. Scarano, "Universal outlier detection for
    PIV data", Experiments in Fluids 39, 2005; P. H. C. Eilers and B. D. Marx, "Flexible smoothing
    with B-splines and penalties", Statistical Science 11, 1996.

    Examples
    --------
    >>> from scipy import ndimage
    >>> rng = np.random.default_rng(0)
    >>> plane = ndimage.gaussian_filter(rng.normal(size=(96, 96)), 2).astype("f4")
    >>> y, x = np.mgrid[:96, :96]
    >>> bent = ndimage.map_coordinates(plane, [y, x + 2 * np.sin(y / 30)], mode="nearest")
    >>> stack = np.stack([plane, bent])
    >>> table = bv.register_elastic(stack, trend="keep")
    >>> aligned = bv.compute(bv.apply_transforms(stack, None, displacements=table))
    >>> before, after = (np.corrcoef(s[:, 8:-8, 8:-8].reshape(2, -1))[0, 1] for s in (stack, aligned))
    >>> bool(before < 0.9), bool(after > 0.98)
    (True, True)
    """
    name = "register_elastic"
    how = _Elastic.of(stack, transforms, spacing, max_displacement, max_side, mask, nodata)
    reach = par.whole_number(neighbours, "neighbours", name)
    skipped = {how.slice(k) for k in skip}
    quality = check_quality(min_quality, name)
    slow = Trend.of(trend, None, how.volume.shape, np.ones(2), "translation", None, name)
    needs = how.needs(reach)
    with reserved(needs.occupied):
        planes = np.asarray(how.thin.compute(runner=None, progress=progress), np.float32)
    compared = [k for k, plane in enumerate(planes) if k not in skipped and not is_constant(plane)]
    return how.registered(planes, compared, reach, quality, slow, needs.threads, progress)


@dataclass(frozen=True)
class _Elastic:
    """A stack, its downsampled and aligned planes, and the nodes of a grid on them."""

    volume: Volume
    thin: Volume
    factor: int
    first: np.ndarray  #: The position of the first voxel of the aligned volume along y and x
    shape: tuple[int, int]  #: The number of nodes
    max_shift: float  #: In downsampled voxels

    @classmethod
    def of(
        cls,
        stack: Any,
        transforms: Any,
        spacing: float | None,
        max_displacement: float | None,
        max_side: int,
        mask: Any,
        nodata: float | None,
    ) -> _Elastic:
        name = "register_elastic"
        v = refuse_empty(one_channel(as_volume(stack)), name)
        if v.space.axes != ("z", "y", "x") or v.space.times:
            raise ValueError(
                f"{name}: the volume has the axes {', '.join(v.axes)}; z, y and x are needed"
            )
        of_stack = None if mask is None else opened_mask(mask, name, "the stack")
        if of_stack is not None:
            check_mask(of_stack, v, name, "the stack")
        empty = nodata_of(nodata, v.dtype, name)
        limit = par.whole_number(max_side, "max_side", name, 16)
        first = np.zeros(2)
        moved = marked_volume(v, of_stack, empty, (1, 1, 1))
        if transforms is not None:
            each = "slices of the volume"
            forward, place = matrices_of(transforms, ("y", "x"), v.shape[0], name, each)
            first = np.array(bounding_box_of(forward, place, v.shape[1:])[0], np.float64)
            moved = moved.astype("f4")
            moved = apply_transforms(moved, transforms, bounding_box=True, cval=math.nan)
        factor = -(-max(moved.shape[1:]) // limit)
        if transforms is not None and factor > max(v.shape[1:]):
            raise ValueError(
                f"{name}: transforms place the slices in {moved.shape[1]} x {moved.shape[2]} voxels, "
                f"and planes downsampled by {factor} have no voxel of them; give transforms that align the "
                "slices approximately"
            )
        factors = (1, factor, factor)
        if transforms is None:
            thin = marked_volume(v, of_stack, empty, factors)
        else:
            thin = marked_volume(moved, None, math.nan, factors)
        side = max(thin.shape[1:])
        distance = max(side / _CELLS, float(_DEFAULT_SPACING))
        if spacing is not None:
            distance = par.positive(spacing, "spacing", name) / factor
            if distance < _MIN_SPACING:
                raise ValueError(
                    f"{name}: spacing={spacing!r} is less than {_MIN_SPACING} voxels of planes downsampled "
                    f"by {factor}; give at least {_MIN_SPACING * factor}, or increase max_side="
                )
        max_shift = distance / 2
        if max_displacement is not None:
            max_shift = par.positive(max_displacement, "max_displacement", name) / factor
            if max_shift > distance:
                raise ValueError(
                    f"{name}: max_displacement={max_displacement!r} is more than the distance of nodes, "
                    f"{distance * factor:g} voxels; increase spacing="
                )
        rows, columns = (1 + max(1, math.ceil((n - 1) / distance)) for n in thin.shape[1:])
        return cls(v, thin, factor, first, (rows, columns), max_shift)

    @property
    def count(self) -> int:
        return self.volume.shape[0]

    @property
    def step(self) -> np.ndarray:
        """The distance of nodes along y and x, in downsampled voxels."""
        extent = np.array(self.thin.shape[1:]) - 1.0
        return np.where(extent > 0, extent / (np.array(self.shape) - 1), 1.0)

    def slice(self, k: Any) -> int:
        if not par.is_whole(k) or not 0 <= k < self.count:
            raise ValueError(
                f"register_elastic: skip={k!r} is not a number from 0 to {self.count - 1} along z"
            )
        return int(k)

    def needs(self, reach: int) -> Needs:
        """Return the memory of the planes, of the nodes, and of a pair of blocks for each thread."""
        plane = self.thin.shape[1] * self.thin.shape[2]
        nodes = math.prod(self.shape)
        images = 4 * self.thin.size + 4 * (reach + 1) * plane + _DEFORM_BYTES * plane
        images += nodes * self.count * (_NODE_BYTES + min(reach, self.count) * _PAIR_BYTES)
        images += math.ceil(nodes * math.log2(nodes) * _MESH_BYTES)
        block = math.prod(2 * math.ceil(s) + 1 for s in self.step)
        return Needs(self.thin, 1, images, block, math.prod(self.shape), "max_side")

    def registered(
        self,
        planes: np.ndarray,
        compared: Sequence[int],
        reach: int,
        min_quality: float,
        slow: Trend | None,
        threads: int,
        progress: bool | Callable[..., None] | None,
    ) -> ComputedTable:
        zero = np.zeros((self.count, 2, *self.shape))
        found = zero
        linked = np.zeros(self.count, bool)
        before = 0
        with ThreadPoolExecutor(threads) as pool:
            for number in range(_MAX_PASSES):
                splines = Grid.through(np.zeros(2), self.step, found) if number else None
                matched = _Matches(zero.shape)
                with shown_progress(
                    "register_elastic", len(compared), "slices", progress
                ) as finished:
                    for i, j, blocks in self._compared(
                        planes, compared, reach, min_quality, splines, pool, finished
                    ):
                        matched.add(i, j, blocks)
                more, links = joined(matched.pairs, self.count)
                if not links.any():
                    break
                linked |= links
                found = more if splines is None else self._composed(more, splines)
                matches = int(matched.links.sum())
                if number + 1 >= _PASSES and matches <= (1 + _MIN_GROWTH) * before:
                    break
                before = matches
        if slow is not None and linked.sum() > 2:  # any two slices differ by a straight movement
            found = self._without_trend(found, linked, slow.sigma)
        return self._table(found, matched)

    def _compared(
        self,
        planes: np.ndarray,
        compared: Collection[int],
        reach: int,
        min_quality: float,
        splines: Grid | None,
        pool: ThreadPoolExecutor,
        finished: Callable[[], None],
    ) -> Iterable[tuple[int, int, Blocks]]:
        """Yield the blocks of all pairs of slices, deformed by ``splines``."""
        before = deque[tuple[int, np.ndarray]]()
        for j in compared:
            far = marked(planes[j] if splines is None else _deformed(planes[j], splines, j))
            while before and before[0][0] < j - reach:
                before.popleft()
            for i, near in before:
                yield i, j, self._blocks(near, far, min_quality, pool)
            before.append((j, far))
            finished()

    def _blocks(
        self, near: np.ndarray, far: np.ndarray, min_quality: float, pool: ThreadPoolExecutor
    ) -> Blocks:
        nodes = list(np.ndindex(*self.shape))
        rows = [*pool.map(partial(self._block, near, far, min_quality), nodes)]
        columns = np.array(rows).T.reshape(6, *self.shape)
        return Blocks(columns[:2], columns[2:4], columns[4], columns[5])

    def _block(
        self, near: np.ndarray, far: np.ndarray, min_quality: float, node: tuple[int, int]
    ) -> tuple[float, ...]:
        """Return the centre of a block in nodes, its shift, evidence and quality."""
        centres = self.step * node
        box = tuple(
            slice(max(0, math.floor(c - s + 0.5)), min(n, math.floor(c + s + 0.5) + 1))
            for c, s, n in zip(centres.tolist(), self.step.tolist(), near.shape, strict=True)
        )
        fixed, moving = near[box], far[box]
        nothing = (*node, 0.0, 0.0, -math.inf, 0.0)
        valid = np.isfinite(fixed) & np.isfinite(moving)
        if not valid.any() or is_constant(fixed) or is_constant(moving):
            return nothing
        # Blocks stretch as well. Where they do by a tenth, a shift aligns only their middle.
        link = aligned(fixed, moving, "affine", [self.max_shift] * 2, np.ones(2), rotations=(0.0,))
        if link.quality < min_quality or not link.is_refined:
            return nothing
        middle = np.array([i.mean() for i in np.nonzero(valid)])
        return (
            *((middle + [b.start for b in box]) / self.step).tolist(),
            *(-link.shift_at(middle)).tolist(),
            link.evidence,
            link.quality,
        )

    @property
    def _nodes(self) -> np.ndarray:
        """The positions of nodes in downsampled voxels, (2, rows, columns)."""
        return np.mgrid[: self.shape[0], : self.shape[1]] * self.step[:, None, None]

    def _composed(self, more: np.ndarray, splines: Grid) -> np.ndarray:
        """Return the displacements of ``more``, followed by those of ``splines``."""
        return np.stack([m + splines.at(z, self._nodes + m) for z, m in enumerate(more)])

    def _without_trend(self, found: np.ndarray, linked: np.ndarray, sigma: float) -> np.ndarray:
        """Return displacements of tissue that keeps its slow movement."""
        slow = smoothed(found.reshape(self.count, -1), linked, sigma).reshape(found.shape)
        slow[~linked] = 0.0
        still, fast = (Grid.through(np.zeros(2), self.step, f) for f in (slow, found - slow))
        result = np.zeros_like(found)
        for z in np.flatnonzero(linked).tolist():
            # The tissue at these nodes was at ``before`` while it moved.
            before = self._nodes
            for _ in range(_INVERSION_STEPS):
                before = self._nodes - still.at(z, before)
            result[z] = fast.at(z, before)
        return result

    def _table(self, found: np.ndarray, matched: _Matches) -> ComputedTable:
        import pyarrow

        f = self.factor
        # Index i of a downsampled plane has its centre at f * i + (f - 1) / 2.
        y, x = (
            f * s * np.arange(n) + (f - 1) / 2 + o
            for s, n, o in zip(self.step, self.shape, self.first, strict=True)
        )
        at = np.stack(np.meshgrid(np.arange(self.count), y, x, indexing="ij")).reshape(3, -1)
        by = f * found.transpose(1, 0, 2, 3).reshape(2, -1)
        columns: dict[str, Any] = dict(
            zip(COLUMNS, (at[0].astype(np.int64), *at[1:], *by), strict=True)
        )
        links = matched.links.ravel()
        columns["links"] = links
        quality = matched.quality.ravel() / np.maximum(links, 1)
        columns["quality"] = pyarrow.array(quality, mask=links == 0)
        return ComputedTable(pyarrow.table(columns))


class _Matches:
    """The displacements of pairs of slices, and the number and quality of blocks that were used."""

    def __init__(self, shape: tuple[int, ...]):
        count, _, *grid = shape
        self.pairs: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        self.links = np.zeros((count, *grid), np.int64)
        self.quality = np.zeros((count, *grid))
        self._mesh = Mesh((grid[0], grid[1]))

    def add(self, i: int, j: int, blocks: Blocks) -> None:
        kept = blocks.significant
        if not kept.any():
            return
        self.pairs[i, j] = self._mesh.fitted(blocks, kept)
        for k in (i, j):
            self.links[k] += kept
            self.quality[k] += np.where(kept, blocks.quality, 0.0)


def _deformed(plane: np.ndarray, splines: Grid, z: int) -> np.ndarray:
    at = np.mgrid[: plane.shape[0], : plane.shape[1]].astype(np.float64)
    at += splines.at(z, at)
    return np.asarray(ndimage.map_coordinates(plane, at, order=1, cval=np.nan, output=np.float32))
