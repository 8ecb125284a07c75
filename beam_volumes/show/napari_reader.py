"""A reader for napari: opens everything that `beam_volumes.open` does.

Planes are read when they are shown. ``beam_volumes/napari.yaml`` refers to it. napari itself is not
imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from beam_volumes.base.text import format_bytes
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.options import options
from beam_volumes.graph.volume import Volume
from beam_volumes.show.colours import colours_of, is_labels, is_rgb
from beam_volumes.show.picture import windows_of
from beam_volumes.show.sampling import coarser
from beam_volumes.show.sections import sections

#: A layer of napari: voxels, options such as name and position, and the kind of layer.
Layer = tuple[Any, dict[str, Any], str]


class Planes:
    """A volume without channels as an array that is read or computed when it is indexed."""

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
        self.shape, self.dtype, self.ndim = volume.shape, volume.dtype, volume.ndim
        self.size, self.nbytes = volume.size, volume.nbytes

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys[at : at + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        keys += [slice(None)] * (self.ndim - len(keys))
        crop, after = [], []
        for k, n in zip(keys, self.shape, strict=True):
            if isinstance(k, slice):
                wanted = range(n)[k]
                low, high = (min(wanted), max(wanted) + 1) if wanted else (0, 0)
                crop.append(slice(low, high))
                after.append(slice(None, None, k.step) if wanted else slice(0, 0))
            else:
                crop.append(int(k))  # type: ignore[arg-type]
        part = self._volume[tuple(crop)]
        if part.nbytes > options.max_inmemory:
            raise ValueError(
                f"{part!r} is larger than options.max_inmemory, "
                f"{format_bytes(options.max_inmemory)}; view planes of it, or a level of a pyramid"
            )
        if not part.size:
            return np.empty(part.shape, part.dtype)
        return np.asarray(part)[tuple(after)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[...], dtype)


def get_reader(path: str | Sequence[str]) -> Callable[[Any], list[Layer]] | None:
    """Return the reader of a path for napari; None if it cannot be opened."""
    try:
        open_volume(_place(path))
    except (OSError, ValueError, TypeError):
        return None
    return read


def read(path: str | Sequence[str]) -> list[Layer]:
    place = _place(path)
    name = place if isinstance(place, str) else place[0]
    return layers(open_volume(place), os.path.basename(name.rstrip("/")))


def _place(path: str | Sequence[str]) -> str | list[str]:
    if isinstance(path, str | os.PathLike):
        return os.fspath(path)
    return os.fspath(path[0]) if len(path) == 1 else [os.fspath(p) for p in path]


def layers(volume: Volume, name: str) -> list[Layer]:
    """Return a volume, stored or not, as layers of napari: one, or one for each channel.

    >>> (planes, about, kind), = layers(bv.open(np.ones((2, 3, 4)), voxel_size=2, unit="nm"), "em")
    >>> planes.shape, about["scale"], kind
    ((2, 3, 4), [2.0, 2.0, 2.0], 'image')
    """
    labels = is_labels(volume)
    names = volume.channels
    found: list[Layer] = []
    for c in range(len(volume.nodes)):
        one = volume.sel(c=c) if names else volume
        about = {"name": f"{name} {names[c]}" if names else name, **_place_of(one)}
        if labels:
            found.append((_levels(one), about, "labels"))
            continue
        about["contrast_limits"] = _limits(volume if is_rgb(volume) else one)
        if names:
            colours = colours_of(volume)
            red, green, blue = (v / 255 for v in colours[c % len(colours)])
            about |= {"colormap": [[0.0, 0.0, 0.0], [red, green, blue]], "blending": "additive"}
        found.append((_levels(one), about, "image"))
    return found


def _levels(volume: Volume) -> Any:
    """Return a volume, or a list of it and the levels of its pyramid."""
    node = volume.nodes[0]
    levels = [] if not isinstance(node, SourceNode) or volume.space.times else coarser(node.source)
    if not levels:
        return Planes(volume)
    lower = [Volume(SourceNode.of(source), volume.space) for source in levels]
    return [Planes(volume), *map(Planes, lower)]


def _place_of(volume: Volume) -> dict[str, Any]:
    """Return scale, translation and units along the volume's axes; time counts points."""
    before = volume.ndim - len(volume.space.axes)
    size = volume.voxel_size or (1.0,) * len(volume.space.axes)
    return {
        "scale": [1.0] * before + [float(s) for s in size],
        "translate": [0.0] * before + [float(o) for o in volume.origin],
        "axis_labels": volume.axes,
        "units": ("pixel",) * before + (volume.unit or "pixel",) * len(volume.space.axes),
    }


def _limits(volume: Volume) -> tuple[float, float]:
    try:
        found = sections(volume, max_size=256, max_bytes=64 << 20)
        low, high = (windows_of(found, (0.5, 99.5), labels=False)[0] or [(0.0, 1.0)])[0]
    except ValueError:
        low, high = 0.0, 1.0
    return (low, high) if low < high else (low, low + 1)
