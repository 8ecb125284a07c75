"""User functions of each object, with their results painted into one volume."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.across.rounds.chains import Within
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.base.geometry import Box, Grid, Triple
from beam_volumes.base.nesting import calling
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.elementwise import checked_dtype
from beam_volumes.graph.nodes import AcrossNode, Barrier
from beam_volumes.graph.traversal import voxels_per_label
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.objects import Region, StoredObjects, box_of
from beam_volumes.ops.labels.surveys.table_surveys import RegionSurvey
from beam_volumes.ops.parameters.building import converted
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import Block, digest, identity
from beam_volumes.sweep.survey import Completer, Completion

#: Assumed bytes of a function for each voxel of a box, in addition to its arguments and its result.
_FUNCTION_BYTES = 16
#: Boxes of up to so many voxels are processed in a slab of any size.
_SMALL = 1 << 18


@documented
def map_labels(
    labels: Volume,
    function: Callable[[Region], Any],
    *,
    dtype: DTypeLike | None = None,
    volumes: Sequence[Volume] = (),
    pad: int | Sequence[int] = 0,
    name: str | None = None,
    version: Any = None,
) -> Volume:
    """Apply your own function to each object, and combine the results in one volume.

    Use it for operations that need a whole object, such as skeletons, filled holes, smoothed
    outlines or convex hulls.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Stored labels, integers from 0; 0 is background.
    function : callable
        A function of a ``Region`` with ``label``, ``mask``, ``labels``, ``images``, ``start``,
        ``voxel_size`` and ``unit``, as in `for_each_label`. The function returns an array with the
        shape of ``mask``, or None to remove the object. It may be called several times for an
        object, and must return the same result.
    dtype : dtype, optional
        By default, the function returns the object's new voxels as a bool array, and the result is
        a volume of labels. Where several objects overlap, the largest label wins. With a dtype, the
        function returns numbers, which are used within the object's original voxels; the result is
        0 elsewhere.
    volumes : sequence of Volume, default: ()
        Stored volumes of the same shape, which are cropped to the same box.
    pad : int or sequence of int, default: 0
        Voxels to add to the box on each side, within the volume.
    name : str, optional
        With ``version``, identifies the function, so that a different process can resume a run.
    version : object, optional
        Change the version when the function changes.

    Returns
    -------
    Volume
        Labels of the input's dtype, or numbers of ``dtype``.

    Raises
    ------
    ValueError
        If labels or volumes are computed instead of stored, or shapes differ. On computation, if
        the function returns a different shape or dtype, or a box has more voxels than a slab.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype, or ``function``
        is not callable.

    See Also
    --------
    for_each_label : returns a table of numbers.
    map_overlap : applies a function to blocks.

    Notes
    -----
    Two sweeps: the first finds the bounding boxes, and the second calls the function. An object is
    processed in each slab that its box intersects. A worker holds the result of a slab, and boxes
    with at most as many voxels as the slab. For larger boxes, an error suggests more memory or
    deeper slabs.

    References
    ----------
    `skimage.measure.regionprops`, with ``image`` and ``slice``.

    Examples
    --------
    >>> from scipy import ndimage
    >>> labels = np.array([[3, 3, 3, 0], [3, 0, 3, 8], [3, 3, 3, 8]], "u1")
    >>> np.asarray(bv.map_labels(labels, lambda region: ndimage.binary_fill_holes(region.mask)))
    array([[3, 3, 3, 0],
           [3, 3, 3, 8],
           [3, 3, 3, 8]], dtype=uint8)
    >>> depth = lambda region: ndimage.distance_transform_edt(np.pad(region.mask, 1))[1:-1, 1:-1]
    >>> np.asarray(bv.map_labels(labels, depth, dtype="f4"))[2]
    array([1., 1., 1., 1.], dtype=float32)
    """
    what = "map_labels"
    objects = StoredObjects.of(labels, volumes, pad, what)
    if not callable(function):
        raise TypeError(f"{what}: function={function!r} is not callable")
    given = one_channel(labels)
    to = given.dtype if dtype is None else checked_dtype(dtype)
    regions = BoxSurvey.of(
        given.dtype,
        properties=["bbox"],
        axes=tuple(given.space.visible),
        name=what,
        voxels_per_label=voxels_per_label(given.node),
    )
    survey = replace(cast(BoxSurvey, regions), objects=objects)
    barrier = Barrier.of(survey, (given.node,))
    completion = PaintObjects(
        name or str(getattr(function, "__name__", what)),
        to,
        function,
        objects,
        dtype is None,
        identity(name, version),
    )
    operands = (given.node, *(n for v in volumes for n in as_volume(v).nodes))
    return given.derive(AcrossNode.of(barrier, completion, operands))


@dataclass(frozen=True, eq=False)
class BoxSurvey(RegionSurvey):
    """The boxes of labels; the answer for a slab has the labels with padded boxes that meet it."""

    objects: StoredObjects | None = field(default=None, kw_only=True)

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        assert self.objects is not None
        table = super().flow(grid, limit_bytes)
        names = {r.name: (r.name,) for r in table.rounds} | {"rows": ("boxes",)}
        first, *rest = (
            Within(r.name, tuple(n for to in r.to for n in names.get(to, ())), r, names)
            for r in table.rounds
        )
        return Flow(
            (
                _First(first.name, (*first.to, "answer"), first),
                *rest,
                _Boxes("boxes", ("answer",), self.objects, grid),
                _Answer("answer", ("answers",)),
            ),
            ("answers",),
        )

    def empty_numbers(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class _First(Round):
    """For a slab: pass its rows on, and request an answer even if it has no objects."""

    inner: Round

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield from self.inner.step(key, values)
        yield "answer", key, ((-1,), np.empty(0, np.uint64), np.empty((0, 2, 3), np.int64))


@dataclass(frozen=True, eq=False)
class _Boxes(Round):
    """For a shard of the table: send each box to the slabs that it meets."""

    objects: StoredObjects
    grid: Grid

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        rows, step = values[0], np.array(self.grid.step)
        labels, boxes = np.asarray(rows["label"]), self.objects.padded(self.objects.boxes(rows))
        found: dict[int, list[int]] = {}
        low, high = boxes[:, 0] // step, -(-boxes[:, 1] // step)
        first = np.ravel_multi_index(tuple(low.T), self.grid.counts).tolist()
        for k, (slab, is_one) in enumerate(
            zip(first, (high - low == 1).all(axis=1).tolist(), strict=True)
        ):
            slabs = [slab]
            if not is_one:
                cells = np.indices(high[k] - low[k]).reshape(3, -1) + low[k][:, None]
                slabs = np.ravel_multi_index(tuple(cells), self.grid.counts).tolist()
            for slab in slabs:
                found.setdefault(slab, []).append(k)
        for slab, some in found.items():
            yield "answer", (slab,), (key, labels[some], boxes[some])


class _Answer(Round):
    """For a slab: its labels, increasing, and their boxes."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        parts = {sender: some for sender, *some in values}.values()
        labels, boxes = (np.concatenate(found) for found in zip(*parts, strict=True))
        order = np.argsort(labels)
        yield "answers", key, (labels[order], boxes[order])


