"""Skeletons by thinning, with all iterations in one sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Halo, Triple
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.morphology.thinning import delete, mark
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_of
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import Block, Padding, Stage, Work

#: Each iteration adds 2, 3 and 5 voxels to the halo.
MAX_ITERATIONS = 1 << 10
#: Slices that are thinned together.
BATCH = 16
#: Parities of y and x of voxels that are deleted together, in even slices and in odd ones. Deletions move on
#: by a voxel along an axis only where its parity changes, so the order determines the halo.
EVEN = ((0, 0), (0, 1), (1, 1), (1, 0))
ODD = EVEN[::-1]


@dataclass(frozen=True, eq=False)
class Thinning(Stage):
    """Thinning of a mask, which must be stable after the iterations."""

    iterations: int
    axes: tuple[int, ...]
    shape: Triple

    padding = Padding(("constant",) * 3, 0.0)  # type: ignore[arg-type]
    compiled = True
    preferred_slices = BATCH

    @property
    def reach(self) -> Triple:
        # One more voxel shows whether the result is stable, and slices are thinned in pairs.
        n = self.iterations
        z, y, x = (
            min(r, size - 1) if axis in self.axes else 0
            for axis, (r, size) in enumerate(
                zip((2 * n + 2, 3 * n + 1, 5 * n + 1), self.shape, strict=True)
            )
        )
        return z, y, x

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = ((r, r) for r in self.reach)
        return ((z, y, x),)

    @property
    def cost(self) -> float:
        return 80.0 + 0.3 * self.iterations

    @property
    def ring_slices(self) -> int:
        """The number of slices in work."""
        return min(self.reach[0] + 4 + BATCH, self.shape[0] + 2)

    def kept_bytes(self, rows: int, cols: int) -> int:
        high, wide = (
            min(n + 2 * r, size) + 2
            for n, r, size in zip((rows, cols), self.reach[1:], self.shape[1:], strict=True)
        )
        return self.ring_slices * high * (wide + 8)

    def begin(self, box: Box) -> Work:
        return _Iterations(self, box)


class _Iterations:
    """Iterations in place, in a ring of slices: each follows the one before it by two slices."""

    def __init__(self, stage: Thinning, box: Box):
        self.stage, size, reach = stage, stage.shape, stage.reach
        self.start = [max(0, a - r) for a, r in zip(box.start, reach, strict=True)]
        stop = [min(n, b + r) for n, b, r in zip(size, box.stop, reach, strict=True)]
        self.rows, self.cols = (b - a for a, b in zip(self.start[1:], stop[1:], strict=True))
        slices = stage.ring_slices
        self.planes = np.zeros((slices, self.rows + 2, self.cols + 2), np.uint8)
        self.changed = np.full(self.planes.shape[:2], -1, np.int32)
        self.marks = np.zeros(self.planes.shape[:2], np.int32)
        bits = np.indices((3, 3, 3)).reshape(3, -1) == 1
        along = bits[[a for a in range(3) if a not in stage.axes]].all(axis=0)
        self.allowed = sum(1 << int(bit) for bit in np.flatnonzero(along))
        # The ends of slices with all of an iteration, with its marks, and with its deletions in even slices.
        z = self.start[0]
        self.done = [z] * (stage.iterations + 1)
        self.marked = [z] * stage.iterations + [box.start[0]]
        self.even = [z] * stage.iterations
        self.core = [
            (1 + a - first, 1 + b - first)
            for a, b, first in zip(box.start[1:], box.stop[1:], self.start[1:], strict=True)
        ]

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        last, first = self.stage.iterations, out.start[0]
        stop = min(first + out.depth + self.stage.reach[0], self.stage.shape[0])
        self._finish(out, threads)  # at the end of a volume, all iterations may be done
        while self.done[0] < stop:
            self._take(inputs[0], min(self.done[0] + BATCH, stop))
            for k in range(last):
                self._iterate(k, threads)
            self._finish(out, threads)

    def _take(self, block: Block, stop: int) -> None:
        """Copy further slices into the ring, and an empty one after the last slice of the volume."""
        dy, dx = (a - b for a, b in zip(self.start[1:], block.start[1:], strict=True))
        for z in range(self.done[0], stop + (stop == self.stage.shape[0])):
            slot = z % len(self.planes)
            self.changed[slot] = -1
            if z == stop:
                self.planes[slot] = 0
            else:
                rows = block.slice(z - block.start[0], dy, dy + self.rows)
                self.planes[slot, 1:-1, 1:-1] = rows[:, dx : dx + self.cols]
        self.done[0] = stop

    def _complete(self, stop: int) -> int:
        """Return the end of slices with known neighbours, if all slices before ``stop`` are known."""
        is_end = stop == self.stage.shape[0] or 0 not in self.stage.axes
        return stop if is_end else stop - 1

    def _iterate(self, k: int, threads: int) -> None:
        marked = max(self.marked[k], self._complete(self.done[k]))
        even = max(self.even[k], self._complete(marked))
        odd = max(self.done[k + 1], self._complete(even))
        self._mark(k, (self.marked[k], marked), (1, self.rows + 1), (1, self.cols + 1), threads)
        if 0 not in self.stage.axes:
            self._delete(k, range(self.even[k], even), EVEN, threads)
        else:
            first, second = self.even[k], self.done[k + 1]
            self._delete(k, range(first + first % 2, even, 2), EVEN, threads)
            self._delete(k, range(second + 1 - second % 2, odd, 2), ODD, threads)
        self.marked[k], self.even[k] = marked, even
        self.done[k + 1] = odd + (odd < even and odd % 2 == 0)

    def _mark(
        self,
        k: int,
        slices: tuple[int, int],
        rows: tuple[int, int],
        cols: tuple[int, int],
        threads: int,
    ) -> int:
        """Mark the voxels that the iteration may delete, and count them."""

        def work(a: int, b: int) -> int:
            within = *slices, rows[0] + a, rows[0] + b, *cols
            return mark(self.planes, self.changed, self.marks, *within, self.allowed, k)

        high = rows[1] - rows[0]
        voxels = (slices[1] - slices[0]) * high * (cols[1] - cols[0])
        return sum(in_strips(high, voxels, threads, work))

    def _delete(
        self, k: int, slices: range, classes: tuple[tuple[int, int], ...], threads: int
    ) -> None:
        """Delete marked voxels, those with one parity of y and x after the other."""
        if not slices:
            return
        along = self.stage.axes
        dy, dx = 1 + (1 in along), 1 + (2 in along)
        for y_class, x_class in classes:
            if y_class >= dy or x_class >= dx:
                continue
            x0 = 1 + (x_class - self.start[2]) % dx

            def work(a: int, b: int) -> None:
                y0 = 1 + a + (y_class - self.start[1] - a) % dy  # noqa: B023
                within = *slices_of, y0, b + 1, dy, x0, dx  # noqa: B023
                delete(self.planes, self.changed, self.marks, *within, self.allowed, k)

            slices_of = slices.start, slices.stop, slices.step
            in_strips(self.rows, len(slices) * self.rows * self.cols // 8, threads, work)

    def _finish(self, out: Block, threads: int) -> None:
        """Write finished slices, which must be stable."""
        stage, last, start = self.stage, self.stage.iterations, out.start[0]
        first = self.marked[last]
        stop = max(first, min(self._complete(self.done[last]), start + out.depth))
        rows, cols = self.core
        unstable = self._mark(last, (first, stop), rows, cols, threads)
        self.marked[last] = stop
        if unstable:
            raise ValueError(
                f"{stage.name}: objects still become thinner after max_num_iter={last} iterations; use "
                f"max_num_iter={2 * last}"
            )
        for z in range(first, stop):
            plane = self.planes[z % len(self.planes)]
            out.slice(z - start)[...] = plane[slice(*rows), slice(*cols)]


@documented
def skeletonize(
    volume: Volume,
    *,
    max_num_iter: int = 32,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Thin objects to lines along their centres, one voxel wide.

    Use it to trace vessels, neurites and other branching objects.

    Parameters
    ----------
    %(binary)s
    max_num_iter : int, default: 32
        The number of iterations, from 1 to 1024. Each iteration removes one layer of voxels. Tubes
        need about as many iterations as their radius in voxels, and sheets half of their width.
    %(axes)s

    Returns
    -------
    Volume
        A bool volume. A voxel is set if the object would lose its topology without it, or if it is
        the end of a line.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if objects still become thinner after
        ``max_num_iter`` iterations.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    skeleton_table : measures the branches of the result.
    map_labels : calls a different algorithm for each whole object.
    distance_transform_edt : contains the radius of an object at the voxels of its skeleton.

    Notes
    -----
    The result has the same components, tunnels and cavities as the volume, for neighbours that
    share a face, an edge or a corner. A hollow object becomes a closed surface, so fill cavities
    first with `binary_fill_holes`. ``axes=(1, 2)`` thins slice by slice. Beyond the edges is
    background.

    In each iteration, voxels are candidates if they are simple and are not ends of lines at its
    start. A voxel is simple if its removal does not change the topology. The voxels are divided
    into eight classes by the parities of their positions, and two voxels of a class are never
    neighbours. The classes are processed one after the other, and candidates that are still simple
    are removed. The result depends on the position of an object in the volume, but not on slabs.
    scikit-image removes voxels in a different order, so its skeletons differ by single voxels and
    short branches.

    One sweep. The halo is 2, 3 and 5 voxels along z, y and x for each iteration. Memory holds the
    slices of the halo of a slab, with one byte for each voxel.

    References
    ----------
    `skimage.morphology.skeletonize`; G. Németh, P. Kardos, K. Palágyi, "Topology preserving 3D
    thinning algorithms using four and eight subfields", ICIAR 2010; G. Bertrand, G. Malandain, "A
    new characterization of three-dimensional simple points", Pattern Recognition Letters 15 (1994).

    Examples
    --------
    >>> bar = np.zeros((5, 9), "u1")
    >>> bar[1:4, 1:8] = 1
    >>> np.asarray(bv.skeletonize(bar, max_num_iter=3)).astype(int)
    array([[0, 0, 0, 0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0, 0, 0, 0],
           [0, 0, 1, 1, 1, 1, 1, 0, 0],
           [0, 0, 0, 0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0, 0, 0, 0]])
    """
    volume, name = as_volume(volume), "skeletonize"
    chosen = tuple(sorted(par.axes_of(volume, axes, name)))
    iterations = par.whole_number(max_num_iter, "max_num_iter", name)
    if not 1 <= iterations <= MAX_ITERATIONS:
        raise ValueError(
            f"{name}: max_num_iter={max_num_iter}: use a number from 1 to {MAX_ITERATIONS:,}"
        )
    mask = volume if volume.dtype == bool else volume != 0
    if not volume.size:
        return mask
    shape = volume.nodes[0].shape
    return stage_of(mask, Thinning(name, np.dtype(bool), iterations, chosen, shape))
