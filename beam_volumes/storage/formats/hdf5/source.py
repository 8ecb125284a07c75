"""What an HDF5 file is opened as: a source of the datasets that are meant, and how they are read best."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from beam_volumes.base.space import Space
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.contiguous import contiguous, piece_of, slowest
from beam_volumes.storage.formats.hdf5 import layouts
from beam_volumes.storage.formats.hdf5.arrays import Array, Paths, dtype_of, got, present
from beam_volumes.storage.formats.hdf5.files import absent_behind, files_behind, library
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


def source_of(
    file: Any,
    path: str,
    index: Mapping[str, int | str] | None,
    dataset: str | None,
    level: int | None,
    missing: str = "error",
    affine: str | None = None,
) -> Source:
    """Open what is asked for of an open file.

    With ``missing="fill"``, sources of virtual datasets that are not there are read as fill values.
    """
    check_affine(affine, path)
    found = layouts.find(file, path, dataset, level)
    source = _stored(file, path, index, dataset, found, missing)
    return oriented(source, found.back, affine)


def _stored(
    file: Any,
    path: str,
    index: Mapping[str, int | str] | None,
    dataset: str | None,
    found: Array,
    missing: str,
) -> Source:
    """An array as its voxels are stored."""
    node = found.node
    files_behind(node, check=True)
    name = f"{path}:{printable(node.name)}"
    whole = tuple(node.shape)
    shape = found.sizes or whole
    paths = found.paths or Paths((node.name,))
    if set(found.apart) & set(found.axes or ()):
        raise VolumeError(f"{name} is damaged: its axes are {found.axes}; restore it")
    inner = names_of_axes(found.axes, len(shape), name)
    axes, sizes = [*found.apart, *inner], [*paths.sizes, *shape]
    chosen = select(axes, sizes, index, path, found.channels)
    # Datasets that are not asked for are none of it.
    paths, chosen = _taken(paths, chosen)
    if paths[0] != node.name and found.paths is not None:
        node = present(file, paths[0], path)
        files_behind(node, check=True)
    name = path if dataset is None and len(paths) > 1 else f"{path}:{printable(node.name)}"
    if tuple(node.shape) != whole:
        raise VolumeError(
            f"{name} is {node.shape}, but {printable(found.node.name)} is {whole}: choose one by dataset="
        )
    space = Space(
        chosen.axes,
        found.voxel_size,
        found.unit,
        found.origin,
        leading=chosen.leading,
        channels=chosen.channels,
    )
    dtype = dtype_of(node)
    assert dtype is not None
    stored = stored_dtype(node)
    if found.dtype is not None:  # as large as what is stored
        dtype = np.dtype(found.dtype)
    if found.is_mask and dtype == np.uint8:
        dtype = np.dtype(bool)
    if found.scaling is not None:
        dtype = np.dtype(np.float32 if stored.itemsize <= 2 else np.float64)
    # A file that was linked to from this one.
    real = os.path.abspath(os.path.join(os.path.dirname(path), os.fsdecode(node.file.filename)))
    spec = {"driver": "file", "path": real}
    chunk = tuple(node.chunks or ())
    why, others = _why_locked(node, real, stored)
    for k in range(1, len(paths) if why and found.paths is not None else 1):
        other = got(file, paths[k])
        if other is not None:
            files_behind(other, check=True)
    # Files that lie elsewhere have been refused by now: these are opened.
    if missing == "error":
        check_all_is_there(node, name)
    lost = dict.fromkeys(absent_behind(node), "fill values") if missing == "fill" else {}
    if not chunk and not why and found.scaling is None and len(paths) == 1:
        at = node.id.get_offset()
        nbytes = math.prod(whole) * stored.itemsize
        if at is not None and at + nbytes <= os.path.getsize(real):
            return contiguous(
                name,
                spec,
                shape=whole,
                stored=stored,
                at=at,
                chosen=chosen,
                space=space,
                dtype=dtype,
            )
        if at is not None:
            raise VolumeError(
                f"{name} is cut off: its voxels take {nbytes:,} bytes from byte {at:,} on, but {real} has "
                f"{os.path.getsize(real):,}; restore it"
            )
    if not chunk:
        chunk = piece_of(whole, stored.itemsize, max(0, slowest(chosen) - len(paths.numbers)))
        why = why or "it has no chunks"
    reader = Hdf5Reader(
        file=spec,
        others=others,
        datasets=paths if found.paths is not None else Paths((node.name,)),
        whole=whole,
        shape=tuple(shape),
        chunk=chunk,
        filters=filters_of(node),
        fill=_fill(node, stored),
        stored=stored.str,
        dtype=dtype,
        scaling=found.scaling,
        chosen=chosen,
        fills=missing == "fill",
        lost=lost,
        remark=_remark(why, lost),
    )
    return Source(
        name=name,
        shape=chosen.triple(reader.sizes, 1),
        dtype=dtype,
        chunk=chosen.triple(reader.chunks, 1),
        chunk_origin=(0, 0, 0),
        space=space,
        reader=reader,
        encoded=bool(reader.filters),
        leading=chosen.before(reader.sizes),
        leading_chunk=chosen.before(reader.chunks),
    )


def _taken(paths: Paths, chosen: Selection) -> tuple[Paths, Selection]:
    """The datasets that are left of several, and the selection among these."""
    apart = len(paths.numbers)
    fixed = {d: k for d, k in chosen.fixed if d < apart}
    place = {d: k for k, d in enumerate(d for d in range(apart + 5) if d not in fixed)}
    left = Selection(
        tuple((place[d], k) for d, k in chosen.fixed if d not in fixed),
        tuple((a, place[d]) for a, d in chosen.dims),
        chosen.channels,
    )
    return paths.taken(fixed), left


def _remark(why: str, lost: Mapping[str, str]) -> str:
    """What plans say of how a dataset is read."""
    if not why:
        return ""
    some = printable(", ".join([*lost][:3])) + (
        f" and {len(lost) - 3} more" if len(lost) > 3 else ""
    )
    said = f"; fill values are read for what is lost: {some}" if lost else ""
    return f"read one part at a time under h5py's lock: {why}{said}"


def _fill(node: Any, stored: np.dtype) -> str:
    try:
        value = np.asarray(node.fillvalue)
        found = value.astype(node.dtype) if value.shape == () else np.zeros((), stored)
    except Exception:  # none is defined
        found = np.zeros((), stored)
    return found.tobytes().hex()


def _why_locked(node: Any, path: str, stored: np.dtype) -> tuple[str, tuple[str, ...]]:
    """Why a dataset has to be read by h5py, if it has to, and which other files it has bytes in."""
    h5py = library(path)
    plist = node.id.get_create_plist()
    others = tuple(sorted(set(files_behind(node)) - {path}))
    if plist.get_layout() == h5py.h5d.VIRTUAL:
        return "it is a virtual dataset", others
    if plist.get_external_count():
        return "its voxels are in other files", others
    if plist.get_layout() == h5py.h5d.COMPACT:
        return "it is stored in its own header", ()
    for number, _ in filters_of(node):
        if number not in OURS:
            _check_filter(h5py, plist, number, f"{path}:{printable(node.name)}")
            return f"its filter {number} is not undone here", ()
    kind = node.id.get_type()
    if kind.get_class() == h5py.h5t.ENUM:
        kind = kind.get_super()
        stored = np.dtype(np.int8) if stored.kind == "b" else stored
    if not kind.equal(h5py.h5t.py_create(stored)):
        return "its numbers are not those of this machine", ()
    chunks = node.chunks
    if chunks:
        counts = [-(-n // c) for n, c in zip(node.shape, chunks, strict=True)]
        if math.prod(counts) > MAX_CHUNKS:
            return f"it has more than {MAX_CHUNKS:,} chunks", ()
        if not hasattr(node.id, "chunk_iter"):
            return "this version of h5py does not list chunks", ()
    return "", ()


def _check_filter(h5py: Any, plist: Any, number: int, name: str) -> None:
    """Refuse a dataset that h5py has no filter for."""
    if h5py.h5z.filter_avail(number):
        return
    with suppress(ImportError):
        import_module("hdf5plugin")
    if not h5py.h5z.filter_avail(number):
        raise ValueError(
            f"{name}: its chunks are encoded by filter {number}, which h5py does not have: "
            "pip install hdf5plugin"
        )
