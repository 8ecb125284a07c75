"""Arrays of other libraries: h5py, zarr, dask, xarray, and any with a shape, a dtype and slices.

None of these libraries is imported here. An array in a file is opened by its path; other arrays are
sliced in this process.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.nesting import calling
from beam_volumes.base.space import AXES
from beam_volumes.storage.inputs.arrays import refuse_masked
from beam_volumes.storage.inputs.origins import extents_of
from beam_volumes.storage.places.context import context
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.sources.axes import DEFAULT_AXES, IndexRequest, converted, select
from beam_volumes.storage.sources.source import Source, check_dtype

#: Size of chunks for arrays without chunks.
_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Described:
    """The input to open in place of an object, with the object's metadata."""

    what: Any  #: A place, an array, or an `ArrayObject`
    dataset: str | None = None  #: The path inside the place
    #: Options of `open_source`: voxel size, unit and origin
    space: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ArrayObject:
    """An object with a shape, a dtype and slices."""

    array: Any
    axes: str  #: A letter for each dimension, some of t, c, z, y, x in this order
    library: str  #: The library's name, for messages


def is_array_object(what: Any) -> bool:
    """Whether an object is an array of another library.

    >>> is_array_object(memoryview(b"ab")), is_array_object("a.zarr"), is_array_object(np.zeros(2))
    (False, False, False)
    """
    if isinstance(what, np.ndarray | np.generic | ts.TensorStore | ts.Spec | type):
        return False
    library = type(what).__module__.partition(".")[0]
    if library == "beam_volumes":
        return False
    if library == "xarray" and type(what).__name__ == "Dataset":
        return True  # refused later, with the names of its arrays
    if library in ("h5py", "zarr") and type(what).__name__ in ("Dataset", "Group", "File"):
        return True  # may be closed
    return all(hasattr(what, name) for name in ("shape", "dtype", "__getitem__"))


def described(what: Any) -> Described:
    """Return the input to open in place of an object of another library."""
    library = type(what).__module__.partition(".")[0]
    if library == "h5py":
        found = _of_h5py(what)
    elif library == "zarr":
        found = _of_zarr(what)
    elif library == "xarray":
        return _of_xarray(what)
    else:
        found = None
    if found is not None:
        return found
    if not hasattr(what, "dtype"):
        raise ValueError(f"a group of {library} in memory cannot be opened; give one of its arrays")
    return Described(ArrayObject(what, _default_axes(what, library), library))


def _default_axes(what: Any, library: str) -> str:
    if len(what.shape) not in DEFAULT_AXES:
        raise ValueError(
            f"an array of {library} of shape {tuple(what.shape)} has {len(what.shape)} dimensions; a volume "
            "has 2 (y, x) to 5 (t, c, z, y, x)"
        )
    return DEFAULT_AXES[len(what.shape)]


def _of_h5py(what: Any) -> Described | None:
    if not what:
        raise ValueError(
            "the file of this dataset of h5py is closed; open it again, or give its path"
        )
    file = what.file
    if file.mode != "r":
        file.flush()
        return None if hasattr(what, "dtype") else Described(os.fsdecode(file.filename), what.name)
    path = os.fsdecode(file.filename)
    if not os.path.isfile(path):
        return None
    return Described(os.path.abspath(path), None if what.name == "/" else what.name)


def _of_zarr(what: Any) -> Described | None:
    store = what.store
    root = getattr(store, "root", None)  # of LocalStore of zarr 3
    if root is None and type(store).__name__ in ("DirectoryStore", "NestedDirectoryStore"):
        root = store.path
    if root is None or not os.path.isdir(root):
        return None
    return Described(os.path.join(os.path.abspath(root), what.path).rstrip("/"))


def _of_xarray(what: Any) -> Described:
    if not hasattr(what, "dims") or not hasattr(what, "dtype"):
        arrays = ", ".join(map(repr, list(getattr(what, "data_vars", []))[:5]))
        raise TypeError(
            f"a Dataset of xarray has several arrays; give one of {arrays or 'them'}, as ds[name]"
        )
    names = [str(d) for d in what.dims]
    letters = [name.lower() for name in names]
    others = {"time": "t", "channel": "c", "depth": "z", "row": "y", "col": "x", "column": "x"}
    letters = [others.get(letter, letter) for letter in letters]
    named = set(letters) <= set("tczyx") and len(set(letters)) == len(letters)
    if named and {"y", "x"} <= set(letters):
        order = sorted(range(len(letters)), key=lambda d: "tczyx".index(letters[d]))
    else:  # by position
        order = list(range(len(letters)))
        letters = list(_default_axes(what, "xarray"))
    turned = what.transpose(*(names[d] for d in order)) if order != sorted(order) else what
    axes = "".join([letters[d] for d in order])
    array = turned.data if turned.chunks is not None else turned
    return Described(ArrayObject(array, axes, "xarray"), None, _space_of(turned, axes))


