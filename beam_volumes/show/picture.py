"""Sections combined into one picture, in the proportions of their voxels; PNG."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.base import codecs as imagecodecs
from beam_volumes.graph.volume import Volume
from beam_volumes.show.colours import (
    BOUNDARY,
    Window,
    colours_of,
    is_labels,
    is_rgb,
    painted,
    window_of,
)
from beam_volumes.show.sampling import Section, along
from beam_volumes.show.sections import Sections

#: Pixels between sections, and their grey value.
GAP, PAPER = 4, 236
#: Minimal size of a section in pixels, so that a few slices of a large plane are visible.
THINNEST = 12


def png(picture: np.ndarray) -> bytes:
    """Encode a picture of bytes as PNG."""
    return bytes(imagecodecs.png_encode(np.ascontiguousarray(picture)))


def png_uri(picture: np.ndarray) -> str:
    """Return a picture as a data URI, for pages without other files."""
    return f"data:image/png;base64,{base64.b64encode(png(picture)).decode()}"


def windows_of(
    found: Sections, percentiles: Window, labels: bool | None = None
) -> tuple[list[Window], bool]:
    """Return the window of each channel, and whether the volume is shown as labels.

    Red, green and blue have one window, so grey stays grey; bytes are shown as they are.
    """
    as_labels = is_labels(found.of) if labels is None else labels
    if as_labels or not found.sections:
        return [], as_labels
    return channel_windows([s.voxels for s in found.sections], found.of, percentiles), False


def channel_windows(
    planes: Sequence[np.ndarray], volume: Volume, percentiles: Window
) -> list[Window]:
    """Return the window of each channel of intensities."""
    many = len(planes[0])
    if not is_rgb(volume):
        return [window_of((p[k] for p in planes), percentiles) for k in range(many)]
    is_bytes = volume.dtype == np.uint8
    return [(0.0, 255.0) if is_bytes else window_of((p[:3] for p in planes), percentiles)] * many


def lengths_of(volume: Volume, section: Section) -> tuple[float, float]:
    """Return the lengths of rows and columns of a section, in the volume's unit or in voxels."""
    size: Any = volume.space.voxel_size or (1.0, 1.0, 1.0)
    rows, columns = (
        (b - a) * abs(size[axis]) or 1.0
        for (a, b), axis in zip(section.spans, along(section.axis), strict=True)
    )
    return rows, columns


def picture(
    found: Sections,
    size: int,
    windows: Sequence[Window],
    labels: bool,
    over: Sequence[Section] = (),
) -> np.ndarray:
    """Combine sections into one picture: z in the corner, x to its right, y below.

    The longest section has ``size`` pixels. Boundaries of the labels in ``over`` are drawn.
    """
    if not found.sections:
        return np.full((THINNEST, THINNEST, 3), PAPER, np.uint8)
    tiles = {s.axis: tile(found, s, size, windows, labels) for s in found.sections}
    spans = {s.axis: s.spans for s in found.sections}
    for of in over:
        if of.axis in tiles:
            draw_boundaries(tiles[of.axis], spans[of.axis], of)
    if len(tiles) == 1:
        return next(iter(tiles.values()))
    sizes = {a: tile.shape[:2] for a, tile in tiles.items()}
    # Rows of z and x are y, columns of z and y are x; columns of x and rows of y are z.
    height = max(sizes.get(0, (0, 0))[0], sizes.get(2, (0, 0))[0])
    width = max(sizes.get(0, (0, 0))[1], sizes.get(1, (0, 0))[1])
    below, right = sizes.get(1, (0, 0))[0], sizes.get(2, (0, 0))[1]
    whole = np.full(
        (
            height + below + GAP * bool(height and below),
            width + right + GAP * bool(width and right),
            3,
        ),
        PAPER,
        np.uint8,
    )
    corners = {
        0: (0, 0),
        1: (height + GAP * bool(height), 0),
        2: (0, width + GAP * bool(width)),
    }
    for axis, part in tiles.items():
        y, x = corners[axis]
        whole[y : y + part.shape[0], x : x + part.shape[1]] = part
    return whole


def tile(
    found: Sections, section: Section, size: int, windows: Sequence[Window], labels: bool
) -> np.ndarray:
    """Return one section as a picture, scaled relative to the longest."""
    longest = max(max(lengths_of(found.of, s)) for s in found.sections)
    rows, columns = (
        max(THINNEST, round(length / longest * size)) for length in lengths_of(found.of, section)
    )
    return resized(
        painted(section.voxels, windows, labels, colours_of(found.of)),
        rows,
        columns,
        mixed=not labels,
    )


def draw_boundaries(tile: np.ndarray, spans: Any, labels: Section) -> None:
    """Draw the boundaries of a section of labels on a picture of some rows and columns.

    >>> tile = np.zeros((1, 4, 3), "u1")
    >>> draw_boundaries(tile, ((0, 1), (0, 8)), Section(0, 0, np.array([[[1, 1, 2]]]), ((0, 1), (2, 8))))
    >>> tile[0, :, 0].tolist()
    [0, 255, 0, 255]
    """
    at = []
    for axis, ((a, b), (c, d)) in enumerate(zip(spans, labels.spans, strict=True)):
        n, m = tile.shape[axis], labels.voxels.shape[axis + 1]
        voxels = a + (np.arange(n) + 0.5) * (b - a) / n
        at.append(np.clip(np.floor((voxels - c) * m / (d - c)).astype(int), -1, m) + 1)
    shown = np.pad(labels.voxels[0], 1)[np.ix_(*at)]
    is_boundary = np.zeros(shown.shape, bool)
    is_boundary[1:] |= shown[1:] != shown[:-1]
    is_boundary[:, 1:] |= shown[:, 1:] != shown[:, :-1]
    tile[is_boundary] = BOUNDARY


def resized(picture: np.ndarray, rows: int, columns: int, mixed: bool) -> np.ndarray:
    """Resize a picture: enlarge by repeating pixels, reduce by means or by the middle pixel.

    >>> resized(np.array([[[0], [2]], [[4], [6]]], "u1"), 1, 4, mixed=True)[..., 0].tolist()
    [[2, 2, 4, 4]]
    """
    for axis, target in ((0, rows), (1, columns)):
        n = picture.shape[axis]
        if n > target and mixed:
            starts = np.arange(target) * n // target
            counts = np.diff(np.append(starts, n))
            sums = np.add.reduceat(picture.astype(np.float64), starts, axis)
            shape = [1] * picture.ndim
            shape[axis] = target
            picture = (sums / counts.reshape(shape)).round().astype(np.uint8)
        elif n != target:
            picture = np.take(picture, (2 * np.arange(target) + 1) * n // (2 * target), axis)
    return picture
