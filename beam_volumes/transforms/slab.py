"""A slab of voxels as an element of a PCollection, and its coder."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.typehints import Tuple, Union

from beam_volumes.base import codecs as imagecodecs
from beam_volumes.base.geometry import NO_HALO, Box, Halo, Triple
from beam_volumes.base.space import Space

#: Runners buffer whole elements, and some fail on larger ones.
MAX_BYTES = 8 << 20
_LEVEL = 1


class SlabKey(NamedTuple):
    """The key of a slab: the first voxel of its core, without the halo.

    All steps on slabs use pairs of a key and a slab, or of a key and a result for that slab.

    Parameters
    ----------
    z : int
        Index of the slice.
    y : int
        Index of the row.
    x : int
        Index of the column.
    volume : str, default: ""
        Name of the volume, if a PCollection has slabs of several.

    Examples
    --------
    >>> bv.SlabKey(8, 0, 0).z
    8
    >>> print(bv.SlabKey(8, 0, 0), bv.SlabKey(8, 0, 0, "a.zarr"))
    (8, 0, 0) (8, 0, 0) of a.zarr
    """

    z: int
    y: int
    x: int
    volume: str = ""

    def __str__(self) -> str:
        at = f"({self.z}, {self.y}, {self.x})"
        return f"{at} of {self.volume}" if self.volume else at


@dataclass(frozen=True, eq=False)
class Slab:
    """A part of a volume, with its position.

    Parameters
    ----------
    core : Box
        The range of voxels that the slab represents. The cores of all slabs cover the volume once.
    halo : sequence of pairs of int
        Number of additional voxels (before, after) the core, along z, y, x; fewer at the volume's
        edges.
    data : numpy.ndarray
        Voxels of core and halo, with the axes z, y, x. Read-only, because other steps may use the
        same array.
    shape : tuple of int
        Shape of the whole volume.
    space : Space, optional
        Axes, voxel size, unit and origin of the whole volume.
    volume : str, default: ""
        Name of the volume, if a PCollection has slabs of several.

    Raises
    ------
    ValueError
        If the shape of ``data`` does not match the core and its halo, or the halo reaches outside of the
        volume.

    Notes
    -----
    A runner passes the same slab to all steps that use it. A step that changes voxels must
    therefore start from `copy` or make a new array: ``dataclasses.replace(slab, data=slab.data *
    2)``. numpy's functions treat a slab as its ``data``.

    Examples
    --------
    >>> from beam_volumes.base.geometry import Box
    >>> core = Box((8, 0, 0), (16, 4, 4))
    >>> slab = bv.Slab(core, ((2, 2), (0, 0), (0, 0)), np.zeros((12, 4, 4), "u1"), (100, 4, 4))
    >>> str(slab.key), str(slab.box), slab.voxels.shape
    ('(8, 0, 0)', '[6:18, 0:4, 0:4]', (8, 4, 4))
    >>> np.mean(slab), np.asarray(slab) is slab.data
    (np.float64(0.0), True)
    >>> changed = slab.copy()
    >>> changed.data[0] = 7
    >>> slab.data[0] = 7
    Traceback (most recent call last):
    ValueError: assignment destination is read-only
    """

    core: Box
    halo: Halo
    data: np.ndarray
    shape: Triple
    space: Space = field(default_factory=Space)
    volume: str = ""

    def __post_init__(self) -> None:
        if self.data.shape != self.box.shape:
            raise ValueError(
                f"slab {self.key}: voxels of shape {self.data.shape} for a core of shape "
                f"{self.core.shape} with the halo {self.halo}, which needs {self.box.shape}"
            )
        if not Box.of_shape(self.shape).contains(self.box):
            raise ValueError(f"slab {self.key}: {self.box} reaches outside of {self.shape}")
        # A view: the caller's own array stays as it is.
        data = self.data.view()
        data.flags.writeable = False
        object.__setattr__(self, "data", data)

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor: numpy unpickles arrays as writable.
        return Slab, (self.core, self.halo, self.data, self.shape, self.space, self.volume)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.data, dtype, copy=copy)  # type: ignore[call-overload, no-any-return]

    def copy(self) -> Slab:
        """Return a slab with a copy of the voxels, which may be modified.

        Returns
        -------
        Slab
            The same slab; its ``data`` is a copy.

        Examples
        --------
        >>> from beam_volumes.base.geometry import Box
        >>> none = ((0, 0), (0, 0), (0, 0))
        >>> slab = bv.Slab(Box((0, 0, 0), (2, 4, 4)), none, np.zeros((2, 4, 4), "u1"), (2, 4, 4))
        >>> changed = slab.copy()
        >>> changed.data[0, 0, 0] = 1
        >>> int(slab.data.max()), int(changed.data.max())
        (0, 1)
        """
        copied = replace(self)
        object.__setattr__(copied, "data", self.data.copy())
        return copied

    @property
    def key(self) -> SlabKey:
        """The key of the slab."""
        z, y, x = map(int, self.core.start)
        return SlabKey(z, y, x, self.volume)

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
    """A header in JSON, then the voxels compressed; deterministic."""

    def encode(self, value: Slab) -> bytes:
        data = np.ascontiguousarray(value.data, value.data.dtype.newbyteorder("<"))
        head: dict[str, Any] = {
            "core": [value.core.start, value.core.stop],
            "halo": value.halo,
            "dtype": data.dtype.str,
            "shape": value.shape,
            "space": asdict(value.space),
            "volume": value.volume,
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
        return Slab(core, halo, data, _tuples(head["shape"]), space, head["volume"])

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return Slab


class SlabKeyCoder(beam.coders.Coder):
    """Three 64-bit integers, and the volume's name."""

    def encode(self, value: SlabKey) -> bytes:
        z, y, x, *volume = value
        return struct.pack(">qqq", z, y, x) + "".join(volume).encode()

    def decode(self, encoded: bytes) -> SlabKey:
        z, y, x = struct.unpack_from(">qqq", encoded)
        return SlabKey(z, y, x, encoded[24:].decode())

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type:
        return SlabKey


#: Elements of PCollections of slabs.
KeyedSlab: Any = Tuple[SlabKey, Slab]
#: The same as steps take it: a user's own step may leave the volume's name out of the key.
GivenSlab: Any = Tuple[Union[SlabKey, Tuple[int, ...]], Slab]


def slab_of(element: Any, step: str) -> Slab:
    """Return the slab of an element; ``step`` is for messages.

    Raises TypeError: if it is not a pair of a key and a slab.
    Raises ValueError: if the key belongs to another slab.
    """
    pair = isinstance(element, tuple) and len(element) == 2
    if not pair or not isinstance(element[1], Slab):
        given = "a Slab" if isinstance(element, Slab) else f"a {type(element).__name__}"
        raise TypeError(
            f"{step} accepts pairs (SlabKey, Slab), not {given}; make them with "
            "beam.WithKeys(lambda slab: slab.key)"
        )
    key, slab = element
    if tuple(key) not in (slab.key, slab.key[:3]):
        raise ValueError(
            f"{step}: the slab {slab.key} has the key {key}; use its own key, slab.key"
        )
    return slab


def _tuples(item: Any) -> Any:
    return tuple(map(_tuples, item)) if isinstance(item, list) else item


beam.coders.registry.register_coder(Slab, SlabCoder)
beam.coders.registry.register_coder(SlabKey, SlabKeyCoder)