def _space_of(array: Any, axes: str) -> dict[str, Any]:
    """Return voxel size, origin and unit from evenly spaced coordinates; empty if some are not."""
    sizes, origins, units = [], [], []
    for name, axis in zip(array.dims, axes, strict=True):
        if axis not in AXES:
            continue
        if name not in array.coords or array.coords[name].dtype.kind not in "iuf":
            return {}
        at = np.asarray(array.coords[name], np.float64)
        steps = np.diff(at)
        if not len(steps) or steps[0] <= 0 or not np.allclose(steps, steps[0], rtol=1e-6):
            return {}
        sizes.append((at[-1] - at[0]) / len(steps))
        origins.append(at[0])
        units.append(array.coords[name].attrs.get("units"))
    unit, (size, origin) = converted(units, [float(s) for s in sizes], [float(o) for o in origins])
    if size is None:
        return {}
    found = {"voxel_size": size, "origin": origin}
    return found if unit is None else {**found, "unit": unit}


@dataclass(frozen=True, eq=False)
class ObjectReader:
    """An array of another library with the axes z, y, x after leading axes, read by slicing.

    ``key`` has an entry for each of its dimensions: the axis of the result, or a fixed position.
    """

    item: Any
    key: tuple[tuple[str, int], ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    chunk: tuple[int, ...]
    library: str
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    portable = False
    remote = False

    @cached_property
    def extents(self) -> tuple[Extent, ...]:
        return extents_of(self.item)

    def open(self) -> ts.TensorStore:
        layout = ts.ChunkLayout(chunk_shape=self.chunk)
        return ts.virtual_chunked(
            self._read, dtype=self.dtype, shape=self.shape, chunk_layout=layout, context=context()
        )

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: object) -> None:
        box = domain.index_exp
        part = self.item[tuple(box[at] if kind == "axis" else at for kind, at in self.key)]
        with calling(f"an array of {self.library}"):
            if hasattr(part, "compute"):  # dask: with its own threads there would be too many
                part = part.compute(scheduler="synchronous")
            out[...] = np.asarray(part).reshape(out.shape)

    def token(self) -> str:
        return f"{self.name} {self.key}"


def open_object(what: ArrayObject, request: IndexRequest) -> Source:
    """Return a source that reads an array of another library."""
    array = what.array
    refuse_masked(array)
    shape = tuple(int(n) for n in array.shape)
    name = f"an array of {what.library} of shape {shape}"
    if any(n != n for n in array.shape):
        raise ValueError(f"{name} has an unknown extent; call compute_chunk_sizes() of dask first")
    dtype = check_dtype(name, np.dtype(array.dtype))
    chosen = select(what.axes, shape, replace(request, keep=True), name)
    fixed = dict(chosen.fixed)
    chunks = _chunks_of(array, shape, dtype)
    place = {a: d for d, a in enumerate(what.axes)}
    leading = [place[a] for a in chosen.leading]
    spatial = [place[a] if a in chosen.axes else None for a in AXES]
    result = [*leading, *spatial]
    key = tuple(
        ("axis", result.index(d)) if d in result else ("at", fixed[d]) for d in range(len(shape))
    )
    full = tuple(1 if d is None else shape[d] for d in result)
    chunk = tuple(1 if d is None else chunks[d] for d in result)
    reader = ObjectReader(array, key, full, dtype, chunk, what.library, _name_of(array))
    return chosen.source(name, reader, dtype, shape, chunks, chosen.space())


def _name_of(array: Any) -> str:
    """Return a unique name for an array; dask names its results."""
    name = getattr(array, "name", None)
    by_dask = hasattr(array, "__dask_graph__") and isinstance(name, str)
    return f"dask-{name}" if by_dask else uuid.uuid4().hex


def _chunks_of(array: Any, shape: Sequence[int], dtype: np.dtype) -> list[int]:
    """Return the chunks of an array along its dimensions; rows and planes if it has none."""
    chunks = getattr(array, "chunksize", None) or getattr(array, "chunks", None)
    if chunks is not None and len(chunks) == len(shape):
        sizes = [c if isinstance(c, int) else max(c, default=1) for c in chunks]
        return [max(1, min(int(c), n)) for c, n in zip(sizes, shape, strict=True)]
    chunk, room = [1] * len(shape), _CHUNK_BYTES // dtype.itemsize
    for d in reversed(range(len(shape))):
        chunk[d] = max(1, min(shape[d], room))
        room //= chunk[d]
    return chunk
