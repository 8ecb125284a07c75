"""The reach of a network, measured by changing single planes of its input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.keywords import named_checked
from beam_volumes.ops.networks.given import model_of, of_slices
from beam_volumes.ops.networks.models import Model
from beam_volumes.ops.networks.trial import called
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import triple

#: Maximum shift to try.
_MAX_STRIDE = 64


@dataclass(frozen=True)
class Probed:
    """The result of `probe_model`, along z, y and x, or y and x for a network of slices."""

    #: The smallest shifts of the input that shift the result equally.
    stride: tuple[int, ...]
    #: The number of voxels before and after a voxel on which its result may depend.
    reach: tuple[tuple[int, int], ...]
    #: The argument for `predict`: the reach, in multiples of the stride if patches need them.
    context: tuple[tuple[int, int], ...]
    #: Voxels per voxel of the result.
    scale: tuple[int, ...]
    #: Number of channels of the result.
    channels: int


@named_checked
def probe_model(
    model: Any,
    patch: int | Sequence[int] = 64,
    *,
    channels: int | None = None,
    device: str = "auto",
) -> Probed:
    """Measure the reach of a network and the stride at which shifts of its input shift its result.

    Parameters
    ----------
    model : path, callable or ModelHandler
        An ``.onnx``, ``.pt`` or ``.pt2`` file, or a function of float32 arrays with the axes batch,
        c, z, y, x. An Apache Beam `ModelHandler` for numpy arrays c, z, y, x is accepted as well.
    patch : int or sequence of int, default: 64
        Input extent along z, y, x, or y, x for a network of slices. The extent must be more than
        twice the reach on each side.
    channels : int, optional
        Number of input channels; by default from the file, or 1.
    device : {"auto", "cpu", "cuda"}, default: "auto"
        The device for ONNX Runtime.

    Returns
    -------
    Probed
        ``stride``, ``context``, ``scale`` and ``channels``, and the measured ``reach``.

    Raises
    ------
    ValueError
        If the patch is too small, or no shift of the input shifts the result equally.
    TypeError
        If ``model`` cannot be run.
    FileNotFoundError, ImportError
        If the file does not exist, or ONNX Runtime is not installed.

    See Also
    --------
    predict : uses the results as ``context=`` and ``stride=``.

    Notes
    -----
    The stride is determined by shifting noise. Then single planes near the centre are changed, one
    for each position relative to the stride. Each plane is changed up and down, and changes in the
    result are located. Dependencies that none of these changes reveal are not detected. The network
    runs twice for each such plane, and once for each shift.

    References
    ----------
    `Luo et al., Understanding the effective receptive field, NIPS 2016 <https://arxiv.org/abs/1701.04128>`_.

    Examples
    --------
    >>> def before(batch):  # the sum of a voxel and the two before it along x
    ...     return batch + np.roll(batch, 1, axis=-1) + np.roll(batch, 2, axis=-1)
    >>> found = bv.probe_model(before, (1, 16, 16))
    >>> found.stride, found.context
    ((1, 1, 1), ((0, 0), (0, 0), (2, 0)))
    """
    what = "probe_model"
    network = model_of(model, what, device, None, None)
    flat = network.ndim == 2
    axes = [1, 2] if flat else [0, 1, 2]
    size = triple(par.whole_numbers(patch, axes, 1, "patch", 1, what))
    volume: Model = of_slices(network) if flat else network
    probe = _Probe(volume, what, size, channels or network.channels or 1)
    stride = [probe.stride(a) for a in axes]
    found = [probe.reach(a, s) for a, s in zip(axes, stride, strict=True)]
    context = [
        # Patches must be multiples of the stride if nothing is cropped.
        pair if probe.rest[a] else (-(-pair[0] // s) * s, -(-pair[1] // s) * s)
        for a, s, pair in zip(axes, stride, found, strict=True)
    ]
    scale = tuple(probe.scale[a] for a in axes)
    return Probed(tuple(stride), tuple(found), tuple(context), scale, probe.made.shape[1])


class _Probe:
    """A network and a patch of noise with changes of planes."""

    def __init__(self, model: Model, function: str, patch: Triple, channels: int):
        self.model, self.function, self.patch = model, function, patch
        self.network = model.on_trial()
        self._rng = np.random.default_rng(1)
        self.noise = self._rng.random((1, channels, *patch), dtype=np.float32)
        self.made = self._run(self.noise)
        if self.made.ndim != 5:
            raise ValueError(
                f"{function}: {model.name} returned shape {self.made.shape} instead of (batch, c, z, y, x)"
            )
        given, made = patch, self.made.shape[2:]
        self.scale = triple(
            [1 if 2 * m > p + 1 else max(1, p // m) for p, m in zip(given, made, strict=True)]
        )
        self.rest = [p - m * s for p, m, s in zip(given, made, self.scale, strict=True)]

    def _run(self, batch: np.ndarray) -> np.ndarray:
        return called(self.network, batch, self.model, self.function)

    def stride(self, axis: int) -> int:
        """Find the smallest shift along an axis that shifts the result in the middle of the patch."""
        n, scale = self.patch[axis], self.scale[axis]
        if n == 1:
            return 1
        for shift in range(scale, min(_MAX_STRIDE, n // 4) + 1, scale):
            moved = np.roll(self.noise, shift, axis=axis + 2)
            there = np.roll(self._run(moved), -(shift // scale), axis=axis + 2)
            if np.array_equal(_middle(there, axis), _middle(self.made, axis)):
                return shift
        raise ValueError(
            f"{self.function}: no shift of {self.patch[axis]} voxels along {'zyx'[axis]} by up to "
            f"{min(_MAX_STRIDE, n // 4)} shifts the result of {self.model.name} equally: use a larger patch; "
            "a network that normalizes each patch, or uses positions, can only be blended"
        )

    def reach(self, axis: int, stride: int) -> tuple[int, int]:
        """Measure on how many voxels before and after a voxel its result depends, along an axis."""
        before = after = 0
        n, scale = self.patch[axis], self.scale[axis]
        lead = self.rest[axis] // 2
        for at in self._places(axis, stride):
            for value in (3.0, -3.0):
                changed = self.noise.copy()
                # A whole plane, so some path to each voxel is active.
                plane = [slice(None)] * 5
                plane[axis + 2] = slice(at, at + 1)
                changed[tuple(plane)] += value * self._rng.random(changed[tuple(plane)].shape)
                others = tuple(a for a in range(5) if a != axis + 2)
                changes = np.flatnonzero((self._run(changed) != self.made).any(axis=others))
                if not len(changes):
                    continue
                first, last = int(changes[0]) * scale + lead, int(changes[-1]) * scale + lead
                if n > 1 and (changes[0] == 0 or changes[-1] == self.made.shape[axis + 2] - 1):
                    raise ValueError(
                        f"{self.function}: {self.model.name} reaches from {'zyx'[axis]} = {at} to an edge of "
                        f"a patch of {n}; use a larger patch"
                    )
                before, after = max(before, last - at), max(after, at - (first + scale - 1))
        return max(0, before), max(0, after)

    def _places(self, axis: int, stride: int) -> Iterator[int]:
        middle = self.patch[axis] // 2 // stride * stride
        yield from range(middle, min(middle + stride, self.patch[axis]))


def _middle(made: np.ndarray, axis: int) -> np.ndarray:
    """Return two voxels in the middle of the result's axis, away from edges."""
    n = made.shape[axis + 2]
    part = [slice(None)] * 5
    part[axis + 2] = slice(max(0, n // 2 - 1), n // 2 + 1)
    return made[tuple(part)]
