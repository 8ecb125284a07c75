"""Files that h5py writes, for tests."""

from __future__ import annotations

import numpy as np
import pytest

from beam_volumes.storage.formats.hdf5 import reader as hdf5_reader

h5py = pytest.importorskip("h5py")

SHAPE = (11, 23, 17)
CHUNKED = {"chunks": (4, 8, 5)}
KINDS = {
    "contiguous": {},
    "chunks": CHUNKED,
    "resizable": {**CHUNKED, "maxshape": (None, None, None)},
    "one chunk": {"chunks": SHAPE},
    "gzip": {**CHUNKED, "compression": "gzip"},
    "gzip, shuffled": {**CHUNKED, "compression": "gzip", "shuffle": True},
    "lzf": {"chunks": (3, 7, 16), "compression": "lzf", "shuffle": True},
    "summed": {**CHUNKED, "compression": "gzip", "shuffle": True, "fletcher32": True},
    "scaled": {**CHUNKED, "scaleoffset": 0},
}
DTYPES = ["bool", "u1", ">u2", "<i4", "u8", "f2", ">f4", "f8"]


def voxels(stored="u2", shape=SHAPE):
    found = np.random.default_rng(3).integers(0, 200, shape)
    return (found > 100 if np.dtype(stored) == bool else found).astype(stored)


def write(path, array, name="volumes/raw", libver=None, block=0, attributes=None, **how):
    with h5py.File(path, "w", libver=libver, userblock_size=block) as file:
        node = file.create_dataset(name, data=array, **how)
        node.attrs.update(attributes or {})
    return path


def counting(monkeypatch):
    """Sizes of reads of files by position."""
    sizes = []
    read = hdf5_reader.read_from

    def counted(handle, path, at, size):
        sizes.append(size)
        return read(handle, path, at, size)

    monkeypatch.setattr(hdf5_reader, "read_from", counted)
    return sizes
