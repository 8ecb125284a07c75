"""Sections of a region of any step, exact where the region suffices, else provisional and marked.

Numbers of a whole volume, such as Otsu's threshold, are first estimated from a sample of its voxels, and
replaced when the exact ones are known. Labels of a large volume are found in the region only.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.space import Space
from beam_volumes.drive.compute import plan_run, run
from beam_volumes.graph.indexing import at_points
from beam_volumes.graph.nodes import (
    BarrierValue,
    ConstantValue,
    CropNode,
    Fed,
    FoldValue,
    Node,
    SourceNode,
    ViewNode,
    below,
    in_order,
    with_sources,
)
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.traversal import everything
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.show.picture import GAP, Window, resized, tile, windows_of
from beam_volumes.show.sampling import along
from beam_volumes.show.sections import (
    MAX_CHANNELS,
    Sections,
    as_sections,
    box_around,
    normals,
    parts_of,
    plane_part,
)
from beam_volumes.show.viewer.precomputed_values import is_computed_whole, with_precomputed_values
from beam_volumes.storage.inputs.arrays import open_array

#: Volumes of so many voxels are computed whole if a step needs that; labels of larger ones are provisional.
MAX_WHOLE = 1 << 24
#: Voxels of the region in which labels are provisional.
MAX_REGION = 1 << 23
#: Bytes that may be read for exact numbers.
MAX_READ = 64 << 30
#: The shape of one of eight parts of a sample.
SAMPLE: Triple = (16, 64, 64)
#: Bins of a histogram.
BINS = 128
#: Bytes of results that are kept.
MAX_KEPT = 256 << 20


class Unavailable(ValueError):
    """A step cannot be shown without a run."""


@dataclass(frozen=True)
class Region:
    """The part of a volume that is looked at."""

    #: Where the sections meet, from 0 to 1 along z, y and x.
    at: tuple[float, float, float] = (0.5, 0.5, 0.5)
    #: Rows and columns of the sections, in voxels.
    side: int = 512
    #: The time point, and the channel; None for all.
    t: int = 0
    c: int | None = None


@dataclass(frozen=True, eq=False)
class View:
    """Sections of a step, and the provisional parts of it."""

    sections: Sections
    #: Why voxels may differ from the result of a run; empty if they are equal.
    provisional: tuple[str, ...] = ()
    #: Numbers that were estimated.
    numbers: tuple[FoldValue, ...] = ()

    def value(self, at: Sequence[float]) -> Any:
        """Return the voxel where the sections meet, if they meet at ``at``."""
        section = self.sections.sections[0]
        shape = self.sections.of.grid_shape
        row, column = (
            int(at[a] * shape[a]) - span[0]
            for a, span in zip(along(section.axis), section.spans, strict=True)
        )
        return section.voxels[0, row, column]


class Previews:
    """Computes views with ``memory`` as for `compute`, and keeps the latest; safe in several threads."""

    def __init__(self, memory: int | str | None = None) -> None:
        self._options = RunOptions(runner=None, progress=False, memory=memory)
        #: Exact numbers of whole volumes, and results of the last run, by token.
        self.exact: dict[str, ConstantValue] = {}
        self.results: dict[str, Any] = {}
        self._kept: OrderedDict[tuple[Hashable, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def limit_memory(self, memory: int | str | None) -> None:
        """Set the memory of each computation; None for the default."""
        self._options = replace(self._options, memory=memory)

    def check_memory(self, volume: Volume) -> None:
        """Raise ValueError if the memory is too small for sections of a volume that is an input."""
        nodes, shape = self._chosen(volume, Region()).nodes, volume.grid_shape
        boxes = [plane_part(shape, axis, Region().at, Region().side) for axis in normals(volume)]
        if 0 not in shape:
            plan_run(parts_of(nodes, boxes), self._options)

    def view(self, volume: Volume, region: Region, stop: threading.Event | None = None) -> View:
        """Return sections of a volume in a region; ``stop`` ends this with `session.local.Stopped`.

        Unavailable if the step depends on a large volume as a whole in a way that a part cannot show.
        """
        volume = self._chosen(volume, region)
        nodes, estimated = self._with_numbers(volume.nodes, stop)
        key = ("view", *(n.token for n in nodes), region)
        return self._cached(key, lambda: self._view(volume, nodes, estimated, region, stop))

    def part(self, volume: Volume, region: Region, stop: threading.Event | None = None) -> Volume:
        """Return a volume that can be computed chunk by chunk: the region, if it depends on the whole."""
        volume = self._chosen(volume, region)
        nodes, _ = self._with_numbers(volume.nodes, stop)
        nodes, box, _ = self._by_parts(nodes, region, stop)
        if len(volume.space.visible) < 3:
            return Volume(nodes, volume.space)
        inside = (..., *box.slices)
        return Volume(nodes, volume[inside].space)

    def voxels(
        self, volume: Volume, region: Region, stop: threading.Event | None = None
    ) -> np.ndarray:
        """Return the voxels of a box around the position of a region, of one channel."""
        volume = self._chosen(volume, region)
        nodes, _ = self._with_numbers(volume.nodes[:1], stop)
        key = ("voxels", nodes[0].token, region)
        shape = volume.grid_shape

        def compute() -> np.ndarray:
            (node,), box, _ = self._by_parts(nodes, region, stop)
            if box.shape == shape:
                box = _region_box(shape, region)
                node = CropNode.of(node, box)
            found = run([Volume(node, Space())], self._options, stop=stop).results[0]
            return np.asarray(found).reshape(box.shape)

        return self._cached(key, compute)

    def compute_numbers(self, numbers: Sequence[FoldValue], stop: threading.Event) -> bool:
        """Compute exact numbers of whole volumes, for later views; False if that reads too much."""
        wanted = [Scalar(n) for n in numbers if n.token not in self.exact]
        if not wanted:
            return True
        if plan_run(wanted, self._options).bytes_read > MAX_READ:
            return False
        found = run(wanted, self._options, stop=stop).results
        for scalar, number in zip(wanted, found, strict=True):
            value = scalar.value
            self.exact[value.token] = ConstantValue.of(np.asarray(number, value.dtype)[()])
        return True

    def number(
        self, scalar: Scalar, stop: threading.Event | None = None
    ) -> tuple[Any, tuple[FoldValue, ...]]:
        """Return a number, and the numbers in it that were estimated."""
        values = with_sources((scalar.value,), lambda source: source, self.results)
        (value,), estimated = self._with_numbers(values, stop)
        if any(_is_of_whole(i) and math.prod(_extent(i)) > MAX_WHOLE for i in everything([value])):
            raise Unavailable(f"{value.name} is known after a run")
        key = ("number", value.token)
        options = self._options
        return self._cached(
            key, lambda: run([Scalar(value)], options, stop=stop).results[0]
        ), estimated

    def histogram(
        self,
        volume: Volume,
        region: Region = Region(),
        stop: threading.Event | None = None,
    ) -> tuple[np.ndarray, float, float]:
        """Return counts of a sample of a volume's voxels, and the range of the bins.

        ``region`` chooses the time point and the channel.
        """
        nodes, _ = self._with_numbers(self._chosen(volume, region).nodes[:1], stop)
        if any(map(_is_of_whole, everything(nodes))):
            raise Unavailable("its histogram is known after a run")
        key = ("histogram", nodes[0].token)
        return self._cached(key, lambda: _counted(self._sample(nodes, stop)[0]))

    def add_results(self, targets: Sequence[Any], results: Sequence[Any]) -> None:
        """Show stored results and numbers of a run instead of what can be computed of a region."""
        for target, result in zip(targets, results, strict=True):
            if isinstance(target, Scalar):
                number = np.asarray(result, target.value.dtype)[()]
                self.results[target.value.token] = ConstantValue.of(number)
            elif isinstance(target, Target) and isinstance(result, Volume):
                pairs = zip(target.volume.nodes, result.nodes, strict=True)
                same = {a.token: b for a, b in pairs if (a.shape, a.dtype) == (b.shape, b.dtype)}
                self.results |= same

    # internals

    def _chosen(self, volume: Volume, region: Region) -> Volume:
        """Return the time point and the channels of a region, from results of the run if possible."""
        nodes = with_sources(volume.nodes, lambda source: source, self.results)
        volume = Volume(nodes, volume.space)
        if volume.space.times:
            volume = at_points(volume, min(region.t, volume.space.times - 1))
        many = len(nodes)
        if many == 1 or (region.c is None and many <= MAX_CHANNELS):
            return volume
        first = 0 if region.c is None else min(region.c, many - 1)
        chosen = slice(first, MAX_CHANNELS if region.c is None else first + 1)
        space = replace(volume.space, channels=volume.space.channels[chosen])
        return Volume(volume.nodes[chosen], space)

    def _cached(self, key: tuple[Hashable, ...], compute: Any) -> Any:
        """Return a kept result, or compute and keep it."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = compute()
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > 1 and sum(map(_bytes, self._kept.values())) > MAX_KEPT:
                self._kept.popitem(last=False)
        return found

    def _with_numbers(
        self, items: Sequence[Any], stop: threading.Event | None
    ) -> tuple[tuple[Any, ...], tuple[FoldValue, ...]]:
        """Return items with exact or estimated numbers of whole volumes, and the estimated ones."""
        instead: dict[str, Any] = {}
        estimated: list[FoldValue] = []
        for fold in in_order(items, lambda i: () if i.token in self.exact else below(i)):
            if fold.token in self.exact:
                instead[fold.token] = self.exact[fold.token]
                continue
            if not isinstance(fold, FoldValue):
                continue
            own: Any = with_sources((fold,), lambda s: s, instead)[0]
            is_small = math.prod(own.over) <= MAX_WHOLE
            if is_small or any(map(_is_of_whole, everything(own.nodes))):
                continue  # `_view` computes it
            key = ("estimate", own.token)
            instead[fold.token] = self._cached(key, lambda own=own: self._estimate(own, stop))
            estimated.append(fold)
        return with_sources(tuple(items), lambda s: s, instead), tuple(estimated)

    def _estimate(self, fold: FoldValue, stop: threading.Event | None) -> ConstantValue:
        """Return a number of a sample."""
        parts = {n.token: n for n in fold.nodes}
        arrays = self._sample(list(parts.values()), stop)
        sampled = {t: SourceNode.of(open_array(a)) for t, a in zip(parts, arrays, strict=True)}
        fed = [
            Fed(
                sampled[f.voxels.token],
                None if f.mask is None else sampled[f.mask.token],
                tuple(sampled[n.token] for n in f.others),
            )
            for f in fold.fed
        ]
        value = FoldValue.of(fold.reduction, fed, fold.parameters)
        number = run([Scalar(value)], self._options, stop=stop).results[0]
        return ConstantValue.of(np.asarray(number, fold.dtype)[()])

    def _sample(self, nodes: Sequence[Node], stop: threading.Event | None) -> list[np.ndarray]:
        """Return voxels of eight boxes of each node, exactly as a run computes them."""
        shape = nodes[0].shape
        boxes = [Box.of_shape(shape)]
        if math.prod(shape) > 8 * math.prod(SAMPLE):
            # Chunks often end at the quarters of a volume.
            centres = ([0.23 + 0.54 * k for k in at] for at in np.ndindex(2, 2, 2))
            boxes = [box_around(shape, at, SAMPLE) for at in centres]

        def compute() -> list[np.ndarray]:
            # A run of all boxes would compute the box around them.
            parts = [run(parts_of(nodes, [b]), self._options, stop=stop).results for b in boxes]
            return [
                np.concatenate(list(map(np.atleast_3d, each))) for each in zip(*parts, strict=True)
            ]

        return self._cached(("sample", *(n.token for n in nodes)), compute)

    def _view(
        self,
        volume: Volume,
        nodes: tuple[Node, ...],
        estimated: tuple[FoldValue, ...],
        region: Region,
        stop: threading.Event | None,
    ) -> View:
        shape, axes = volume.grid_shape, normals(volume)
        if 0 in shape:
            raise Unavailable("it has no voxels")
        remarks = [f"{', '.join(f.name for f in estimated)} of a sample"] if estimated else []
        nodes, box, remark = self._by_parts(nodes, region, stop)
        at: Sequence[float] = region.at
        if remark:
            remarks.append(remark)
            at = [
                (int(f * n) - s + 0.5) / m
                for f, n, s, m in zip(at, shape, box.start, box.shape, strict=True)
            ]
        boxes = [plane_part(box.shape, axis, at, None if remark else region.side) for axis in axes]
        planes = run(parts_of(nodes, boxes), self._options, stop=stop).results
        found = as_sections(planes, [b.translate(box.start) for b in boxes], axes)
        return View(Sections(volume, tuple(found), "; ".join(remarks)), tuple(remarks), estimated)

    def _by_parts(
        self, nodes: tuple[Node, ...], region: Region, stop: threading.Event | None
    ) -> tuple[tuple[Node, ...], Box, str]:
        """Return nodes that can be computed in parts, their box in the volume, and a remark.

        Small volumes are computed whole if that is needed; of large ones the nodes are the region only.
        """
        shape = nodes[0].shape
        needed = [i for i in everything(nodes) if _is_of_whole(i)]
        if not needed:
            return nodes, Box.of_shape(shape), ""
        if max(math.prod(_extent(i)) for i in needed) <= MAX_WHOLE:
            key = ("whole", *(n.token for n in nodes))
            nodes = self._cached(key, lambda: with_precomputed_values(nodes, stop=stop))
            return nodes, Box.of_shape(shape), ""
        box = _region_box(shape, region)
        part = _of_part(nodes, shape, box)
        if part is None:
            raise Unavailable(
                f"{needed[0].name} depends on the whole volume; run the recipe, or crop its input to "
                "look at it"
            )
        return part, box, f"{needed[0].name} of the region only"


