"""Functions by Fourier transforms of blocks, which overlap like the patches of a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

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
from beam_volumes.ops.parameters.building import constant_in, stage_of, triple
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import PlainData

#: Default bytes of the voxels of a block.
_BLOCK_BYTES = 1 << 24
#: Default extent of a block along axes that are not transformed.
_UNFILTERED = 32
Function = TypeVar("Function", bound="BlockFunction")
#: Approximate nanoseconds of a transform for each voxel.
_NANOSECONDS = 10.0


@dataclass(frozen=True)
class Transforms:
    """Real Fourier transforms of blocks of one shape, along axes of a kernel with several voxels."""

    shape: Triple
    axes: tuple[int, ...]
    threads: int
    dtype: np.dtype

    def forward(self, voxels: np.ndarray) -> np.ndarray:
        return fft.rfftn(voxels, axes=self.axes, workers=self.threads)

    def backward(self, spectrum: np.ndarray) -> np.ndarray:
        sizes = [self.shape[a] for a in self.axes]
        return fft.irfftn(spectrum, sizes, self.axes, overwrite_x=True, workers=self.threads)

    def of_kernel(self, kernel: np.ndarray) -> np.ndarray:
        """Return the spectrum of a kernel, centred at voxel ``n // 2`` of its ``n``."""
        padded = np.zeros([self.shape[a] if a in self.axes else 1 for a in range(3)])
        padded[tuple(slice(n) for n in kernel.shape)] = kernel
        padded = np.roll(padded, [-(n // 2) for n in kernel.shape], (0, 1, 2))
        spectrum = self.forward(padded.astype(self.dtype))
        return np.array(np.broadcast_to(spectrum, self._shape_of(spectrum)), order="C")

    def _shape_of(self, spectrum: np.ndarray) -> Triple:
        return triple([spectrum.shape[a] if a in self.axes else self.shape[a] for a in range(3)])

    def filtered(self, voxels: np.ndarray, spectrum: np.ndarray, sign: int = 1) -> np.ndarray:
        """Multiply the transform of voxels by a spectrum, or by its conjugate for a ``sign`` of -1."""
        own = self.forward(voxels)
        flat, factors = (a.view(self.dtype).reshape(len(a), -1) for a in (own, spectrum))
        signed = self.dtype.type(sign)

        def multiplied(first: int, stop: int) -> None:
            multiply(flat[first:stop].reshape(-1), factors[first:stop].reshape(-1), signed)

        in_strips(len(flat), own.size, self.threads, multiplied)
        return self.backward(own)


@dataclass(frozen=True, eq=False)
class BlockFunction(PlainData, Model):
    """A function of blocks that are transformed as if they repeated."""

    kernel: np.ndarray  #: Along z, y and x.
    patch: Triple  #: Shape of a block.

    takes = np.dtype(np.float64)
    compiled = True
    accelerated = False  # type: ignore[assignment]
    #: Arrays of a block's shape that it allocates.
    arrays: ClassVar[int] = 5

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which blocks are transformed."""
        return tuple(a for a in range(3) if self.kernel.shape[a] > 1) or (2,)

    @property
    def transforms(self) -> int:
        """The number of transforms of a block."""
        return 2

    @property
    def block_bytes(self) -> int:
        """The bytes that it allocates for a block."""
        return self.takes.itemsize * self.arrays * math.prod(self.patch)

    @property
    def block_nanoseconds(self) -> float:
        return _NANOSECONDS * self.transforms * math.prod(self.patch)

    def made(self, over: Transforms) -> Callable[..., np.ndarray]:
        """Return the function of a block's voxels."""
        raise NotImplementedError

    def over(self, threads: int) -> Transforms:
        return Transforms(self.patch, self.axes, threads, self.takes)

    def _load(self, threads: int) -> Network:
        function = self.made(self.over(threads))

        def call(batch: np.ndarray) -> np.ndarray:
            check_finite(self.name, "block", batch[0, 0])
            return function(batch[0, 0])[None, None]

        return call


def check_finite(name: str, place: str, *voxels: np.ndarray) -> None:
    """Refuse NaN and infinity."""
    if not all(v.dtype.kind != "f" or is_finite(v) for v in voxels):
        raise ValueError(
            f"{name}: a {place} has voxels that are NaN or infinite, which a Fourier transform spreads to "
            "all others; replace them, as in bv.where(np.isfinite(v), v, 0)"
        )


def kernel_of(volume: Volume, given: Any, what: str, name: str) -> np.ndarray:
    """Return a kernel along z, y and x, from an array with an axis for each of the volume's."""
    numbers = par.element(given, what, name).astype(np.float64)
    axes = volume.space.visible
    if numbers.ndim != len(axes) or not numbers.size:
        raise ValueError(
            f"{name}: {what} has shape {numbers.shape}; give one dimension for each of "
            f"{len(axes)} axes, of extent 1 along axes that are not filtered"
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
    """Apply a function to each channel in blocks, with the parameters of `blocks_of`."""
    result = accumulator(volume.dtype)
    function, patches = blocks_of(volume, name, model, extent, context, patch, mode, cval)
    if not volume.size:
        return in_dtype(volume.astype(result), dtype)
    shape = patches.of
    stage = Predict(
        name, result, shape, shape, function, patches, 1, 1, "", Turns(), False, 0.0, True,
        function.block_bytes, nanoseconds=function.block_nanoseconds / math.prod(patches.made),
    )  # fmt: skip
    return in_dtype(stage_of(volume, stage), dtype)


def blocks_of(
    volume: Volume,
    name: str,
    model: Callable[[Triple], Function],
    extent: Triple,
    context: tuple[Triple, Triple],
    patch: Any,
    mode: Any,
    cval: float,
) -> tuple[Function, Patches]:
    """Return the function for blocks of the given or the default shape, and the blocks.

    ``extent`` is a block's minimum, and ``context`` the voxels before and after that each block discards.
    """
    axes, shape = volume.space.visible, triple(volume.grid_shape)
    modes = par.modes_of(mode, axes, name, wraps=False)
    asked = None if patch is None else par.whole_numbers(patch, axes, 1, "patch", 1, name)
    around = triple([a + b for a, b in zip(*context, strict=True)])
    room = _BLOCK_BYTES // model(extent).takes.itemsize
    block = _block(shape, extent, around, room) if asked is None else triple(asked)
    if any(n <= r or n < e for n, r, e in zip(block, around, extent, strict=True)):
        smallest = [max(r + 1, e) for r, e in zip(around, extent, strict=True)]
        raise ValueError(
            f"{name}: patch={patch!r} is too small; it must have at least "
            f"{[smallest[a] for a in axes]} voxels"
        )
    made = triple([n - r for n, r in zip(block, around, strict=True)])
    before, function = context[0], model(block)
    outside = constant_in(function.takes, cval, "cval", name)
    patches = Patches(shape, block, (1, 1, 1), before, made, made, before, modes, float(outside))
    return function, patches


def _block(shape: Triple, extent: Triple, around: Triple, voxels: int) -> Triple:
    """Return the shape of blocks that compute the fewest voxels in total.

    Blocks have at most so many voxels, and discard at most half of their extent, or of their voxels.

    >>> _block((64, 128, 128), (17, 13, 13), (64, 48, 48), 1 << 22)
    (128, 180, 180)
    """
    options = [_sizes(*each) for each in zip(shape, extent, around, strict=True)]
    sizes = np.ix_(*(list(each) for each in options))
    totals = np.ix_(*(list(each.values()) for each in options))
    fits = sizes[0] * sizes[1] * sizes[2] <= voxels
    fits[0, 0, 0] = True
    work = np.where(fits, totals[0] * totals[1] * totals[2], np.inf)
    best = np.unravel_index(np.argmin(work), work.shape)
    return triple([[*each][k] for each, k in zip(options, best, strict=True)])


def _sizes(n: int, extent: int, discarded: int) -> dict[int, float]:
    """Return possible extents of blocks along an axis, and how many voxels all of them have.

    Longer blocks are listed only if they have fewer in total.
    """
    if extent == 1 and not discarded:
        return {max(1, min(n, _UNFILTERED)): float(n)}
    found: dict[int, float] = {}
    for own in sorted({-(-n // k) for k in range(1, n + 1)} or {1}):
        size = fft.next_fast_len(max(own + discarded, extent), True)
        total = float(-(-n // (size - discarded)) * size)
        if own >= min(n, discarded) and total < min(found.values(), default=math.inf):
            found[size] = total
    return found


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