@dataclass(frozen=True, eq=False)
class PaintObjects(Completion):
    """The results of a function for each object of a slab."""

    function: Callable[[Region], Any]
    objects: StoredObjects
    as_labels: bool  #: Whether the function returns masks, which are painted as labels.
    identity: str  #: Identifies the function.

    upper = False
    #: Like a light network: its result is stored instead of computed twice.
    cost = 500.0

    def token(self) -> str:
        how = self.identity, self.objects.token(), self.as_labels, str(self.dtype)
        return digest("PaintObjects", self.name, *how)

    def max_voxels(self, shape: Triple) -> int:
        """Return the largest number of voxels in boxes that are held at a time."""
        return max(math.prod(shape), _SMALL)

    def state_bytes(self, shape: Triple, windows: int) -> int:
        each = 1 + _FUNCTION_BYTES + self.dtype.itemsize + self.objects.voxel_bytes
        each += self.objects.copied_bytes
        return math.prod(shape) * self.dtype.itemsize + self.max_voxels(shape) * each

    def begin(self, grid: Grid, index: int, answer: Any) -> Completer:
        return _Paint(self, grid.box(index), *answer)

    def of(self, label: int, box: Box, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
        """Return the result for an object in its box: its mask, or numbers that are 0 where it has none."""
        region = self.objects.region(label, box, arrays)
        try:
            with calling(self.name):
                given = self.function(region)
        except Exception as error:
            error.args = (f"{self.name}: label {label}: {error}", *error.args[1:])
            raise
        if given is None:
            return None
        found = np.asarray(given)
        wanted = np.dtype(bool) if self.as_labels else self.dtype
        if found.shape != region.mask.shape or (self.as_labels and found.dtype != bool):
            hint = "; give dtype= for numbers" if self.as_labels else ""
            raise ValueError(
                f"{self.name}: the function returned shape {found.shape} of {found.dtype} for label {label}; "
                f"it must return shape {region.mask.shape} of {wanted}{hint}"
            )
        if not self.as_labels:
            found = np.where(region.mask, found, found.dtype.type(0))
            found = converted(found, self.dtype, f"{self.name}: label {label}")
        return found.reshape(box.shape)


class _Paint(Completer):
    def __init__(self, how: PaintObjects, slab: Box, labels: np.ndarray, boxes: np.ndarray) -> None:
        self.how, self.slab, self.labels, self.boxes = how, slab, labels, boxes
        self.max_voxels = how.max_voxels(slab.shape)
        self.result: np.ndarray | None = None

    def run(
        self, arrays: tuple[np.ndarray, ...], out: Block, z: tuple[int, int], threads: int
    ) -> None:
        if self.result is None:
            self.result = np.zeros(self.slab.shape, self.how.dtype)
            for some in self._groups(np.arange(len(self.labels))):
                self._paint(some, threads)
        for k in range(out.depth):
            out.slice(k)[...] = self.result[z[0] + k]

    def _groups(self, some: np.ndarray) -> Iterator[np.ndarray]:
        """Divide objects so that each part is in a box that is read at once."""
        if not len(some):
            return
        start, stop = self._around(some)
        if math.prod((stop - start).tolist()) <= self.max_voxels:
            yield some
        elif len(some) == 1:
            box = box_of(self.boxes[some[0]])
            bytes_needed = self.how.state_bytes(box.shape, 1)
            raise ValueError(
                f"{self.how.name}: the box of label {self.labels[some[0]]} from {box.start} to {box.stop} "
                f"has more voxels than a slab of {' x '.join(map(str, self.slab.shape))}, and takes about "
                f"{format_bytes(bytes_needed)}: give more memory=, or slab= as deep as the objects, or "
                "remove large objects with remove_small_objects and relabel"
            )
        else:
            middle = self.boxes[some].sum(axis=1)
            order = np.argsort(middle[:, np.argmax(stop - start)], kind="stable")
            for half in np.array_split(some[order], 2):
                yield from self._groups(half)

    def _around(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.boxes[some, 0].min(axis=0), self.boxes[some, 1].max(axis=0)

    def _paint(self, some: np.ndarray, threads: int) -> None:
        around = box_of(np.stack(self._around(some)))
        read = self.how.objects.read(around)
        a, b, c = around.start

        def found(k: int) -> np.ndarray | None:
            box = box_of(self.boxes[k])
            (z0, y0, x0), (z1, y1, x1) = box.start, box.stop
            inside = slice(z0 - a, z1 - a), slice(y0 - b, y1 - b), slice(x0 - c, x1 - c)
            return self.how.of(int(self.labels[k]), box, [array[inside] for array in read])

        for part in self._batches(some):

            def several(a: int, b: int, part: list[int] = part) -> list[np.ndarray | None]:
                return [found(k) for k in part[a:b]]

            results = in_strips(len(part), len(part) << 30, threads, several)
            for k, result in zip(part, chain.from_iterable(results), strict=True):
                if result is not None:
                    self._put(self.labels[k], box_of(self.boxes[k]), result)

    def _batches(self, some: np.ndarray) -> Iterator[list[int]]:
        """Divide objects so that the results of a part fit in memory."""
        part, total = list[int](), 0
        for k in some.tolist():
            voxels = int((self.boxes[k, 1] - self.boxes[k, 0]).prod())
            if part and total + voxels > self.max_voxels:
                yield part
                part, total = [], 0
            part.append(k)
            total += voxels
        yield part

    def _put(self, label: np.uint64, box: Box, result: np.ndarray) -> None:
        assert self.result is not None
        here = box.intersect(self.slab)
        z, y, x = here.translate([-n for n in self.slab.start]).slices
        to = self.result[z, y, x]
        z, y, x = here.translate([-n for n in box.start]).slices
        new = result[z, y, x]
        if self.how.as_labels:  # the order of objects does not matter
            np.maximum(to, label.astype(to.dtype), out=to, where=new)
        else:
            np.copyto(to, new, where=new != 0)
