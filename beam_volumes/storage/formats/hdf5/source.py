"""Sources of HDF5 files: the selected datasets, and the fastest way to read them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.contiguous import ContiguousReader, contiguous, piece_of, slowest
from beam_volumes.storage.formats.format import OpenRequest
from beam_volumes.storage.formats.hdf5 import layouts
from beam_volumes.storage.formats.hdf5.arrays import Array, Paths, dtype_of, got, present
from beam_volumes.storage.formats.hdf5.files import files_of, library, missing_files_of
from beam_volumes.storage.formats.hdf5.filters import OURS
from beam_volumes.storage.formats.hdf5.reader import (
    MAX_CHUNKS,
    Hdf5Reader,
    check_all_is_there,
    filters_of,
    stored_dtype,
)
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.sources.axes import (
    Selection,
    check_affine,
    names_of_axes,
    oriented,
    select,
)
from beam_volumes.storage.sources.source import Source


def source_of(file: Any, path: str, request: OpenRequest) -> Source:
    """Open the requested volume of an open file.

    With ``missing="fill"``, missing sources of virtual datasets are read as fill values.
    """
    affine = request.option("affine")
    check_affine(affine, path)
    found = layouts.find(file, path, request.dataset, request.level)
    return oriented(_stored(file, path, request, found), found.back, affine)


def _stored(file: Any, path: str, request: OpenRequest, found: Array) -> Source:
    """Return an array without reorientation."""
    node, paths, chosen, name = _chosen(file, path, request, found)
    space = chosen.space(found.voxel_size, found.unit, found.origin)
    stored = stored_dtype(node)
    dtype = _dtype(node, found, stored)
    # The file of the dataset, which may be linked.
    real = os.path.abspath(os.path.join(os.path.dirname(path), os.fsdecode(node.file.filename)))
    spec, whole = {"driver": "file", "path": real}, tuple(node.shape)
    why, others = _why_locked(node, real, stored)
    for k in range(1, len(paths) if why and found.paths is not None else 1):
        other = got(file, paths[k])
        if other is not None:
            files_of(other, check=True)
    # External files have been checked by now; these are opened.
    is_filled = request.option("missing") == "fill"
    if not is_filled:
        check_all_is_there(node, name)
    lost = dict.fromkeys(missing_files_of(node), "fill values") if is_filled else {}
    chunk = tuple(node.chunks or ())
    if not chunk and not why and found.scaling is None and len(paths) == 1:
        at = _offset(node, real, name, math.prod(whole) * stored.itemsize)
        if at is not None:
            plain = ContiguousReader(spec, whole, stored.str, dtype, at, chosen)
            return contiguous(name, plain, space)
    if not chunk:
        chunk = piece_of(whole, stored.itemsize, max(0, slowest(chosen) - len(paths.numbers)))
        why = why or "it has no chunks"
    reader = Hdf5Reader(
        file=spec,
        others=others,
        datasets=paths if found.paths is not None else Paths((node.name,)),
        whole=whole,
        shape=tuple(found.sizes or whole),
        chunk=chunk,
        filters=filters_of(node),
        fill=_fill(node, stored),
        stored=stored.str,
        dtype=dtype,
        scaling=found.scaling,
        chosen=chosen,
        fills=is_filled,
        lost=lost,
        remark=_remark(why, lost),
    )
    return chosen.source(
        name, reader, dtype, reader.sizes, reader.chunks, space, encoded=bool(reader.filters)
    )


def _chosen(
    file: Any, path: str, request: OpenRequest, found: Array
) -> tuple[Any, Paths, Selection, str]:
    """Return the first requested dataset, the paths of all, the selection, and a name."""
    node, whole = found.node, tuple(found.node.shape)
    files_of(node, check=True)
    name = f"{path}:{printable(node.name)}"
    shape, paths = found.sizes or whole, found.paths or Paths((node.name,))
    if set(found.dataset_axes) & set(found.axes or ()):
        raise VolumeError(f"{name} is damaged: its axes are {found.axes}; restore it")
    axes = [*found.dataset_axes, *names_of_axes(found.axes, len(shape), name)]
    sizes = [*paths.sizes, *shape]
    # Other datasets are left out.
    request = replace(request, keep=request.keep or found.axes is None)
    paths, chosen = _taken(paths, select(axes, sizes, request, path, found.channels))
    if paths[0] != node.name and found.paths is not None:
        node = present(file, paths[0], path)
        files_of(node, check=True)
    is_all = request.dataset is None and len(paths) > 1
    name = path if is_all else f"{path}:{printable(node.name)}"
    if tuple(node.shape) != whole:
        raise VolumeError(
            f"{name} is {node.shape}, but {printable(found.node.name)} is {whole}; choose one by dataset="
        )
    return node, paths, chosen, name


def _dtype(node: Any, found: Array, stored: np.dtype) -> np.dtype:
    if found.scaling is not None:
        return np.dtype(np.float32 if stored.itemsize <= 2 else np.float64)
    # A program's dtype has the same size as the stored one.
    dtype = dtype_of(node) if found.dtype is None else np.dtype(found.dtype)
    assert dtype is not None
    return np.dtype(bool) if found.is_mask and dtype == np.uint8 else dtype


def _offset(node: Any, path: str, name: str, nbytes: int) -> int | None:
    """Return the position of a dataset without chunks; None if it has no storage."""
    at, size = node.id.get_offset(), os.path.getsize(path)
    if at is not None and at + nbytes > size:
        raise VolumeError(
            f"{name} is cut off: its voxels need {nbytes:,} bytes from byte {at:,} on, but {path} has "
            f"{size:,}; restore it"
        )
    return at  # type: ignore[no-any-return]


def _taken(paths: Paths, chosen: Selection) -> tuple[Paths, Selection]:
    """Return the selected ones of several datasets, and the selection among these."""
    several = len(paths.numbers)
    fixed = {d: k for d, k in chosen.fixed if d < several}
    place = {d: k for k, d in enumerate(d for d in range(several + 5) if d not in fixed)}
    left = Selection(
        tuple((place[d], k) for d, k in chosen.fixed if d not in fixed),
        tuple((a, place[d]) for a, d in chosen.dims),
        chosen.channels,
    )
    return paths.taken(fixed), left


def _remark(why: str, lost: Mapping[str, str]) -> str:
    """Describe for a plan how a dataset is read."""
    if not why:
        return ""
    some = printable(", ".join([*lost][:3])) + (
        f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    )
    stated = f"; fill values are read in place of {some}" if lost else ""
    return f"read one part at a time under h5py's lock: {why}{stated}"


def _fill(node: Any, stored: np.dtype) -> str:
    try:
        value = np.asarray(node.fillvalue)
        found = value.astype(node.dtype) if value.shape == () else np.zeros((), stored)
    except Exception:  # not defined
        found = np.zeros((), stored)
    return found.tobytes().hex()


def _why_locked(node: Any, path: str, stored: np.dtype) -> tuple[str, tuple[str, ...]]:
    """Return why a dataset has to be read by h5py, or "", and other files with its bytes."""
    h5py = library(path)
    plist = node.id.get_create_plist()
    others = tuple(sorted(set(files_of(node)) - {path}))
    if plist.get_layout() == h5py.h5d.VIRTUAL:
        return "it is a virtual dataset", others
    if plist.get_external_count():
        return "its voxels are in other files", others
    if plist.get_layout() == h5py.h5d.COMPACT:
        return "it is stored in its own header", ()
    for number, _ in filters_of(node):
        if number not in OURS:
            _check_filter(h5py, plist, number, f"{path}:{printable(node.name)}")
            return f"its filter {number} is only supported by h5py", ()
    kind = node.id.get_type()
    if kind.get_class() == h5py.h5t.ENUM:
        kind = kind.get_super()
        stored = np.dtype(np.int8) if stored.kind == "b" else stored
    if not kind.equal(h5py.h5t.py_create(stored)):
        return "its number format is not native", ()
    chunks = node.chunks
    if chunks:
        counts = [-(-n // c) for n, c in zip(node.shape, chunks, strict=True)]
        if math.prod(counts) > MAX_CHUNKS:
            return f"it has more than {MAX_CHUNKS:,} chunks", ()
        if not hasattr(node.id, "chunk_iter"):
            return "this version of h5py does not list chunks", ()
    return "", ()


def _check_filter(h5py: Any, plist: Any, number: int, name: str) -> None:
    if h5py.h5z.filter_avail(number):
        return
    with suppress(ImportError):
        import_module("hdf5plugin")
    if not h5py.h5z.filter_avail(number):
        raise ValueError(
            f"{name} has chunks encoded by filter {number}, which h5py does not have: "
            "pip install hdf5plugin"
        )
