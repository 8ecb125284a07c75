"""Shards of precomputed volumes that are boxes of chunks, and the names of their files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from beam_volumes.base.geometry import Triple

#: Bits of chunks in a minishard, which has a common index.
MINISHARD_BITS = 9


@dataclass(frozen=True)
class Shards:
    """Shards that are boxes of chunks."""

    # A chunk's number interleaves the bits of its position along x, y and z, as many as the grid of chunks
    # needs. A shard has all chunks with numbers that only differ in the low bits. These are low bits of x, y
    # and z, so the chunks are a box.

    shape: Triple  #: Voxels of a whole shard along z, y, x
    #: The axis of each bit of a chunk's number (0 is z), the lowest first
    bits: tuple[int, ...]
    inner: int  #: The number of low bits, which identify chunks in a shard

    def metadata(self, is_packed: bool) -> dict[str, Any]:
        minishard = min(self.inner, MINISHARD_BITS)
        return {
            "@type": "neuroglancer_uint64_sharded_v1",
            "preshift_bits": minishard,
            "minishard_bits": self.inner - minishard,
            "shard_bits": len(self.bits) - self.inner,
            "hash": "identity",
            "minishard_index_encoding": "gzip",
            "data_encoding": "raw" if is_packed else "gzip",
        }

    def name(self, cell: Triple) -> str:
        left, number = list(cell), 0
        for k, axis in enumerate(self.bits[self.inner :]):
            number |= (left[axis] & 1) << k
            left[axis] >>= 1
        return f"{number:0{self._digits}x}.shard"

    def cell(self, name: str) -> Triple | None:
        """Return the shard with a file's name, or None."""
        digits = name.removesuffix(".shard")
        if len(digits) != self._digits or digits == name:
            return None
        try:
            number = int(digits, 16)
        except ValueError:
            return None
        cell, used_bits = [0, 0, 0], [0, 0, 0]
        for k, axis in enumerate(self.bits[self.inner :]):
            cell[axis] |= (number >> k & 1) << used_bits[axis]
            used_bits[axis] += 1
        z, y, x = cell
        return (z, y, x)

    @property
    def _digits(self) -> int:
        return max(1, -(-(len(self.bits) - self.inner) // 4))


def shard_layouts(shape: Triple, chunk: Triple) -> list[Shards]:
    """Return all shards that are boxes; each is twice as large as the previous one."""
    counts = [-(-n // c) for n, c in zip(shape, chunk, strict=True)]
    needed = [(n - 1).bit_length() for n in counts]
    bits = tuple(axis for bit in range(max(needed)) for axis in (2, 1, 0) if bit < needed[axis])
    found = []
    for inner in range(len(bits) + 1):
        doubled = [bits[:inner].count(axis) for axis in range(3)]
        z, y, x = (min(2**b, n) * c for b, n, c in zip(doubled, counts, chunk, strict=True))
        found.append(Shards((z, y, x), bits, inner))
    return found
