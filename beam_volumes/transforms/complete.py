"""Check that slabs fill an output: voxels that no slab has written would be read as the fill value.

Slabs consist of whole write units. The check counts units, one bit each, by layers along z. It
reads no voxels, and keeps only the boxes that are missing in a layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.typehints import Tuple, with_output_types

from beam_volumes.base.geometry import Box, Grid
from beam_volumes.transforms.passes import slab_ranges
from beam_volumes.transforms.waiting import in_global_window

#: Boxes that are kept, and listed in messages.
_KEPT, _NAMED = 1000, 5

#: Range of rows and columns of units: y start and stop, x start and stop.
Span = tuple[int, int, int, int]
#: Range of units along z, y and x: start and stop of each.
Place = tuple[int, int, int, int, int, int]
#: Number of missing units, and their places.
Missing = tuple[int, list[Place]]


class CheckComplete(beam.PTransform):
    """Fail if boxes do not fill an output: PCollection of boxes to one number, of units.

    Boxes consist of whole ``units``. A message lists the missing ``slabs``, or else the missing boxes.
    """

    def __init__(self, name: str, units: Grid, slabs: Grid | None = None):
        super().__init__()
        self.name, self.units, self.slabs = name, units, slabs

    def expand(self, boxes: beam.PCollection[Box]) -> beam.PCollection[int]:
        layers, rows, cols = self.units.counts if len(self.units) else (0, 0, 0)
        spans = boxes | "Units" >> beam.FlatMap(_spans, self.units).with_output_types(_Spanned)
        # A volume is complete or not, regardless of windows.
        given = spans | "Together" >> in_global_window(boxes)
        # Layers without any box are missing, too.
        wanted = (
            boxes.pipeline
            | "Layers" >> beam.Create(slab_ranges(max(1, layers)))
            | "Each" >> beam.FlatMap(_nothing_of).with_output_types(_Spanned)
            | "Layers together" >> in_global_window(boxes)
        )
        return (
            (given, wanted)
            | beam.Flatten()
            | "Cover" >> beam.CombinePerKey(Uncovered(rows, cols))
            | "Count" >> beam.CombineGlobally(CountMissing()).without_defaults()
            | "Check" >> beam.Map(_check, self.name, self.units, self.slabs).with_output_types(int)
        )


_Spanned: Any = Tuple[Tuple[int, ...], Tuple[int, ...]]


def _spans(box: Box, units: Grid) -> Iterator[tuple[tuple[int], Span]]:
    """For each layer of units, the range that a box covers."""
    (z0, z1), (y0, y1), (x0, x1) = (
        (a // u, -(-b // u)) for a, b, u in zip(box.start, box.stop, units.step, strict=True)
    )
    for z in range(z0, z1):
        yield (z,), (y0, y1, x0, x1)


def _nothing_of(layers: tuple[int, int]) -> Iterator[tuple[tuple[int], Span]]:
    for z in range(*layers):
        yield (z,), (0, 0, 0, 0)


class Uncovered(beam.CombineFn):
    """From covered ranges of a layer of units to the missing ones, in any order."""

    def __init__(self, rows: int, cols: int):
        self.shape = (rows, cols)

    def create_accumulator(self) -> np.ndarray:
        return np.zeros(self.shape, bool)

    def add_input(self, covered: np.ndarray, span: Sequence[int]) -> np.ndarray:
        y0, y1, x0, x1 = span
        covered[y0:y1, x0:x1] = True
        return covered

    def merge_accumulators(self, several: Iterable[np.ndarray]) -> np.ndarray:
        merged = self.create_accumulator()
        for covered in several:
            merged |= covered
        return merged

    def extract_output(self, covered: np.ndarray) -> tuple[int, list[Span]]:
        return int(covered.size - np.count_nonzero(covered)), rectangles(~covered)[:_KEPT]


def rectangles(missing: np.ndarray) -> list[Span]:
    """Rectangles that cover the true elements of a plane: runs along x, joined along y if equal.

    >>> rectangles(np.array([[1, 0, 1], [1, 0, 1], [0, 0, 1]], bool))
    [(0, 2, 0, 1), (0, 3, 2, 3)]
    """
    found: list[Span] = []
    open_: dict[tuple[int, int], int] = {}
    for y in range(len(missing) + 1):
        row = missing[y] if y < len(missing) else np.zeros(missing.shape[1:], bool)
        edges = np.flatnonzero(np.diff(row, prepend=False, append=False)).tolist()
        runs = set(zip(edges[::2], edges[1::2], strict=True))
        found += [(y0, y, *run) for run, y0 in open_.items() if run not in runs]
        open_ = {run: open_.get(run, y) for run in runs}
    return sorted(found)


@with_output_types(Tuple[int, Any])
class CountMissing(beam.CombineFn):
    """The number of missing units, and their boxes joined along z."""

    def create_accumulator(self) -> Missing:
        return 0, []

    def add_input(
        self, before: Missing, layer: tuple[tuple[int], tuple[int, list[Span]]]
    ) -> Missing:
        (z,), (count, spans) = layer
        return before[0] + count, before[1] + [(z, z + 1, *span) for span in spans]

    def merge_accumulators(self, several: Iterable[Missing]) -> Missing:
        parts = list(several)
        return self.compact((sum(n for n, _ in parts), [p for _, places in parts for p in places]))

    def compact(self, missing: Missing) -> Missing:
        return missing[0], _joined(missing[1])[:_KEPT]

    def extract_output(self, missing: Missing) -> Missing:
        return self.compact(missing)


def _joined(places: list[Place]) -> list[Place]:
    """Join equal rectangles that follow each other along z."""
    found: list[Place] = []
    for span, alike in groupby(sorted(places, key=lambda p: (p[2:], p)), key=lambda p: p[2:]):
        for z0, z1, *_ in alike:
            if found and found[-1][2:] == span and found[-1][1] == z0:
                found[-1] = (found[-1][0], z1, *span)
            else:
                found.append((z0, z1, *span))
    return sorted(found)


def _check(missing: Missing, name: str, units: Grid, slabs: Grid | None) -> int:
    count, places = missing
    total = len(units)
    if not count:
        return total
    boxes = [_box(place, units) for place in places]
    if slabs is not None:
        boxes = list({slabs.box(i): None for box in boxes for i in _cells(slabs, box)})
    several = f"{len(boxes):,} slabs are" if len(boxes) > 1 else "a slab is"
    more = f" and {len(boxes) - _NAMED:,} more" if len(boxes) > _NAMED else ""
    raise ValueError(
        f"{name} is not complete: {'at least ' if len(places) == _KEPT else ''}{several} missing, "
        f"at {', '.join(map(str, boxes[:_NAMED]))}{more} ({count:,} of {total:,} write units, "
        "which read as 0); give WriteSlabs all slabs, or partial=True to write an incomplete "
        "volume"
    )


def _box(place: Place, units: Grid) -> Box:
    z0, z1, y0, y1, x0, x1 = place
    step, shape = units.step, units.shape
    start = tuple(a * u for a, u in zip((z0, y0, x0), step, strict=True))
    stop = tuple(min(b * u, n) for b, u, n in zip((z1, y1, x1), step, shape, strict=True))
    return Box(start, stop)  # type: ignore[arg-type]


def _cells(grid: Grid, box: Box) -> Iterator[int]:
    """The cells of a grid that a box touches."""
    _, ny, nx = grid.counts
    z, y, x = (
        range(a // s, -(-b // s)) for a, b, s in zip(box.start, box.stop, grid.step, strict=True)
    )
    return ((i * ny + j) * nx + k for i in z for j in y for k in x)
