"""Corners of labels' outlines in a slab, as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beam_volumes.across.rounds.records import RecordRows, Records
from beam_volumes.across.rounds.tables import Columns
from beam_volumes.base.geometry import Triple
from beam_volumes.kernels.labels import outlines as kernels


@dataclass(frozen=True, eq=False)
class CornerRows(RecordRows):
    """Corners, by label and position; see `beam_volumes.kernels.labels.outlines`."""

    width: int = 1  #: Positions in a row of the image.
    #: Scale of y and x to coordinates, with ``offset``; None returns positions.
    scale: tuple[float, float] | None = None
    offset: tuple[float, float] = (0.0, 0.0)

    def columns(self, part: Records) -> Columns:
        label, place = part.columns.values()
        at = (place >> np.uint64(3)).astype(np.int64)
        yx = [at // self.width, at % self.width]
        if self.scale is not None:
            yx = [v * f + o for v, f, o in zip(yx, self.scale, self.offset, strict=True)]
        says = (place & np.uint64(7)).astype(np.uint8)
        return {"label": label, "y": yx[0], "x": yx[1], "corner": says}


def corner_rows(
    width: int,
    scale: tuple[float, float] | None = None,
    offset: tuple[float, float] = (0.0, 0.0),
) -> CornerRows:
    """The rows of an image with this width.

    >>> rows = corner_rows(3)
    >>> part = corners(rows, np.array([[7, 0], [0, 0]], "u1"), (0, 0, 0), (1, 2, 2), (0, 2))
    >>> rows.columns(rows.merge([part]))["y"].tolist()
    [0, 0, 1, 1]
    """
    return CornerRows((("label", "<u8"), ("place", "<u8")), 2, (), width + 1, scale, offset)


def corners(
    table: CornerRows, plane: np.ndarray, start: Triple, shape: Triple, rows: tuple[int, int]
) -> Records:
    """The corners of a slab's outlines in the given range of its rows.

    ``plane`` has the labels of the slab, and the next row and column if a neighbour follows.
    """
    # A corner belongs to the slab of the pixel before it, or of the first pixel after it at the image's
    # edges.
    (a, b), (_, y, x), (_, height, width) = rows, start, shape
    top, left = a - (y + a == 0), -(x == 0)
    part = plane[max(top, 0) : b + 1]
    # Outside the image is background.
    lower, right = y + b == height, x + plane.shape[1] == width
    pixels = np.zeros((len(part) + (top < 0) + lower, plane.shape[1] - left + right), np.uint64)
    inside = pixels[int(top < 0) : len(pixels) - lower, -left : pixels.shape[1] - right]
    inside[...] = part
    room = 1024
    while True:
        labels, places = np.empty(room, np.uint64), np.empty(room, np.uint64)
        n = kernels.corners(pixels, y + top + 1, x + left + 1, table.width, labels, places)
        if n <= room:
            return table.records({"label": labels[:n], "place": places[:n]})
        room = n
