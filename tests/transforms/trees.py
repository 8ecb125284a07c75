"""Helpers of these tests."""

import hashlib
from pathlib import Path

import numpy as np

import beam_volumes as bv
from beam_volumes.storage.formats.format import PROVENANCE


def chunk_files(path):
    """Digests of all files of an output with voxels, by name: the bytes, not the decoded voxels."""
    root = Path(path)
    return {
        str(f.relative_to(root)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in sorted(root.rglob("*"))
        if f.is_file() and f.name not in (PROVENANCE, "zarr.json", ".zarray", ".zattrs")
    }


def stored(tmp_path, array, name="in.zarr", **how):
    """A volume of an array in a file."""
    bv.compute(bv.open(array).to(tmp_path / name, **how), runner=None)
    return bv.open(str(tmp_path / name))


def membranes(shape=(20, 24, 28), seed=0):
    """Blurred noise as uint8: something that filters and thresholds have work with."""
    x = np.random.default_rng(seed).normal(size=shape)
    for axis in range(3):
        x = x + np.roll(x, 1, axis)
    return np.clip(128 + 30 * x, 0, 255).astype("u1")
