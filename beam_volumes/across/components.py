"""Connected components of one slab, window by window: its summary, and the second sweep.

Each slab has its core and one more plane on the upper side of each axis with a neighbour. Voxels
that touch differ by at most 1 in each coordinate. So the slab that has the smaller of each
coordinate contains both voxels: no equivalence is missed at any connectivity, and slabs that only
share an edge or a corner exchange nothing. Face neighbours share a plane, and find the same 2-D
components in it in the same order. Each reports to which of its own components they belong.
Compared position by position, these are the equivalences of the two slabs, an *interface*.

A component that continues from one window to the next is united with its continuation in both
sweeps alike. Answers for a slab are therefore per component that begins in a window. For these a
slab keeps a number each, and other data only for those that have not been united yet.

A component's *provisional id* is the linear index in the volume of its first visited voxel. The
smallest one of a component is its *root*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.base.geometry import Box, Grid, Triple, connectivity_structure
from beam_volumes.kernels.casting import kernel_array
from beam_volumes.kernels.labels import components as kernels
from beam_volumes.kernels.labels import edges
from beam_volumes.kernels.measure import digests
from beam_volumes.kernels.packing import pack, unpack
from beam_volumes.kernels.scratch import arrays
from beam_volumes.sweep.device import MaskThere
from beam_volumes.sweep.resources import in_strips

#: An interface: the axis perpendicular to it, and the cell of the slab above it.
InterfaceKey = tuple[int, int, int, int]
Payload = dict[str, np.ndarray]

#: Rows of united pieces are merged when there are this many more than after the last merge.
_MERGED_AT = 1000

#: The merge rule of each column of a payload: anything with ``reduceat``, as ufuncs have.
RULES: dict[str, Any] = {
    "size": np.add,
    "lower": np.minimum,
    "upper": np.maximum,
    "touches_border": np.logical_or,
    "marked": np.logical_or,
}


class Components(NamedTuple):
    """Components of one block: its runs, and for each component its first voxel and value."""

    shape: Triple
    offsets: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    labels: np.ndarray
    first: np.ndarray
    values: np.ndarray | None
    #: The block itself, if components depend on more than its runs.
    voxels: np.ndarray | None = None

    @property
    def runs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.offsets, self.starts, self.stops, self.labels

    def slice_runs(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The runs of slice ``k``."""
        ny = self.shape[1]
        offsets = self.offsets[k * ny : (k + 1) * ny + 1]
        some = slice(int(offsets[0]), int(offsets[-1]))
        return offsets - offsets[0], self.starts[some], self.stops[some], self.labels[some]

    def last_slice(self) -> tuple[Components, np.ndarray]:
        """The last slice, and which of the components are in it."""
        offsets, starts, stops, labels = (a.copy() for a in self.slice_runs(self.shape[0] - 1))
        numbers = np.zeros(len(self.first) + 1, np.uint32)
        which = np.empty(len(numbers), np.int64)
        which = which[: kernels.renumber(labels, numbers, which)].copy()
        values = None if self.values is None else self.values[which]
        shape = (1, *self.shape[1:])
        return Components(shape, offsets, starts, stops, labels, which, values), which

    def digest(self, row: int = 0, threads: int = 1) -> int:
        """A 64-bit hash of the labelled voxels with their positions, from ``row`` on, and values.

        Digests of consecutive blocks add up, modulo 2**64, to the digest of the whole.
        """
        nx = self.shape[2]
        if self.voxels is None:

            def strip(a: int, b: int) -> int:
                runs = self.offsets[a : b + 1], self.starts, self.stops
                return int(kernels.digest(*runs, nx, row + a))

            count = len(self.starts)
        else:
            rows = self.voxels.reshape(1, -1, nx)

            def strip(a: int, b: int) -> int:
                return digests.digest(rows, a, b, (nx << 32) + row)

            count = self.voxels.size
        return sum(in_strips(len(self.offsets) - 1, count, threads, strip)) % 2**64

    def mask(self, z: slice, y: slice, x: slice) -> np.ndarray:
        """Whether the voxels of a part of the block belong to a component."""
        plane, made = np.empty(self.shape[1:], bool), []
        table = np.arange(len(self.first) + 1) > 0
        for k in range(self.shape[0])[z]:
            kernels.paint(*self.slice_runs(k), table, plane)
            made.append(plane[y, x].copy())
        return np.array(made)

    def paint(self, table: np.ndarray, slices: Iterable[np.ndarray], threads: int = 1) -> None:
        """Write ``table[label]`` into slices with contiguous rows, or into a corner of them."""
        outs, ny = list(slices), self.shape[1]
        if not outs:
            return
        rows, cols = outs[0].shape

        def strip(a: int, b: int) -> None:
            for k, out in enumerate(outs):
                offsets = self.offsets[k * ny + a : k * ny + b + 1]
                kernels.paint(offsets, self.starts, self.stops, self.labels, table, out[a:b])

        in_strips(rows, len(outs) * rows * cols, threads, strip)


