"""A synthetic electron-microscopy stack: cells with dark membranes, noise and uneven background."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tifffile
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree

#: Spacing, in voxels, of the coarse grid on which cells are computed.
COARSE = 4
#: Mean distance between cells, and half the width of a membrane, in voxels.
CELL, MEMBRANE = 56.0, 3.0


def write_specimen(
    folder: str | os.PathLike[str], shape: tuple[int, int, int], seed: int = 0
) -> None:
    """Write the slices as ``z0000.tif`` ...; the same seed gives the same bytes."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("z*.tif"):
        old.unlink()
    gap, _ = _cells(shape, seed)
    light = _light(shape[1:])
    for z, fine in enumerate(_slices(gap, shape)):
        image = _slice(fine, light, np.random.default_rng([seed, z]))
        tifffile.imwrite(folder / f"z{z:04d}.tif", image)


def _slices(coarse: np.ndarray, shape: tuple[int, int, int]) -> Iterator[np.ndarray]:
    """Interpolate the coarse grid to voxels, slice by slice."""
    rows, cols = _between(shape[1], coarse.shape[1]), _between(shape[2], coarse.shape[2])
    for z in range(shape[0]):
        k, part = divmod(z / COARSE, 1)
        yield rows @ ((1 - part) * coarse[int(k)] + part * coarse[int(k) + 1]) @ cols.T


def _cells(shape: tuple[int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute on the coarse grid how much nearer the nearest centre is than the second, and its index."""
    rng = np.random.default_rng(seed)
    counts = [n // COARSE + 2 for n in shape]
    extent = np.array(counts) * COARSE + 2 * CELL
    centres = rng.uniform(-CELL, extent - CELL, (max(2, int(np.prod(extent / CELL))), 3))
    points = np.stack(np.meshgrid(*(np.arange(n) * COARSE for n in counts), indexing="ij"), -1)
    # Distort space a little: real cells are not polyhedra.
    bend = [gaussian_filter(rng.standard_normal(counts), 4) for _ in range(3)]
    points = points + 9 * np.stack([b / b.std() for b in bend], -1)
    distance, nearest = cKDTree(centres).query(points, k=2, workers=-1)
    gap = (distance[..., 1] - distance[..., 0]).astype(np.float32)
    return gap, nearest[..., 0].astype(np.uint32)


def _between(n: int, coarse: int) -> np.ndarray:
    """Return the matrix of linear interpolation from the coarse grid."""
    matrix = np.zeros((n, coarse), np.float32)
    k, part = np.divmod(np.arange(n) / COARSE, 1)
    at = np.arange(n)
    matrix[at, k.astype(int)] = 1 - part
    matrix[at, k.astype(int) + 1] = part
    return matrix


def _light(shape: tuple[int, ...]) -> np.ndarray:
    """Return uneven illumination, which is darker towards two corners."""
    y, x = (np.linspace(-1, 1, n, dtype=np.float32) for n in shape)
    return 1 + 0.22 * y[:, None] * x - 0.12 * y[:, None] ** 2 + 0.1 * x


def _slice(gap: np.ndarray, light: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    membrane = np.exp(-((gap / (2 * MEMBRANE)) ** 2))
    image = (165 - 85 * membrane) * light * rng.uniform(0.97, 1.03)
    image += 20 * rng.standard_normal(gap.shape, np.float32)
    return np.clip(image, 0, 255).astype(np.uint8)
