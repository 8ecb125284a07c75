"""Functions by Fourier transforms of blocks, which overlap like the patches of a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike
from scipy import fft

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.fourier.spectra import multiply
from beam_volumes.ops.filters.linear import accumulator, in_dtype
from beam_volumes.ops.networks.models import Model, Network
from beam_volumes.ops.networks.patches import Patches
from beam_volumes.ops.networks.stages import Predict, is_finite
from beam_volumes.ops.networks.turns import Turns
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_of, triple
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import PlainData

#: Default voxels of a block.
_BLOCK_VOXELS = 1 << 21
#: Approximate nanoseconds of a transform for each voxel.
_NANOSECONDS = 10.0


@dataclass(frozen=True)
class Transforms:
    """Real Fourier transforms of blocks of one shape, along axes of a kernel with several voxels."""

    shape: Triple
    axes: tuple[int, ...]
    threads: int

    def forward(self, voxels: np.ndarray) -> np.ndarray:
        return fft.rfftn(voxels, axes=self.axes, workers=self.threads)

    def backward(self, spectrum: np.ndarray) -> np.ndarray:
        sizes = [self.shape[a] for a in self.axes]
        return fft.irfftn(spectrum, sizes, self.axes, overwrite_x=True, workers=self.threads)

    def of_kernel(self, kernel: np.ndarray) -> np.ndarray:
        """Return the spectrum of a kernel, centred at voxel ``n // 2`` of its ``n``."""
        padded = np.zeros([self.shape[a] if a in self.axes else 1 for a in range(3)])
        padded[tuple(slice(n) for n in kernel.shape)] = kernel
        spectrum = self.forward(np.roll(padded, [-(n // 2) for n in kernel.shape], (0, 1, 2)))
        return np.array(np.broadcast_to(spectrum, self._shape_of(spectrum)), order="C")

    def _shape_of(self, spectrum: np.ndarray) -> Triple:
        return triple([spectrum.shape[a] if a in self.axes else self.shape[a] for a in range(3)])

    def filtered(self, voxels: np.ndarray, spectrum: np.ndarray, sign: int = 1) -> np.ndarray:
        """Multiply the transform of voxels by a spectrum, or by its conjugate for a ``sign`` of -1."""
        own = self.forward(voxels)
        flat, factors = (a.view(np.float64).reshape(len(a), -1) for a in (own, spectrum))

        def multiplied(first: int, stop: int) -> None:
            multiply(flat[first:stop].reshape(-1), factors[first:stop].reshape(-1), float(sign))

        in_strips(len(flat), own.size, self.threads, multiplied)
        return self.backward(own)


@dataclass(frozen=True, eq=False)
class BlockFunction(PlainData, Model):
    """A function of blocks that are transformed as if they repeated."""

    kernel: np.ndarray  #: Along z, y and x.
    patch: Triple  #: Shape of a block.

    takes = np.dtype(np.float64)
    accelerated = False  # type: ignore[assignment]
    #: Arrays of float64 of a block's shape that it allocates.
    arrays: ClassVar[int] = 5

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which blocks are transformed."""
        return tuple(a for a in range(3) if self.kernel.shape[a] > 1) or (2,)

    @property
    def transforms(self) -> int:
        """The number of transforms of a block."""
        return 2

    def made(self, over: Transforms) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function of a block's voxels."""
        raise NotImplementedError

    def _load(self, threads: int) -> Network:
        function = self.made(Transforms(self.patch, self.axes, threads))

        def call(batch: np.ndarray) -> np.ndarray:
            voxels = batch[0, 0]
            if not is_finite(voxels):
                raise ValueError(
                    f"{self.name}: a block has voxels that are NaN or infinite, which a Fourier transform "
                    "spreads to all others; replace them, as in bv.where(np.isfinite(v), v, 0)"
                )
            return function(voxels)[None, None]

        return call


def kernel_of(volume: Volume, given: Any, what: str, name: str) -> np.ndarray:
    """Return a kernel along z, y and x, from an array with an axis for each of the volume's."""
    numbers = par.element(given, what, name).astype(np.float64)
    axes = volume.space.visible
    if numbers.ndim != len(axes) or not numbers.size:
        raise ValueError(
            f"{name}: {what} of shape {numbers.shape} for {len(axes)} axes; give one dimension for each "
            "axis, of extent 1 along axes that are not filtered"
        )
    par.not_too_large(numbers.shape, f"{name}: {what} of shape {numbers.shape}")
    extents = iter(numbers.shape)
    return numbers.reshape([next(extents) if a in axes else 1 for a in range(3)])


def in_blocks(
    volume: Volume,
    name: str,
    model: Callable[[Triple], BlockFunction],
    extent: Triple,
    context: tuple[Triple, Triple],
    patch: Any,
    mode: Any,
    cval: float,
    dtype: DTypeLike | None,
) -> Volume:
    """Apply a function to each channel in blocks.

    ``extent`` is the minimum extent of a block, and ``context`` are the voxels before and after that each
    block discards.
    """
    result = accumulator(volume.dtype)
    axes, shape = volume.space.visible, triple(volume.grid_shape)
    modes = par.modes_of(mode, axes, name, wraps=False)
    asked = None if patch is None else par.whole_numbers(patch, axes, 1, "patch", 1, name)
    if not volume.size:
        return in_dtype(volume.astype(result), dtype)
    around = triple([a + b for a, b in zip(*context, strict=True)])
    block = _block(shape, extent, around) if asked is None else triple(asked)
    if any(n <= r or n < e for n, r, e in zip(block, around, extent, strict=True)):
        smallest = [max(r + 1, e) for r, e in zip(around, extent, strict=True)]
        raise ValueError(
            f"{name}: patch={patch!r} is too small; it must have at least "
            f"{[smallest[a] for a in axes]} voxels"
        )
    made = triple([n - r for n, r in zip(block, around, strict=True)])
    before = context[0]
    patches = Patches(shape, block, (1, 1, 1), before, made, made, before, modes, float(cval))
    function = model(block)
    voxels = math.prod(block)
    stage = Predict(
        name, result, shape, shape, function, patches, 1, 1, "", Turns(), False, 0.0, True,
        8 * function.arrays * voxels,
        nanoseconds=_NANOSECONDS * function.transforms * voxels / math.prod(made),
    )  # fmt: skip
    return in_dtype(stage_of(volume, stage), dtype)


def _block(shape: Triple, extent: Triple, around: Triple) -> Triple:
    """Return the default shape of a block: at most half of its extent is discarded."""
    sides = max(1, sum(n > 1 for n in shape))
    room = math.floor(_BLOCK_VOXELS ** (1 / sides) + 1e-9)
    block = []
    for n, e, discarded in zip(shape, extent, around, strict=True):
        own = max(discarded, room - discarded)
        own = -(-n // -(-n // own))
        size = max(own + discarded, e)
        block.append(fft.next_fast_len(size, True) if e > 1 else size)
    return triple(block)


def reach(kernel: np.ndarray, axis: int, left_out: float) -> int:
    """Return the distance from a kernel's centre beyond which its sum is a small share of all.

    >>> reach(np.array([[[0.0, 1, 2, 1, 0]]]), 2, 1e-4)
    1
    """
    along = np.abs(kernel).sum(tuple(a for a in range(3) if a != axis))
    centre = len(along) // 2
    for distance in range(centre):
        beyond = along[: centre - distance].sum() + along[centre + distance + 1 :].sum()
        if beyond <= left_out * along.sum():
            return distance
    return centre