@dataclass(frozen=True, eq=False)
class Labelling:
    """The definition of a component: touching voxels of one value if ``by_value``, else all non-zero ones.

    ``structure``, bool (3, 3, 3), is centrosymmetric; ``background`` is a value to leave out, or None.
    """

    structure: np.ndarray
    by_value: bool = False
    background: Any = 0
    links: np.ndarray = field(init=False, repr=False)
    is_joined: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        structure = np.asarray(self.structure, bool)
        if structure.shape != (3, 3, 3) or (structure != structure[::-1, ::-1, ::-1]).any():
            raise ValueError(
                f"structure of shape {structure.shape} is not valid; it must be 3x3x3 and "
                "symmetric about its centre"
            )
        links, is_joined = kernels.links_of(structure)
        for name, value in (("structure", structure), ("links", links), ("is_joined", is_joined)):
            object.__setattr__(self, name, value)

    def find(self, block: Any, threads: int = 1) -> Components:
        """The components of a 3-D block, numbered from 1 by their first voxels.

        ``block``: an array or, unless ``by_value``, a `MaskThere`.
        """
        _check_size(block)
        if isinstance(block, MaskThere):
            return _numbered(block.shape, *block.runs(self.links, self.is_joined))
        block = np.ascontiguousarray(block)
        if block.dtype == np.bool_:
            block = block.view(np.uint8)
        block = kernel_array(block).view()
        # gives writable and read-only arrays the same type in kernels
        block.flags.writeable = False
        kind, background = kernels.MASK, block.dtype.type(0)
        if self.by_value:
            kind = kernels.VALUES_NO_BACKGROUND
            if self.background is not None and _holds(block.dtype, self.background):
                kind, background = kernels.VALUES, block.dtype.type(self.background)
        nz, ny, nx = block.shape
        offsets = np.empty(nz * ny + 1, np.int64)

        def count(a: int, b: int) -> tuple[int, int, int, tuple[np.ndarray, ...]]:
            scratch = arrays(kernels.count_runs.scratch(b - a, nx))
            how = self.is_joined, kind, background, a, b
            return a, b, kernels.count_runs(block, *how, offsets[a:b], scratch), scratch

        strips = in_strips(nz * ny, block.size, threads, count)
        ends = np.cumsum([n for _, _, n, _ in strips])
        offsets[-1] = ends[-1]
        starts, stops, parent = runs = tuple(np.empty(ends[-1], np.int32) for _ in range(3))

        def write(first: int, last: int) -> None:
            for k in range(first, last):
                a, b, n, scratch = strips[k]
                part = kind, a, b, (ends[k] - n, ends[k])
                kernels.find_runs(block, self.links, *part, offsets[a:b], *runs, scratch)

        in_strips(len(strips), block.size, threads, write)
        if len(strips) > 1:
            cuts = np.array([a for a, *_ in strips[1:]])
            scratch = arrays(kernels.count_runs.scratch(min(2 * ny + 2, nz * ny), nx))
            how = self.links, self.is_joined, kind, background
            kernels.join_runs(block, *how, cuts, offsets, parent, scratch)
        found = _numbered(block.shape, offsets, starts, stops, parent)
        if not self.by_value:
            return found
        return found._replace(values=block.reshape(-1)[found.first], voxels=block)

    def unite(
        self, below: Components, above: Components, parent: np.ndarray, base_a: int, base_b: int
    ) -> None:
        """Unite components of a block's last slice with the first slice of the next block."""
        none = np.empty(0, np.uint8)
        kernels.unite_planes(
            below.slice_runs(below.shape[0] - 1),
            above.slice_runs(0),
            self.links,
            none if below.values is None else below.values,
            none if above.values is None else above.values,
            parent,
            base_a,
            base_b,
        )

    def label(self, block: np.ndarray, dtype: Any = np.uint32) -> tuple[np.ndarray, int]:
        """Labels of a block in memory, and their number."""
        found = self.find(block)
        out = np.empty(found.shape, dtype)
        found.paint(np.arange(len(found.first) + 1, dtype=dtype), out)
        return out, len(found.first)


