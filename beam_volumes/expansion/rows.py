"""Convert slabs to rows of plain fields, which every Beam SDK supports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np

from beam_volumes.base.geometry import Box
from beam_volumes.base.space import Space
from beam_volumes.transforms.failures import row_type
from beam_volumes.transforms.slab import KeyedSlab, Slab, SlabKey


@row_type
class SlabRow(NamedTuple):
    r"""A slab as a row.

    >>> slab = Slab(Box((8, 0, 0), (9, 1, 2)), ((1, 0), (0, 0), (0, 0)), np.ones((2, 1, 2), "u1"), (9, 1, 2))
    >>> row = row_of((slab.key, slab))
    >>> row.z, row.core, row.halo, row.dtype, row.data
    (8, [1, 1, 2], [1, 0, 0, 0, 0, 0], '|u1', b'\x01\x01\x01\x01')
    """

    #: Name of its volume if there are several; otherwise empty.
    volume: str
    #: Position of the first voxel of the core.
    z: int
    y: int
    x: int
    #: Shape of the core along z, y, x.
    core: Sequence[int]
    #: Voxels before and after the core along z, y, x: six numbers.
    halo: Sequence[int]
    #: Shape of the whole volume.
    shape: Sequence[int]
    #: In numpy's notation, such as ``"|u1"`` or ``"<f4"``; little-endian.
    dtype: str
    #: Voxels of core and halo, x fastest.
    data: bytes
    #: Axes, voxel size, unit and origin, as JSON; copy it unchanged.
    space: str


def row_of(pair: tuple[SlabKey, Slab]) -> SlabRow:
    slab = pair[1]
    z, y, x = (int(a) for a in slab.core.start)
    data = np.ascontiguousarray(slab.data, slab.data.dtype.newbyteorder("<"))
    return SlabRow(
        slab.volume,
        z,
        y,
        x,
        [int(n) for n in slab.core.shape],
        [int(n) for pair in slab.halo for n in pair],
        [int(n) for n in slab.shape],
        data.dtype.str,
        data.tobytes(),
        json.dumps(asdict(slab.space), sort_keys=True),
    )


def slab_of_row(row: Any) -> tuple[SlabKey, Slab]:
    """Convert a row, which may come from any SDK, to a slab; ValueError if its fields are inconsistent."""
    start = (row.z, row.y, row.x)
    named = f"the row of a slab at {start}"
    if len(row.core) != 3 or len(row.halo) != 6 or len(row.shape) != 3:
        raise ValueError(
            f"{named}: core={list(row.core)}, halo={list(row.halo)}, shape={list(row.shape)}; give 3, 6 "
            "and 3 whole numbers"
        )
    d, h, w = (a + n for a, n in zip(start, row.core, strict=True))
    core = Box(start, (d, h, w))
    a, b, c, e, f, g = row.halo
    halo = (a, b), (c, e), (f, g)
    dtype, shape = np.dtype(row.dtype), core.expand(halo).shape
    size = int(np.prod(shape)) * dtype.itemsize
    if len(row.data) != size:
        raise ValueError(
            f"{named}: {len(row.data):,} bytes of data, but {shape} voxels of {row.dtype} need "
            f"{size:,}"
        )
    data = np.frombuffer(row.data, dtype).reshape(shape)
    space = (
        Space(**{k: _tuples(v) for k, v in json.loads(row.space).items()}) if row.space else Space()
    )
    z, y, x = row.shape
    slab = Slab(
        core, halo, data.astype(dtype.newbyteorder("="), copy=False), (z, y, x), space, row.volume
    )
    return slab.key, slab


def _tuples(item: Any) -> Any:
    return tuple(map(_tuples, item)) if isinstance(item, list) else item


class ToRows(beam.PTransform):
    """Convert slabs to rows; rows stay unchanged."""

    def expand(self, given: beam.PCollection) -> beam.PCollection:
        if given.element_type != KeyedSlab:
            return given | "Same" >> beam.Map(_same).with_output_types(given.element_type)
        return given | "Rows" >> beam.Map(row_of).with_output_types(SlabRow)


def _same(row: Any) -> Any:
    return row


class FromRows(beam.PTransform):
    """Convert rows to slabs."""

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        return rows | "Slabs" >> beam.Map(slab_of_row).with_output_types(KeyedSlab)
