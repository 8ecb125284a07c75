"""User-defined names of the axes of a source: a file's z may be time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Box
from beam_volumes.base.space import AXES, LEADING, Space
from beam_volumes.storage.places.place import Spec
from beam_volumes.storage.sources.axes import position_along
from beam_volumes.storage.sources.source import ForwardingReader, Source

T = TypeVar("T")

_LETTERS = (*LEADING, *AXES)


def letters_of(axes: Any) -> tuple[str, ...]:
    """Return the letters of axes, e.g. ``"tyx"``: some of t, c, z, and y and x, each once."""
    given = [str(a).lower() for a in axes] if isinstance(axes, str | Sequence) else []
    if not {"y", "x"} <= set(given) <= set(_LETTERS) or len(set(given)) < len(given):
        raise ValueError(
            f"axes={axes!r} is not valid; give a different letter of t, c, z, y, x for each axis, including "
            "y and x, e.g. axes='tyx'"
        )
    return tuple(given)


def renamed(source: Source, letters: Sequence[str], is_file: bool = False) -> Source:
    """Return a source with other names of its visible axes; a new spatial axis has voxels of size 1.

    Axes t and c of extent 1 may be left out. A file may lack axes of extent 1: they are added.
    """
    space, first = source.space, len(source.leading)
    # Positions of the visible axes among all axes of the reader.
    visible = [*range(first), *(first + a for a in space.visible)]
    sizes = [*source.leading, *source.shape]
    place = _places(dict(zip(space.all_axes, visible, strict=True)), sizes, letters, is_file)
    if place is None:
        shown = ", ".join(f"{a}: {sizes[d]}" for a, d in zip(space.all_axes, visible, strict=True))
        raise ValueError(
            f"axes={''.join(letters)!r}: {source.name} has {len(visible)} axes ({shown}); give a letter for "
            "each of these, in this order"
        )
    leading = tuple(a for a in LEADING if a in letters)
    places = tuple(place.get(a) for a in (*leading, *AXES))

    def by_axis(before: Sequence[T], values: Sequence[T], default: T) -> list[T]:
        every = [*before, *values]
        return [default if d is None else every[d] for d in places]

    shape = by_axis(source.leading, source.shape, 1)
    chunk = by_axis(source.leading_chunk, source.chunk, 1)
    origin = by_axis((0,) * first, source.chunk_origin, 0)
    n = len(leading)
    return replace(
        source,
        shape=_triple(shape[n:]),
        chunk=_triple(chunk[n:]),
        chunk_origin=_triple(origin[n:]),
        offset=(0, 0, 0),
        leading=tuple(shape[:n]),
        leading_chunk=tuple(chunk[:n]),
        reader=RenamedReader(source, places),
        space=Space(
            axes=tuple(a for a in AXES if a in letters),
            voxel_size=None
            if space.voxel_size is None
            else _triple(by_axis((1.0,) * first, space.voxel_size, 1.0)[n:]),
            unit=space.unit,
            origin=_triple(by_axis((0.0,) * first, space.origin, 0.0)[n:]),
            leading=leading,
            channels=_channels(space, place),
        ),
    )


def _places(
    axes: Mapping[str, int], sizes: Sequence[int], letters: Sequence[str], is_file: bool
) -> dict[str, int] | None:
    """Return the positions of axes by their new letters; None if these are too few or too many."""
    if len(letters) == len(axes):
        return dict(zip(letters, axes.values(), strict=True))
    same = [a for a in letters if a in axes]
    in_order = same == [a for a in axes if a in letters]
    others = [d for a, d in axes.items() if a not in letters]
    if in_order and all(sizes[d] == 1 for d in others) and (is_file or len(same) == len(letters)):
        return {a: axes[a] for a in same}
    several = [d for a, d in axes.items() if sizes[d] > 1 or a in AXES]
    return dict(zip(letters, several, strict=True)) if len(several) == len(letters) else None


def without_single(source: Source) -> Source:
    """Return a source without its axes t and c of extent 1."""
    for axis, size in zip(source.space.leading, source.leading, strict=True):
        if size == 1:
            source = replace(source.point(axis, 0), name=source.name)
    return source


def _channels(space: Space, place: Mapping[str, int]) -> tuple[str, ...]:
    """Return the names of channels, if axis c keeps its place."""
    same = "c" in place and "c" in space.leading and space.leading.index("c") == place["c"]
    return space.channels if same else ()


def pointed(source: Source, index: Mapping[str, int | str]) -> Source:
    """Select time points and channels of a source."""
    for axis, at in index.items():
        if axis in AXES:
            raise ValueError(f"index={{{axis!r}: {at!r}}} with axes=: slice the volume instead")
        extents = dict(zip(source.space.leading, source.leading, strict=True))
        size = extents.get(axis, 1)
        found = position_along(axis, at, size, source.space.channels, source.name)
        source = source.point(axis, found) if axis in extents else source
    return source


def _triple(values: Sequence[T]) -> tuple[T, T, T]:
    z, y, x = values
    return (z, y, x)


@dataclass(frozen=True, eq=False)
class RenamedReader(ForwardingReader):
    """A source's voxels with the axes in another order."""

    source: Source
    #: For each axis, its position among the axes of the source's reader, leading ones first; None
    #: for a new one
    places: tuple[int | None, ...]

    @property
    def inner(self) -> Any:
        return self.source.reader

    @property
    def array(self) -> np.ndarray | None:
        whole: np.ndarray | None = getattr(self.source.reader, "array", None)
        if whole is None:
            return None
        part = whole[self._inside].transpose(self._order)
        return part[self._shown(np.newaxis)]

    def open(self) -> ts.TensorStore:
        view = self.source.reader.open()[self._inside]
        order = self._order
        view = view[ts.d[order].transpose[list(range(len(order)))]]
        view = view[self._shown(ts.newaxis)]
        return view[ts.d[:].translate_to[(0,) * view.rank]]

    def moved(self, move: Callable[[Spec], Spec]) -> RenamedReader:
        return replace(self, source=self.source.moved(self.source.name, move))

    @property
    def _inside(self) -> tuple[Any, ...]:
        """The source's part of the array; unused axes have an extent of 1."""
        box = Box.of_shape(self.source.shape).translate(self.source.offset)
        whole = [*(slice(0, n) for n in self.source.leading), *box.slices]
        return tuple(s if d in self.places else s.start for d, s in enumerate(whole))

    @property
    def _order(self) -> list[int]:
        """The position of each axis among the remaining axes."""
        kept = sorted(d for d in self.places if d is not None)
        return [kept.index(d) for d in self.places if d is not None]

    def _shown(self, new: Any) -> tuple[Any, ...]:
        return tuple(new if d is None else slice(None) for d in self.places)