@dataclass(frozen=True, eq=False)
class EdgeLabelling(Labelling):
    """Components connected by edges that voxels encode; see `beam_volumes.kernels.labels.edges`."""

    structure: np.ndarray = field(default_factory=lambda: connectivity_structure(1))

    def find(self, block: Any, threads: int = 1) -> Components:
        _check_size(block)
        block = np.ascontiguousarray(block)
        rows, nx = block.shape[0] * block.shape[1], block.shape[2]

        def some(a: int, b: int) -> tuple[np.ndarray, ...]:
            return edges.find_runs(block, a, b, arrays(edges.find_runs.scratch(b - a, nx)))  # type: ignore[no-any-return]

        parts = in_strips(rows, block.size, threads, some)
        offsets, starts, stops, parent = _put_together(parts)
        if len(parts) > 1:
            cuts = np.cumsum([len(part[0]) - 1 for part in parts[:-1]])
            scratch = arrays(edges.find_runs.scratch(rows, nx))
            edges.join_runs(block, cuts, offsets, parent, scratch)
        return _numbered(block.shape, offsets, starts, stops, parent)._replace(voxels=block)

    def unite(
        self, below: Components, above: Components, parent: np.ndarray, base_a: int, base_b: int
    ) -> None:
        assert above.voxels is not None
        slices = below.slice_runs(below.shape[0] - 1), above.slice_runs(0)
        edges.unite_planes(*slices, above.voxels[0], parent, base_a, base_b)


def _check_size(block: Any) -> None:
    if math.prod(block.shape) >= 2**31:
        raise ValueError(
            f"a window of {block.shape} voxels is too large; components are labelled in windows "
            "of fewer than 2**31 voxels. Use tiles along y and x"
        )


def _numbered(
    shape: Triple, offsets: np.ndarray, starts: np.ndarray, stops: np.ndarray, parent: np.ndarray
) -> Components:
    """The components of united runs; overwrites ``parent``."""
    first = np.empty(kernels.count_roots(parent) + 1, np.int64)
    labels = kernels.number_runs(shape[2], offsets, starts, parent, first)
    return Components(shape, offsets, starts, stops, labels, first[:-1], None)


def _put_together(parts: list[Any]) -> tuple[np.ndarray, ...]:
    """Join runs that were found row by row in parts: offsets, starts, stops and parents."""
    if len(parts) == 1:
        return parts[0]
    offsets, starts, stops, parents = zip(*parts, strict=True)
    bases = np.cumsum([0, *map(len, starts)])
    return (
        np.concatenate(
            [*(o[:-1] + base for o, base in zip(offsets, bases, strict=False)), bases[-1:]]
        ),
        np.concatenate(starts),
        np.concatenate(stops),
        np.concatenate([p + np.int32(b) for p, b in zip(parents, bases, strict=False)]),
    )


def _holds(dtype: np.dtype, value: Any) -> bool:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min <= value <= info.max and int(value) == value
    return True


class Continued(NamedTuple):
    """Components of a block, and their continuations in the block before."""

    found: Components
    #: (n). The value of each component; for continuations the value of a continued component.
    values: np.ndarray
    is_new: np.ndarray  #: bool (n). Which components continue none.
    #: Pairs of values of components before the block that one component connects.
    joined: tuple[np.ndarray, np.ndarray]


