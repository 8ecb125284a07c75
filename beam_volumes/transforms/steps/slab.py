"""A slab of voxels as an element of a PCollection, and how it is encoded."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import imagecodecs
import numpy as np

from beam_volumes.geometry import NO_HALO, Box, Halo, Triple
from beam_volumes.space import Space

#: Runners buffer elements whole, and some fail on larger ones.
MOST_BYTES = 8 << 20
_LEVEL = 1


class SlabKey(NamedTuple):
    """Where a slab begins: the first voxel of its core, without the halo.

    Parameters
    ----------
    z : int
        Index of the slice.
    y : int
        Index of the row.
    x : int
        Index of the column.

    Examples
    --------
    >>> from beam_volumes.transforms import SlabKey
    >>> SlabKey(8, 0, 0).z
    8
    """

    z: int
    y: int
    x: int


@dataclass(frozen=True, eq=False)
class Slab:
    """Some voxels of a volume, and where they lie in it.

    Attributes
    ----------
    core : Box
        The voxels that this slab is about. The cores of all slabs are the volume.
    halo : sequence of pairs of int
        Voxels (before, after) the core that are here too, along z, y, x; fewer at the volume's
        edges.
    data : numpy.ndarray
        Core and halo, with the axes z, y, x. It must not be changed: other steps may hold it.
    shape : tuple of int
        Shape of the whole volume.
    space : Space
        Axes, voxel size, unit and origin of the whole volume.

    Examples
    --------
    >>> from beam_volumes.geometry import Box
    >>> core = Box((8, 0, 0), (16, 4, 4))
    >>> slab = bv.Slab(core, ((2, 2), (0, 0), (0, 0)), np.zeros((12, 4, 4), "u1"), (100, 4, 4))
    >>> slab.key, str(slab.box), slab.voxels.shape
    (SlabKey(z=8, y=0, x=0), '[6:18, 0:4, 0:4]', (8, 4, 4))
    """

    core: Box
    halo: Halo
    data: np.ndarray
    shape: Triple
    space: Space = field(default_factory=Space)

    def __post_init__(self) -> None:
        if self.data.shape != self.box.shape:
            raise ValueError(
                f"slab {tuple(self.key)}: voxels of shape {self.data.shape} for a core of shape "
                f"{self.core.shape} with the halo {self.halo}, which is {self.box.shape}"
            )
        if not Box.of_shape(self.shape).contains(self.box):
            raise ValueError(f"slab {tuple(self.key)}: {self.box} reaches outside of {self.shape}")

    @property
    def key(self) -> SlabKey:
        """Where the slab begins, by which steps know it."""
        return SlabKey(*map(int, self.core.start))

    @property
    def box(self) -> Box:
        """Core and halo."""
        return self.core.expand(self.halo)

    @property
    def voxels(self) -> np.ndarray:
        """The core's voxels."""
        return self.data[self.core.translate([-a for a in self.box.start]).slices]

    def __repr__(self) -> str:
        halo = f", halo {self.halo}" if self.halo != NO_HALO else ""
        return f"<Slab {self.core}{halo}, {self.data.dtype} of {self.shape}>"


class SlabCoder(beam.coders.Coder):
    """A header in JSON, then the voxels compressed; equal slabs are equal bytes."""

    def encode(self, value: Slab) -> bytes:
        data = np.ascontiguousarray(value.data, value.data.dtype.newbyteorder("<"))
        head: dict[str, Any] = {
            "core": [value.core.start, value.core.stop],
            "halo": value.halo,
            "dtype": data.dtype.str,
            "shape": value.shape,
            "space": asdict(value.space),
        }
        text = json.dumps(head, sort_keys=True, default=int).encode()
        voxels = imagecodecs.zstd_encode(data.tobytes(), level=_LEVEL) if data.size else b""
        return struct.pack("<I", len(text)) + text + voxels

    def decode(self, encoded: bytes) -> Slab:
        start = 4 + struct.unpack_from("<I", encoded)[0]
        head = json.loads(encoded[4:start])
        core = Box(*(_tuples(c) for c in head["core"]))
        halo = _tuples(head["halo"])
        shape = core.expand(halo).shape
        dtype = np.dtype(head["dtype"])
        voxels = b"" if 0 in shape else bytes(imagecodecs.zstd_decode(encoded[start:]))
        data = np.frombuffer(voxels, dtype).reshape(shape)
        data = data.astype(dtype.newbyteorder("="), copy=False)
        space = Space(**{k: _tuples(v) for k, v in head["space"].items()})
        return Slab(core, halo, data, _tuples(head["shape"]), space)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return Slab


class SlabKeyCoder(beam.coders.Coder):
    """Three 64-bit integers."""

    def encode(self, value: SlabKey) -> bytes:
        return struct.pack(">qqq", *value)

    def decode(self, encoded: bytes) -> SlabKey:
        return SlabKey(*struct.unpack(">qqq", encoded))

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return SlabKey


def _tuples(item: Any) -> Any:
    return tuple(map(_tuples, item)) if isinstance(item, list) else item


beam.coders.registry.register_coder(Slab, SlabCoder)
beam.coders.registry.register_coder(SlabKey, SlabKeyCoder)
