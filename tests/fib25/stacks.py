"""Electron-microscopy stacks: a real one if it is next to the repository, and the demo's."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from beam_volumes.cli.specimen import COARSE, MEMBRANE, _cells, _slices, write_specimen

#: 250 slices of 250 x 250 voxels of 10 nm of a fly's brain.
FIB25 = Path(__file__).parents[2] / ".." / "shared" / "data" / "fib25"
MISSING = (
    "the FIB-25 sample is not at ../shared/data/fib25 beside the repository: it is training_sample2 of "
    "github.com/janelia-flyem/neuroproof_examples, its slices in grayscale/ and its groundtruth.h5"
)


@dataclass
class Stack:
    """A stack, and its true cells.

    Attributes
    ----------
    name : str
    slices : Path
        The folder of its slices.
    shape : tuple of int
    truth : callable
        Parts of cells, by voxel, and for each part its number and its cell's.
    """

    name: str
    slices: Path
    shape: tuple[int, int, int]
    truth: Callable[[], tuple[np.ndarray, np.ndarray]]


def fib25(_: Path) -> Stack:
    def truth():
        h5py = pytest.importorskip("h5py")
        with h5py.File(FIB25 / "groundtruth.h5") as file:
            return file["stack"][:], file["transforms"][:]

    return Stack("fib25", FIB25 / "grayscale", (250, 250, 250), truth)


def true_cells(shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    """The cell of each voxel of a specimen, from 1 on; 0 in the dark of membranes."""
    gap, nearest = _cells(shape, seed)
    near = [(np.arange(n) + COARSE // 2) // COARSE for n in shape]
    cells = nearest[np.ix_(*near)] + np.uint32(1)
    for z, fine in enumerate(_slices(gap, shape)):
        cells[z][fine < MEMBRANE] = 0
    return cells


def specimen(folder: Path) -> Stack:
    shape = (72, 130, 126)
    write_specimen(folder / "slices", shape)

    def truth():
        cells = true_cells(shape).astype(np.int32)
        # Some slices of a cell are a part of it.
        parts = np.where(cells > 0, 10 * cells + np.arange(shape[0])[:, None, None] // 9, 0)
        found = np.unique(parts)
        return parts, np.stack([found, found // 10], axis=1)

    return Stack("specimen", folder / "slices", shape, truth)