class _Continuation:
    """Components of consecutive blocks, each with a value; keeps the last slice of a block."""

    def __init__(self, labelling: Labelling) -> None:
        self.labelling = labelling
        self._last: Components | None = None
        self._values = np.empty(0, np.int64)

    def feed(
        self,
        block: Any,
        threads: int,
        new: Callable[[Components, int], np.ndarray],
    ) -> Continued:
        """Process the next block; ``new`` returns the values of its new components."""
        found, last, before = self.labelling.find(block, threads), self._last, self._values
        if last is None or not len(last.first):
            values, none = new(found, len(found.first)), before[:0]
            return self._kept(Continued(found, values, np.ones(len(values), bool), (none, none)))
        n = len(last.first)
        # Only components of the first slice touch the last block, and they have the first numbers.
        touching = int(np.searchsorted(found.first, math.prod(found.shape[1:])))
        parent = np.arange(n + touching)
        self.labelling.unite(last, found, parent, 0, n)
        kernels.flatten(parent)
        is_new = np.ones(len(found.first), bool)
        is_new[:touching] = parent[n:] >= n
        given = new(found, int(np.count_nonzero(is_new)))
        values = np.empty(len(is_new), given.dtype)
        used = kernels.continue_values(parent, before, given, values[:touching])
        values[touching:] = given[used:]
        joined = np.flatnonzero(parent[:n] != np.arange(n))
        pairs = before[joined], before[parent[joined]]
        return self._kept(Continued(found, values, is_new, pairs))

    def _kept(self, came: Continued) -> Continued:
        self._last, which = came.found.last_slice()
        self._values = came.values[which]
        return came


class _Stream:
    """Components of consecutive blocks, united with their continuations; ``voxels`` are of all blocks.

    New components are numbered 0, 1, ...; memory grows with their number, not with the number of blocks.
    """

    def __init__(self, labelling: Labelling, voxels: int) -> None:
        self.count = 0
        self._continuation = _Continuation(labelling)
        self._parent = np.empty(0, index_dtype(voxels))

    def feed(self, block: Any, threads: int = 1) -> Continued:
        """The block's components with their numbers."""
        came = self._continuation.feed(block, threads, self._numbered)
        kernels.unite_pairs(self._parent, *came.joined)
        return came

    def _numbered(self, _: Components, new: int) -> np.ndarray:
        first, self.count = self.count, self.count + new
        numbers = np.arange(first, self.count, dtype=self._parent.dtype)
        # Large arrays are moved without a copy. No view of it is kept.
        self._parent.resize(self.count, refcheck=False)
        self._parent[first:] = numbers
        return numbers

    def classes(self) -> np.ndarray:
        """For each number, the first one of the same component."""
        kernels.flatten(self._parent)
        return self._parent


class _Face:
    """One plane that is shared with a neighbour, at ``position`` along ``axis`` of the region."""

    def __init__(self, axis: int, position: int, labelling: Labelling, region: Box) -> None:
        self.axis = axis
        self.position = position
        self._stream = _Stream(labelling, region.size)
        self._members: list[np.ndarray] = [np.empty(0, np.int64)]
        self._digest = 0

    def feed(self, block: Any, z: int, found: Components, numbers: np.ndarray) -> None:
        start = [0, 0, 0]
        start[self.axis] = self.position - (z if self.axis == 0 else 0)
        if not 0 <= start[0] < block.shape[0]:
            return
        plane = [slice(None)] * 3
        plane[self.axis] = slice(start[self.axis], start[self.axis] + 1)
        part = found.mask(*plane) if isinstance(block, MaskThere) else block[tuple(plane)]
        flat, _, is_new, _ = self._stream.feed(part)
        # Both sides number rows alike, although the plane's position in their regions differs.
        row = 0 if self.axis == 0 else z * part.shape[1]
        self._digest = (self._digest + flat.digest(row)) % 2**64
        zyx = np.stack(np.unravel_index(flat.first[is_new], part.shape), 1) + start
        rows = zyx[:, 0] * block.shape[1] + zyx[:, 1]
        own = kernels.labels_at(*found.runs, rows, zyx[:, 2]).astype(np.int64)
        self._members.append(numbers[own - 1])

    def finish(self, groups: np.ndarray) -> Interface:
        classes = self._stream.classes()
        own = np.flatnonzero(classes == np.arange(len(classes)))
        return Interface(as_index(groups[np.concatenate(self._members)[own]]), self._digest)


