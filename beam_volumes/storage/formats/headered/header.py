"""What formats share that are a header, which says where voxels lie, and voxels side by side.

The header is read by a parser of ours, for it is small, and nothing that it says may be trusted: sizes are
held against those of files before anything is allocated. Voxels may be one stream of gzip or zlib, and may be
in a file of their own.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.space import AXES
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.contiguous import ContiguousReader, InPlace, copy_voxels
from beam_volumes.storage.formats.format import WHOLE, OpenRequest
from beam_volumes.storage.places.errors import VolumeError, bad_header
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.inflate import MAXIMUM, beginning, inflated
from beam_volumes.storage.places.outside import check_path
from beam_volumes.storage.places.place import Place, Spec
from beam_volumes.storage.places.positioned import first_bytes, read_at
from beam_volumes.storage.sources.axes import Placement, UnclearPlace, check_affine, select, turned
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import Source, check_dtype

#: Bytes of planes that are taken of a stream at a time.
_PIECE = 4 << 20

#: What a header says where this package has written bool, for which these formats have no dtype.
MASK = "beam_volumes mask"


# voxels


@dataclass(frozen=True)
class Voxels:
    """What a header says of its voxels."""

    #: Names and extents of dimensions, the slowest first
    axes: Sequence[str]
    sizes: Sequence[int]
    stored: np.dtype  #: In the file
    at: int  #: Where they begin
    channels: Sequence[str] = ()
    file: Spec | None = None  #: The file of the voxels, if that is another one
    #: As of `VoxelReader`
    stream: tuple[str, int] | None = None
    scale: tuple[float, float] | None = None
    placement: Placement = field(default_factory=Placement)
    mask: bool = False  #: Whether bytes stand for bool
    header: Place | None = None  #: Of the header, if it is not the one that was asked for


@dataclass(frozen=True, eq=False)
class VoxelReader(ContiguousReader):
    """Voxels side by side in a local file, or in a stream in it."""

    #: What the voxels are a stream of, ``"gzip"`` or ``"zlib"``, and the byte of the file at which
    #: that begins; ``at`` counts in what it holds then. It is -1 of voxels that the stream ends
    #: with.
    stream: tuple[str, int] | None = None
    #: What voxels are multiplied by, and what is added then
    scale: tuple[float, float] | None = None
    header: Spec | None = None  #: The file that tells of this one
    flipped: tuple[bool, bool, bool] = (False, False, False)  #: Which of z, y and x are reversed

    @property
    def remark(self) -> str:
        """What makes it slow to read."""
        if self.stream is None:
            return ""
        return (
            f"one stream of {self.stream[0]}: each process decodes it from its beginning as far as it needs; "
            "beam-volumes convert what is read often"
        )

    @property
    def extents(self) -> tuple[Extent, ...]:
        files = [self.file] if self.header is None else [self.file, self.header]
        return tuple(Extent(f) for f in files)

    @property
    def piece(self) -> tuple[int, ...]:
        if self.stream is None:
            return super().piece
        # Whoever wants a row of a plane has to decode the plane.
        z = dict(self.chosen.dims).get("z")
        first = max(0, len(self.shape) - 2) if z is None else z + 1
        plane = math.prod(self.shape[first:]) * np.dtype(self.stored).itemsize
        piece = [1] * first + list(self.shape[first:])
        if z is not None:
            piece[z] = max(1, min(self.shape[z], _PIECE // max(1, plane)))
        return tuple(piece)

    @property
    def decode_bytes(self) -> int:
        """Of what is decoded or scaled in one piece, if that is more than a chunk."""
        if self.stream is None and self.scale is None:
            return super().decode_bytes
        each = max(self.dtype.itemsize, np.dtype(self.stored).itemsize)
        return math.prod(self.piece) * (8 if self.scale is not None else each)

    def open(self) -> ts.TensorStore:
        store = super().open()
        for axis, back in enumerate(self.flipped):
            if back:
                store = store[ts.d[store.rank - 3 + axis].stride[-1]]
        return store[ts.d[:].translate_to[(0,) * store.rank]]

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        stored = np.dtype(self.stored)
        first = int(np.ravel_multi_index(domain.inclusive_min, self.shape))
        at, size = first * stored.itemsize, out.size * stored.itemsize
        path = self.file["path"]
        if self.stream is None:
            data = read_at(path, self.at + at, size)
        else:
            kind, start = self.stream
            nbytes = math.prod(self.shape) * stored.itemsize
            stream = inflated(path, kind, start, max(0, self.at) + nbytes)
            before = self.at if self.at >= 0 else stream.length() - nbytes
            if before < 0:
                raise VolumeError(
                    f"{printable(path)} is cut off: its stream holds {before + nbytes:,} bytes, and its "
                    f"voxels are {nbytes:,}; restore it"
                )
            data = stream.read(before + at, size)
        voxels = np.frombuffer(data, stored).reshape(out.shape)
        if self.scale is None:
            copy_voxels(voxels, out)
        else:
            slope, inter = self.scale
            exact = voxels.astype(np.float64)
            exact *= slope
            exact += inter
            out[...] = exact


def scaled_dtype(stored: np.dtype) -> np.dtype:
    """As what scaled voxels are read: float32 where that holds all numbers that are stored, else float64.

    Examples
    --------
    >>> scaled_dtype(np.dtype(">i2")), scaled_dtype(np.dtype("i4"))
    (dtype('float32'), dtype('float64'))
    """
    narrow = stored.itemsize <= 2 or (stored.kind == "f" and stored.itemsize == 4)
    return np.dtype(np.float32 if narrow else np.float64)


def voxels_of(
    place: Place, voxels: Voxels, index: Mapping[str, int | str] | None, is_there: bool = True
) -> Source:
    """The source of voxels that a header describes, once the file is known to be long enough.

    ``is_there`` is False where the file is not written yet, so that its length cannot be checked.
    """
    v, name = voxels, place.text
    stored, grid = v.stored, v.placement
    if is_there:
        check_length(name, place.spec if v.file is None else v.file, v)
    native = check_dtype(printable(name), stored)
    chosen = select(v.axes, v.sizes, index, printable(name), v.channels)
    reader = VoxelReader(
        file=dict(place.spec if v.file is None else v.file),
        shape=tuple(int(n) for n in v.sizes),
        stored=stored.str,
        dtype=native if v.scale is None else scaled_dtype(stored),
        at=v.at,
        chosen=chosen,
        stream=v.stream,
        scale=v.scale,
        header=None if v.file is None else dict(place.spec),
        flipped=grid.flipped,
    )
    space = chosen.space(grid.voxel_size, grid.unit, grid.origin)
    source = chosen.source(
        name, reader, reader.dtype, reader.shape, reader.piece, space, encoded=v.stream is not None
    )
    first = [
        -(-n % c) if back else 0
        for n, c, back in zip(source.shape, source.chunk, grid.flipped, strict=True)
    ]
    source = replace(source, chunk_origin=(first[0], first[1], first[2]))
    return source.as_mask() if v.mask and v.scale is None else source


def check_length(name: str, file: Spec, voxels: Voxels) -> None:
    """Refuse a file that cannot hold the voxels that its header describes."""
    path, sizes, stored, at = str(file["path"]), voxels.sizes, voxels.stored, voxels.at
    name = printable(name)
    if not os.path.isfile(path):
        raise VolumeError(f"{name} says that its voxels are in {printable(path)}, which is no file")
    shown = " x ".join(str(n) for n in sizes)
    if any(n < 1 for n in sizes):
        raise bad_header(name, f"its sizes are {shown}")
    size = os.path.getsize(path)
    nbytes = math.prod(int(n) for n in sizes) * stored.itemsize
    claim = (
        f"{name} is cut off, or its header is damaged: {shown} voxels of {stored.name} take "
        f"{nbytes:,} bytes"
    )
    if voxels.stream is not None:
        if max(0, at) + nbytes > MAXIMUM * max(0, size - voxels.stream[1]):
            raise VolumeError(
                f"{claim}, more than the {size:,} bytes of {printable(path)} can stand for; restore it"
            )
    elif at < 0 or at + nbytes > size:
        raise VolumeError(
            f"{claim} from byte {at:,} on, but {printable(path)} has {size:,}; restore it"
        )


# where they lie


def placement_of(
    name: str,
    names: str,
    sizes: Sequence[int],
    matrix: np.ndarray,
    origin: Sequence[float] | np.ndarray,
    *,
    affine: str | None,
    unit: str | None = None,
) -> tuple[str, Placement]:
    """What an affine transform from voxels to positions says, as names of axes and how they lie.

    - ``name``: how messages name the file.
    - ``names``: of its axes in space, e.g. ``"xyz"``, where one that is neither turned nor reversed
      has the same direction as the axis of that name in space.
    - ``sizes``: extents of these axes.
    - ``matrix``: a column for each axis: the step from one voxel to the next, in space as x, y, z.
    - ``origin``: the position of the first voxel's centre, x, y, z.
    - ``affine``: what the user says: see `AFFINE`.

    Gives the names of the axes: others than ``names`` where ``affine="reorient"`` has changed them.

    Examples
    --------
    >>> turned = np.array([[0, -2.0, 0], [3, 0, 0], [0, 0, 4]])
    >>> placement_of("a.nii", "xyz", (5, 6, 7), turned, (10, 0, 0), affine="reorient", unit="millimeter")[0]
    'yxz'
    """
    name = printable(name)
    check_affine(affine, name)
    n = len(names)
    steps = np.linalg.norm(np.where(np.isfinite(matrix), matrix, 0.0), axis=0)
    whole = bool(np.isfinite(matrix).all() and np.isfinite(origin).all() and (steps > 0).all())
    if affine == "drop":
        return names, Placement(voxel_size_of(names, steps), unit if (steps > 0).all() else None)
    if not whole:
        raise UnclearPlace(
            f"{name} does not say where its voxels lie: its affine has columns of zeros or what is no "
            "number; "
            "say affine='drop' to take voxels as they lie"
        )
    along = [int(np.argmax(np.abs(matrix[:, k]) / steps[k])) for k in range(n)]
    # What is not along the main direction moves no voxel by more than a hundredth of one.
    off = [
        np.abs(np.delete(matrix[:, k], along[k])).max(initial=0.0) * sizes[k] > 0.01 * steps.min()
        for k in range(n)
    ]
    letters = "".join("xyz"[a] for a in along)
    straight = not any(off) and len(set(along)) == n
    back = [bool(matrix[a, k] < 0) for k, a in enumerate(along)]
    if not straight or (affine is None and (letters != names or any(back))):
        what = "turns" if not straight or letters != names else "reverses"
        raise turned(name, f"its affine {what} axes in space", can_reorient=straight)
    if not {"x", "y"} <= set(letters):
        raise ValueError(
            f"{name}: its affine puts a plane along {letters}; say affine='drop' to take it as x and y"
        )
    exact = [float(abs(matrix[a, k])) for k, a in enumerate(along)]
    at = [float(o) for o in origin] + [0.0] * (3 - len(origin))
    for k, a in enumerate(along):
        if back[k]:
            at[a] += float(matrix[a, k]) * (sizes[k] - 1)
    flipped = {letter: b for letter, b in zip(letters, back, strict=True)}
    return letters, Placement(
        voxel_size_of(letters, exact),
        unit,
        (at[2], at[1], at[0]),
        (flipped.get("z", False), flipped.get("y", False), flipped.get("x", False)),
    )


def voxel_size_of(names: str, sizes: Sequence[float]) -> tuple[float, float, float] | None:
    """Extents of voxels along named axes as z, y, x; None if one of them is none."""
    if not all(math.isfinite(s) and s > 0 for s in sizes):
        return None
    found = dict(zip(names, map(float, sizes), strict=True))
    z, y, x = (found.get(a, 1.0) for a in AXES)
    return (z, y, x)


def short(value: Any) -> float:
    """The shortest number that is the same float32: what people mean by what a header holds.

    Examples
    --------
    >>> float(np.float32(0.008)), short(np.float32(0.008))
    (0.00800000037997961, 0.008)
    """
    return float(str(np.float32(value)))


# files


class Headered(InPlace):
    """A file with a header, which says where voxels are and how they lie."""

    endings: tuple[str, ...] = ()  #: Of the files that are read

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        path = local_file(place, self.endings, f"{self.title} files")
        voxels = None if path is None else self.parsed(path, place, request)
        if voxels is None:
            return None
        return voxels_of(voxels.header or place, voxels, request.index)

    def parsed(self, path: str, place: Place, request: OpenRequest) -> Voxels | None:
        """What the header of a local file says; None if the file is of another format."""
        raise NotImplementedError

    def is_named(self, path: str) -> bool:
        return path.lower().endswith(self.endings)


def renamed_axes(axes: Sequence[str], letters: str) -> list[str]:
    """Axes of which x, y and z are called otherwise: by these letters, in this order."""
    return [letters["xyz".index(a)] if a in "xyz"[: len(letters)] else a for a in axes]


def start_of(path: str, start: int, skip: int, nbytes: int) -> int:
    """Where voxels begin: so many bytes behind a position, or for -1 so that the file ends with them."""
    return os.path.getsize(path) - nbytes if skip == -1 else start + skip


def local_file(place: Place, suffixes: Sequence[str], what: str) -> str | None:
    """The path of a file on a disk; None if there is none; such a file in a bucket is refused."""
    if place.local is None:
        if place.text.lower().endswith(tuple(suffixes)):
            raise ValueError(
                f"{place.text}: {what} are read from a disk; copy it to one, or convert it to .zarr there"
            )
        return None
    return place.local if os.path.isfile(place.local) else None


def beginning_of(path: str, size: int) -> tuple[bytes, bool]:
    """What a file holds first, and whether it is gzip, decoded then."""
    data = first_bytes(path, max(2, size))
    if data.startswith(b"\x1f\x8b"):
        return beginning(path, size), True
    return data, False


def data_file(place: Place, named: str, several: str) -> Spec:
    """The file that a header names, in its folder unless the name says where.

    A list of files, or a pattern of names as ``several`` matches it, is refused.
    """
    if re.match(r"LIST\b", named) or re.search(several, named + " "):
        raise ValueError(
            f"{printable(place.text)} has its voxels in several files ({printable(named)}), which are not "
            "read: write it anew as one file, or open the slices themselves"
        )
    assert place.local is not None
    path = os.path.normpath(os.path.join(os.path.dirname(place.local), named))
    if "\0" not in named:
        check_path(place.local, path)
    if "\0" in named or not os.path.isfile(path):
        raise VolumeError(
            f"{printable(place.text)} says that its voxels are in {printable(named)!r}, and there is "
            "no such file: restore it, or mend the header"
        )
    return {**place.spec, "path": path}


def no_channels(d: Description) -> None:
    """Refuse an output that has channels."""
    if "c" in d.space.leading:
        raise ValueError(
            f"{d.name}: {d.format} holds points in time and no channels; choose one, as v.sel(c=0), or write "
            ".zarr, .nrrd, .mha or .nii"
        )
