"""Voxels as colours: intensities in a window of percentiles, labels by their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from beam_volumes.graph.nodes import AcrossNode
from beam_volumes.graph.volume import Volume

#: Colours of several channels, which are added.
CHANNELS = ((0, 255, 0), (255, 0, 255), (0, 255, 255), (255, 255, 0), (255, 64, 64), (96, 96, 255))
#: The colour of voxels that are not finite.
NOT_FINITE = (176, 32, 32)
#: The colour of boundaries between labels.
BOUNDARY = (255, 255, 0)
#: Colours of red, green and blue channels, and of one for opacity, which is not shown.
RGB = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0))
_NAMES = ({"r", "red"}, {"g", "green"}, {"b", "blue"}, {"a", "alpha"})

Window = tuple[float, float]


def is_labels(volume: Volume) -> bool:
    """Whether voxels are labels: results of `label`, and integers of 32 and 64 bits.

    >>> is_labels(bv.open(np.zeros((4, 5), "u4"))), is_labels(bv.open(np.zeros((4, 5), "u1")))
    (True, False)
    """
    wide = volume.dtype.kind in "iu" and volume.dtype.itemsize >= 4
    return wide or (isinstance(volume.nodes[0], AcrossNode) and volume.dtype.kind in "iu")


def is_rgb(volume: Volume) -> bool:
    """Whether channels are red, green and blue, by their names; for bytes also the names 0, 1 and 2."""
    names = [name.lower() for name in volume.channels]
    if names == ["0", "1", "2"]:
        return volume.dtype == np.uint8
    return len(names) in (3, 4) and all(n in known for n, known in zip(names, _NAMES, strict=False))


def colours_of(volume: Volume) -> tuple[tuple[int, int, int], ...]:
    """Return the colours of the channels of a volume; more channels repeat them."""
    return RGB if is_rgb(volume) else CHANNELS


def window_of(planes: Iterable[np.ndarray], percentiles: Window) -> Window:
    """Return the window of intensities between two percentiles.

    >>> window_of([np.arange(101.0)], (1, 99))
    (1.0, 99.0)
    """
    parts = [p.ravel() for p in planes]
    found = np.concatenate(parts) if parts else np.empty(0)
    if found.dtype.kind == "f":
        found = found[np.isfinite(found)]
    if not found.size:
        return 0.0, 1.0
    if found.dtype.kind == "b":
        return 0.0, 1.0
    low, high = np.percentile(found.astype(np.float64), percentiles)
    if low == high:  # a few bright voxels on a background, or a constant
        low, high = float(found.min()), float(found.max())
    return float(low), float(high)


def grey(plane: np.ndarray, window: Window) -> np.ndarray:
    """Return intensities as bytes: 0 below the window, 255 above; 128 for a constant."""
    low, high = window
    with np.errstate(all="ignore"):
        values = plane.astype(np.float64)
        level = (values - low) / (high - low) if high > low else np.where(values == 0, 0.0, 0.5)
        return np.nan_to_num(np.clip(level, 0, 1) * 255, nan=0).round().astype(np.uint8)


def coloured(labels: np.ndarray) -> np.ndarray:
    """Return labels as colours that only depend on the label; 0 is black.

    >>> colours = coloured(np.array([[0, 1, 2, 1]]))
    >>> colours[0, 0].tolist(), bool((colours[0, 1] == colours[0, 3]).all())
    ([0, 0, 0], True)
    """
    ids = np.ascontiguousarray(labels).astype(np.int64, copy=False).view(np.uint64)
    mixed = ids * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    hue = (mixed >> np.uint64(40)).astype(np.float64) / 2**24 * 6
    value = 150 + ((mixed >> np.uint64(20)) & np.uint64(63)).astype(np.float64) * 105 / 63
    parts = [np.clip(np.abs((hue + turn) % 6 - 3) - 1, 0, 1) for turn in (0, 4, 2)]
    rgb = np.stack([value * (0.3 + 0.7 * p) for p in parts], axis=-1)
    rgb[ids == 0] = 0
    return rgb.round().astype(np.uint8)


def painted(
    channels: np.ndarray,
    windows: Sequence[Window],
    labels: bool,
    colours: Sequence[tuple[int, int, int]] = CHANNELS,
) -> np.ndarray:
    """Combine planes of several channels into an RGB picture of bytes."""
    if labels:
        return coloured(channels[0])
    if len(channels) == 1:
        picture = np.repeat(grey(channels[0], windows[0])[..., None], 3, axis=-1)
    else:
        total = np.zeros((*channels.shape[1:], 3))
        for plane, window, colour in zip(channels, windows, colours, strict=False):
            total += grey(plane, window)[..., None] * (np.array(colour) / 255)
        picture = np.minimum(total, 255).round().astype(np.uint8)
    if channels.dtype.kind == "f":
        picture[~np.isfinite(channels).all(axis=0)] = NOT_FINITE
    return picture