class Interface(NamedTuple):
    """For each 2-D component of a shared plane, in raster order, its component in the slab."""

    # ``members`` are positions in the ids of the summary. ``digest`` covers all voxels of the plane, to check
    # that both sides had the same.

    members: np.ndarray
    digest: int


def as_index(positions: np.ndarray) -> np.ndarray:
    """Positions as int32 if they fit."""
    return positions.astype(index_dtype(int(positions.max(initial=0))))


def index_dtype(count: int) -> type[np.signedinteger[Any]]:
    """The dtype of numbers up to ``count``."""
    return np.int32 if count < 2**31 else np.int64


def merge_payload(
    payload: Mapping[str, np.ndarray], groups: np.ndarray, count: int, rules: Mapping[str, Any]
) -> Payload:
    """Merge payload columns of components into groups ``groups[i]`` in 0..count-1, none empty."""
    if count == len(groups) and np.array_equal(groups, np.arange(count)):
        return dict(payload)
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(count))
    return {
        name: rules[name].reduceat(values[order], starts, axis=0) if count else values[:0]
        for name, values in payload.items()
    }


@dataclass(frozen=True, eq=False)
class SlabSummary:
    """Everything that is kept of a slab after the first sweep."""

    cell: Triple  #: The slab, as a cell of the grid.
    #: uint32 if the volume has no larger indices, otherwise uint64 (n). Provisional ids of the slab's
    #: components, increasing.
    ids: np.ndarray
    payload: Payload  #: Properties of the components in the slab's core.
    interfaces: dict[InterfaceKey, Interface]  #: One for each face shared with a neighbour.
    #: int32. For each window, the positions in ``ids`` of its new components.
    windows: tuple[np.ndarray, ...]
    digests: tuple[int, ...]  #: Digest of the labelled voxels of each window.

    def __getstate__(self) -> dict[str, Any]:
        """Ids and positions increase, mostly by little: two bytes for a component instead of eight."""
        arrays = [self.ids, *self.windows]
        packed = [(pack(a), len(a), a.dtype) for a in arrays]
        return {**self.__dict__, "ids": packed[0], "windows": packed[1:]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ids, windows = unpack(*state["ids"]), tuple(unpack(*w) for w in state["windows"])
        self.__dict__.update(state, ids=ids, windows=windows)


def column_bytes(payload: Payload) -> int:
    """Bytes of a component's payload."""
    return sum(math.prod(c.shape[1:]) * c.itemsize for c in payload.values())


def are_wide(grid: Grid) -> bool:
    """Whether ids take eight bytes instead of four."""
    return math.prod(grid.shape) > 2**32


def bytes_in_slab(wide: bool, columns: int) -> tuple[int, int]:
    """Bytes of each component that begins in a window of a slab, and of each that is not yet united.

    ``wide``: ids have 8 bytes. ``columns``: bytes of a component's payload. Temporary arrays are included.

    >>> bytes_in_slab(False, 0), bytes_in_slab(True, 8)
    ((16, 32), (24, 116))
    """
    return 16 + 8 * wide, 32 + 12 * wide + (40 + 4 * columns if columns else 0)


def region_of(grid: Grid, cell: Triple) -> tuple[Box, Box]:
    """A slab's core, and its region with one more plane on each side with a neighbour."""
    start = tuple(c * s for c, s in zip(cell, grid.step, strict=True))
    stop = tuple(min(a + s, n) for a, s, n in zip(start, grid.step, grid.shape, strict=True))
    core = Box(start, stop)  # type: ignore[arg-type]
    return core, core.expand(((0, 1), (0, 1), (0, 1))).intersect(Box.of_shape(grid.shape))


class SlabLabeler:
    """Label one slab in the first sweep: feed it the windows in order, then `finish`.

    Its memory grows with the number of components, not of voxels.
    """

    # ``measures`` are columns of the payload: ``"size"``, ``"box"`` (columns ``lower`` and ``upper``,
    # half-open, in the volume), ``"touches_border"``. ``border_axes`` have ends that count as the border of
    # the volume, with a thickness of ``border`` voxels.

    def __init__(
        self,
        grid: Grid,
        cell: Triple,
        labelling: Labelling,
        measures: tuple[str, ...] = (),
        border_axes: tuple[int, ...] = (0, 1, 2),
        border: int = 1,
        rules: Mapping[str, Any] = RULES,
    ) -> None:
        self.rules = rules
        self.grid = grid
        self.cell = cell
        self.core, self.region = region_of(grid, cell)
        self.measures = measures
        self.border_axes = border_axes
        self.border = border
        self._stream = _Stream(labelling, self.region.size)
        self._depth = 0
        #: The number of components at the last `merge` that were not known to continue others, and of new
        #: ones since.
        self.pieces = 0
        self._id_dtype = np.uint64 if are_wide(grid) else np.uint32
        # First voxels of new components; columns of windows, and their numbers.
        self._first: list[np.ndarray] = []
        self._columns: list[Payload] = []
        self._numbers: list[np.ndarray] = []
        self._merged_at = _MERGED_AT
        self._digests: list[int] = []
        self._faces: dict[InterfaceKey, _Face] = {}
        z, y, x = cell
        for axis in range(3):
            if cell[axis] > 0:
                self._faces[axis, z, y, x] = _Face(axis, 0, labelling, self.region)
            if self.region.stop[axis] > self.core.stop[axis]:
                above = (axis, z + (axis == 0), y + (axis == 1), x + (axis == 2))
                self._faces[above] = _Face(
                    axis, self.region.shape[axis] - 1, labelling, self.region
                )

    def feed(
        self,
        block: Any,
        seeds: np.ndarray | None = None,
        extra: Callable[[Components], Payload] | None = None,
        threads: int = 1,
    ) -> int:
        """Label the next slices of the region, at least one; return the number of new components.

        Components with non-zero ``seeds`` are flagged in ``marked``; ``extra`` returns more columns.
        """
        # ``extra`` must not count voxels outside the core. A block that is not C-contiguous is copied.
        if block.shape[1:] != self.region.shape[1:] or not (
            0 < block.shape[0] <= self.region.shape[0] - self._depth
        ):
            raise ValueError(
                f"slab {self.cell} at slice {self._depth} of its region {self.region}: a window of "
                f"shape {block.shape} does not fit"
            )
        if not isinstance(block, MaskThere):
            block = np.ascontiguousarray(block)
        found, numbers, is_new, _ = self._stream.feed(block, threads)
        for face in self._faces.values():
            face.feed(block, self._depth, found, numbers)
        first = self._in_volume(found.first[is_new], block.shape)
        self.pieces += len(first)
        self._first.append(first.astype(self._id_dtype))
        columns = self._measured(found, seeds) | (extra(found) if extra else {})
        if columns:
            self._columns.append(columns)
            self._numbers.append(numbers)
        if sum(map(len, self._numbers)) > self._merged_at:
            self.merge()
            self._merged_at = 2 * self.pieces + _MERGED_AT
        self._digests.append(found.digest(threads=threads))
        self._depth += block.shape[0]
        return len(first)

    def _in_volume(self, voxels: np.ndarray, shape: Triple) -> np.ndarray:
        """Linear indices in the volume of voxels of the next window."""
        z0, y0, x0 = self.region.start
        _, ny, nx = self.grid.shape
        if shape[1:] == (ny, nx):
            return voxels + (z0 + self._depth) * ny * nx
        z, y, x = np.unravel_index(voxels, shape)
        return ((z + (z0 + self._depth)) * ny + (y + y0)) * nx + (x + x0)

    @property
    def nbytes(self) -> int:
        """Bytes for the components so far, at most, until they are summarized and ready for the merge."""
        first = self._columns[0] if self._columns else {}
        begun, piece = bytes_in_slab(self._id_dtype == np.uint64, column_bytes(first))
        return self._stream.count * begun + self.pieces * piece

    def merge(self) -> None:
        """Merge the columns of united pieces."""
        classes = self._stream.classes()
        self.pieces = kernels.count_roots(classes)
        if self._columns:
            columns = {
                name: np.concatenate([c[name] for c in self._columns]) for name in self._columns[0]
            }
            groups = self._ranks(classes)[np.concatenate(self._numbers)]
            self._columns = [merge_payload(columns, groups, self.pieces, self.rules)]
            self._numbers = [np.flatnonzero(classes == np.arange(len(classes)))]

    @staticmethod
    def _ranks(classes: np.ndarray) -> np.ndarray:
        """For each number, the rank of its class."""
        ranks = np.empty(len(classes), index_dtype(len(classes)))
        kernels.rank(classes, ranks)
        return ranks

    def _measured(self, found: Components, seeds: np.ndarray | None) -> Payload:
        n = len(found.first)
        columns: Payload = {}
        if self.measures:
            size = np.zeros(n + 1, np.int64)
            lower = np.full((n + 1, 3), np.iinfo(np.int64).max)
            upper = np.full((n + 1, 3), np.iinfo(np.int64).min)
            depth, rows, cols = self.core.shape
            core = np.array([min(found.shape[0], max(depth - self._depth, 0)), rows, cols])
            kernels.measure(*found.runs, found.shape[1], core, size, lower, upper)
            start = np.add(self.core.start, (self._depth, 0, 0))
            within = size > 0  # others are outside the core and stay neutral
            lower[within] += start
            upper[within] += start
            outermost = np.array(self.grid.shape) - self.border
            ends = (lower < self.border) | (upper > outermost)
            touches = within & np.any(ends[:, list(self.border_axes)], axis=1)
            measured = {
                "size": {"size": size[1:]},
                "box": {"lower": lower[1:], "upper": upper[1:]},
                "touches_border": {"touches_border": touches[1:]},
            }
            for name in self.measures:
                columns |= measured[name]
        if seeds is not None:
            marked = np.zeros(n + 1, np.bool_)
            kernels.mark(*found.runs, np.ascontiguousarray(seeds), marked)
            columns["marked"] = marked[1:]
        return columns

    def finish(self) -> SlabSummary:
        """Merge the windows, after all slices of the region."""
        if self._depth != self.region.shape[0]:
            raise ValueError(
                f"slab {self.cell}: {self._depth} slices of {self.region.shape[0]} were labelled"
            )
        self.merge()
        classes = self._stream.classes()
        groups = self._ranks(classes)
        ids = np.empty(self.pieces, self._id_dtype)
        windows, at, n = [], 0, 0
        for first in self._first:
            windows.append(groups[at : at + len(first)])
            n = kernels.copy_roots(classes, at, first, ids, n)
            at += len(first)
        return SlabSummary(
            cell=self.cell,
            ids=ids,
            payload=self._columns[0] if self._columns else {},
            interfaces={key: face.finish(groups) for key, face in self._faces.items()},
            windows=tuple(windows),
            digests=tuple(self._digests),
        )


class SlabRelabeler:
    """Find the components of a slab again in the second sweep: `feed` it the windows in order.

    For each window, ``ids`` are the answers for its new components; ``digests`` are from the first sweep.
    """

    def __init__(
        self, labelling: Labelling, ids: Iterable[np.ndarray], digests: Iterable[int]
    ) -> None:
        self._continuation = _Continuation(labelling)
        self._windows = zip(ids, digests, strict=True)

    def feed(self, block: np.ndarray, threads: int = 1) -> tuple[Components, np.ndarray]:
        """The components of the next window of the region, and the id of each.

        Raises ValueError: they differ from the first sweep.
        """
        ids, digest = next(self._windows)

        def checked(found: Components, new: int) -> np.ndarray:
            if new != len(ids) or found.digest(threads=threads) != digest:
                raise ValueError(
                    f"the labelled voxels differ from the first sweep ({new} components that "
                    f"begin in a window, then {len(ids)}). The input has changed, or an operation "
                    "before label returns different voxels when run again; store its result "
                    "(deterministic=False)"
                )
            return ids

        came = self._continuation.feed(block, threads, checked)
        return came.found, came.values


def painted_with(ids: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The table for `Components.paint`: 0, then the id of each component."""
    table = np.empty(len(ids) + 1, dtype)
    table[0], table[1:] = 0, ids
    return table