def _region_box(shape: Triple, region: Region) -> Box:
    """Return the box in which labels of a large volume are provisional."""
    depth = max(8, MAX_REGION // region.side**2)
    return box_around(shape, region.at, (depth, region.side, region.side))


def _of_part(nodes: Sequence[Node], shape: Triple, box: Box) -> tuple[Node, ...] | None:
    """Return nodes computed from a box of the exact inputs of their operations on whole volumes.

    None if a node after these operations has another shape.
    """
    of_whole: set[str] = set()
    instead: dict[str, Any] = {}
    roots: list[Any] = list(nodes)
    for item in in_order(roots, below):
        operands = below(item)
        if not _is_of_whole(item) and of_whole.isdisjoint(i.token for i in operands):
            continue
        of_whole.add(item.token)
        parts = [i for i in operands if isinstance(i, Node) and i.token not in of_whole]
        moves = isinstance(item, CropNode | ViewNode)
        if moves or any(i.shape != shape for i in (*parts, item) if isinstance(i, Node)):
            return None
        instead |= {i.token: CropNode.of(i, box) for i in parts}
    return with_sources(nodes, lambda source: source, instead)


def _bytes(found: Any) -> int:
    """Return the memory of a result."""
    if isinstance(found, View):
        return sum(s.voxels.nbytes for s in found.sections.sections)
    if isinstance(found, list | tuple):
        return sum(map(_bytes, found))
    if isinstance(found, Node):
        arrays = [n for n in everything([found]) if isinstance(n, SourceNode)]
        return sum(getattr(n.source.array, "nbytes", 0) for n in arrays)
    return getattr(found, "nbytes", 0) + 1000


def _extent(item: Any) -> Triple:
    found: Triple = item.over if isinstance(item, FoldValue) else item.shape
    return item.barrier.shape if isinstance(item, BarrierValue) else found


def _is_of_whole(item: Any) -> bool:
    """Whether an item depends on all voxels of a volume."""
    return isinstance(item, FoldValue | BarrierValue) or is_computed_whole(item)


def _counted(voxels: np.ndarray) -> tuple[np.ndarray, float, float]:
    values = voxels[np.isfinite(voxels)] if voxels.dtype.kind == "f" else voxels.ravel()
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    high = high if high > low else low + 1
    return np.histogram(values.astype(np.float64), BINS, (low, high))[0], low, high


def painted(view: View, size: int, window: Window | None = None) -> dict[int, np.ndarray]:
    """Return a view's sections as pictures by axis; the longest side has ``size`` pixels."""
    windows, labels = windows_of(view.sections, (0.5, 99.5))
    if window is not None and not labels:
        windows = [window] * len(windows)
    return {s.axis: tile(view.sections, s, size, windows, labels) for s in view.sections.sections}


def overlaid(image: np.ndarray, labels: np.ndarray, opacity: float = 0.5) -> np.ndarray:
    """Return a picture with the colours of labels over it, where they are not black.

    >>> overlaid(np.full((1, 2, 3), 100, "u1"), np.array([[[0, 0, 0], [200, 0, 0]]], "u1"))[0].tolist()
    [[100, 100, 100], [150, 50, 50]]
    """
    if image.shape != labels.shape:  # of a thinner region
        return labels
    mixed = (1 - opacity) * image + opacity * labels
    shown = labels.any(axis=-1, keepdims=True)
    return np.where(shown, mixed, image).round().astype(np.uint8)


def side_by_side(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return two pictures next to each other, with a line between them.

    >>> side_by_side(np.zeros((1, 2, 3), "u1"), np.ones((1, 2, 3), "u1"))[0, :, 0].tolist()
    [0, 0, 25, 25, 25, 25, 1, 1]
    """
    if before.shape != after.shape:
        before = resized(before, after.shape[0], after.shape[1], mixed=False)
    gap = np.full((len(after), GAP, 3), (25, 118, 210), np.uint8)
    return np.concatenate([before, gap, after], axis=1)


def joined(before: np.ndarray, after: np.ndarray, part: float) -> np.ndarray:
    """Return the left part of one picture and the rest of another.

    >>> joined(np.zeros((1, 4, 3), "u1"), np.ones((1, 4, 3), "u1"), 0.5)[0, :, 0].tolist()
    [0, 0, 1, 1]
    """
    if before.shape != after.shape:
        return after
    column = round(part * after.shape[1])
    return np.concatenate([before[:, :column], after[:, column:]], axis=1)
