"""Denoising by total variation, with all iterations in one sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Halo, Triple
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.filters.total_variation import iterate
from beam_volumes.kernels.rows import Rows, rows_of
from beam_volumes.ops.filters.denoise import lazy_number
from beam_volumes.ops.filters.linear import accumulator
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_in
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import Block, Padding, Stage, Work

#: Each iteration adds a voxel to the halo.
MAX_ITERATIONS = 1 << 12


@dataclass(frozen=True, eq=False)
class TotalVariation(Stage):
    """Updates of the dual field of total variation. The value is the weight."""

    updates: int
    shape: Triple
    ndim: int

    padding = Padding(("constant",) * 3, 0.0)  # type: ignore[arg-type]
    compiled = True

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = (min(self.updates, n - 1) for n in self.shape)
        return (((z, z), (y, y), (x, x)),)

    @property
    def cost(self) -> float:
        return 1.0 + 4.0 * self.updates * self.dtype.itemsize / 4

    def kept_bytes(self, rows: int, cols: int) -> int:
        high, wide = (
            min(n + 2 * self.updates, size) + 1
            for n, size in zip((rows, cols), self.shape[1:], strict=True)
        )
        return (4 * self.updates + 10) * high * wide * self.dtype.itemsize

    def begin(self, box: Box) -> Work:
        return _Iterations(self, box)


class _Iterations:
    """Iterations as a pipeline: each follows the one before it at a distance of one slice.

    An iteration keeps the dual field and the denoised image of the slice where it has stopped.
    """

    def __init__(self, stage: TotalVariation, box: Box):
        self.stage, self.box = stage, box
        self.start = [max(0, a - stage.updates) for a in box.start]
        self.next = self.start[0]
        high, wide = (
            min(n, b + stage.updates) - a + 1
            for n, a, b in zip(stage.shape[1:], self.start[1:], box.stop[1:], strict=True)
        )
        # One field for each iteration, one for the result, a new one, and zeros.
        self.fields = list(np.zeros((stage.updates + 3, 3, high, wide), stage.dtype))
        images = np.zeros((stage.updates + 1, high, wide), stage.dtype)
        self.images = [rows_of(images, np.array([k]), 0, 0) for k in range(len(images))]

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        stage, weight = self.stage, float(values[0])
        if not 0 <= weight < np.inf:
            raise ValueError(
                f"{stage.name}: weight={weight:g} is not a finite number of at least 0"
            )
        tau, real = 1 / (2 * stage.ndim), stage.dtype.type
        steps = real(tau), real(tau / max(weight, 1e-30))
        stop = out.start[0] + out.depth + stage.updates
        for z in range(self.next, stop):
            self._advance(z, inputs[0], out, steps, threads)
        self.next = stop

    def _advance(self, z: int, image: Block, out: Block, steps: Any, threads: int) -> None:
        """Take in slice ``z``; iterations have reached ``z``, ``z - 1`` and so on."""
        updates, fields, images = self.stage.updates, self.fields, self.images
        new, size = fields[-2], self.stage.shape[0]
        new[...] = 0
        for k in range(min(z, updates) + 1):
            at, first = z - k, max(0, self.box.start[0] - updates + k)
            denoises = first <= at < size
            ascends = first < at <= size and k < updates
            old = fields[k] if at else fields[-1]
            source = self._rows(image, min(at, size - 1))
            above = self._rows(out, at) if k == updates else images[-1 if denoises else k]
            (y0, y1), (x0, x1) = (self._range(axis, updates - k) for axis in (1, 2))

            def work(a: int, b: int) -> None:
                rows = y0 + a, y0 + b, y1, x0, x1  # noqa: B023
                iterate(source, new, old, images[k], above, *rows, denoises, ascends, *steps)  # noqa: B023

            if denoises or ascends:
                in_strips(y1 - y0, (y1 - y0) * (x1 - x0), threads, work)
            if denoises and k < updates:
                images[k], images[-1] = images[-1], images[k]
            fields[k], new = new, fields[k]
        fields[-2] = new

    def _range(self, axis: int, reach: int) -> tuple[int, int]:
        """Rows or columns within a distance from the result, counted from the first kept one."""
        start, size = self.start[axis], self.stage.shape[axis]
        lo, hi = self.box.start[axis] - reach, self.box.stop[axis] + reach
        return max(0, lo) - start, min(size, hi) - start

    def _rows(self, block: Block, z: int) -> Rows:
        """Return a slice of a block, from the first kept row and column on."""
        lines, firsts, left = block.as_rows
        dy, dx = (a - b for a, b in zip(self.start[1:], block.start[1:], strict=True))
        k = z - block.start[0]
        return Rows(lines, firsts[k : k + 1] + dy, left + dx)


@documented
def denoise_tv_chambolle(
    volume: Volume, weight: float | Scalar = 0.1, *, max_num_iter: int = 50
) -> Volume:
    """Denoise by minimizing the total variation, which keeps edges with flat areas between them.

    Parameters
    ----------
    %(intensities)s
    weight : float or Scalar, default: 0.1
        How much to denoise, in units of intensity. Start with ``bv.estimate_sigma(volume)``.
    max_num_iter : int, default: 50
        The number of iterations, at least 1; 1 returns the volume. Larger weights need more
        iterations.

    Returns
    -------
    Volume
        A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume
        for other dtypes.

    Raises
    ------
    %(errors)s

    See Also
    --------
    denoise_nl_means : keeps textures.
    denoise_bilateral : faster; a mean of near voxels.
    estimate_sigma : estimates the noise.

    Notes
    -----
    One sweep. The halo is ``max_num_iter - 1`` voxels. Memory holds four floats per iteration for
    each voxel of a slice of the slab.

    All iterations are computed, as in scikit-image with ``eps=0``; otherwise, scikit-image stops
    when the energy of the whole volume changes by less than ``eps``. Intensities keep their scale,
    so for integers ``weight`` is a multiple of scikit-image's. Each channel is denoised separately.

    References
    ----------
    `skimage.restoration.denoise_tv_chambolle`; A. Chambolle, "An algorithm for total variation
    minimization and applications", Journal of Mathematical Imaging and Vision 20 (2004).

    Examples
    --------
    >>> step = np.array([[10, 12, 10, 12, 90, 92, 90, 92]], "u1")
    >>> np.asarray(bv.denoise_tv_chambolle(step, weight=5)).round(1)
    array([[12.1, 12.2, 12.2, 12.5, 89.5, 89.8, 89.8, 89.9]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "denoise_tv_chambolle"
    iterations = par.whole_number(max_num_iter, "max_num_iter", name)
    if iterations > MAX_ITERATIONS:
        raise ValueError(f"{name}: max_num_iter={max_num_iter}: the maximum is {MAX_ITERATIONS:,}")
    result = accumulator(volume.dtype)
    if not volume.size:
        return volume.astype(result)
    stage = TotalVariation(
        name, result, iterations - 1, volume.nodes[0].shape, len(volume.space.visible)
    )
    return stage_in(result, volume, stage, lazy_number(weight, "weight", name))
