"""Parsing of size=, footprint=, origin=, axes=, mode= and cval=: the neighbourhood of a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple, connectivity_structure
from beam_volumes.base.space import AXES
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import constant_in, exact, triple
from beam_volumes.sweep.stage import Padding

#: Name, dtype, voxels before, extent and padding of a stage.
Fields = tuple[str, np.dtype, Triple, Triple, Padding]


@dataclass(frozen=True, eq=False)
class Footprint:
    """The footprint of a filter along z, y, x, and the values beyond the edges."""

    name: str  #: The name of the filter in messages and plans.
    #: bool. The voxels of the extent that belong to it. A box of any size takes no memory.
    inside: np.ndarray
    #: Weights or heights, float64, over the extent.
    numbers: np.ndarray | None
    #: Voxels of the extent before the centre: scipy's ``size // 2 + origin``.
    before: Triple
    modes: tuple[str, str, str]
    cval: float

    @classmethod
    def of(
        cls,
        volume: Volume,
        name: str,
        size: Any,
        footprint: Any,
        origin: Any,
        axes: Any,
        mode: Any,
        cval: float,
        heights: Any = None,
    ) -> Footprint:
        """From ``size`` or ``footprint``, with heights for a structuring element that is not flat."""
        chosen = par.axes_of(volume, axes, name)
        numbers = None
        if heights is not None:
            numbers = _expanded(
                par.element(heights, "structure", name, True).astype(np.float64),
                chosen,
                "structure",
                name,
            )
            size = None
            if footprint is None:
                footprint = np.ones(np.shape(heights), bool)
        if footprint is None:
            if size is None:
                raise ValueError(f"{name} needs size= or footprint=")
            sizes = par.whole_numbers(size, chosen, 1, "size", 1)
            par.not_too_large(sizes, f"{name}: size={size!r}")
            inside = _box(sizes)
        elif size is not None:
            raise ValueError(f"{name}: give size= or footprint=, not both")
        else:
            inside = _expanded(
                par.element(footprint, "footprint", name), chosen, "footprint", name
            ).astype(bool)
        if numbers is not None and numbers.shape != inside.shape:
            raise ValueError(f"{name}: structure and footprint have different shapes")
        return cls._placed(volume, name, inside, numbers, origin, chosen, mode, cval)

    @classmethod
    def of_box(
        cls, volume: Volume, name: str, size: Any, origin: Any, axes: Any, mode: Any, cval: float
    ) -> Footprint:
        """A box of any size, for a filter that does not visit each of its voxels."""
        chosen = par.axes_of(volume, axes, name)
        sizes = par.whole_numbers(size, chosen, 1, "size", 1)
        par.not_too_long(max(sizes), f"{name}: size={size!r}")
        return cls._placed(volume, name, _box(sizes), None, origin, chosen, mode, cval)

    @classmethod
    def of_structure(
        cls, volume: Volume, name: str, structure: Any, origin: Any, axes: Any, border: float
    ) -> Footprint:
        """From a structuring element of binary morphology, by default the cross of radius 1."""
        chosen = par.axes_of(volume, axes, name)
        if structure is None:
            structure = connectivity_structure(1, len(chosen))
        inside = _expanded(
            par.element(structure, "structure", name), chosen, "structure", name
        ).astype(bool)
        return cls._placed(volume, name, inside, None, origin, chosen, "constant", border)

    @classmethod
    def of_weights(
        cls, volume: Volume, name: str, weights: Any, origin: Any, axes: Any, mode: Any, cval: float
    ) -> Footprint:
        """From weights; zeros do not belong to the footprint."""
        chosen = par.axes_of(volume, axes, name)
        numbers = par.element(weights, "weights", name).astype(np.float64)
        numbers = _expanded(numbers, chosen, "weights", name)
        return cls._placed(volume, name, numbers != 0, numbers, origin, chosen, mode, cval)

    @classmethod
    def _placed(
        cls,
        volume: Volume,
        name: str,
        inside: np.ndarray,
        numbers: np.ndarray | None,
        origin: Any,
        chosen: Sequence[int],
        mode: Any,
        cval: float,
    ) -> Footprint:
        shifts = _origins(origin, inside.shape, chosen, name)
        before = triple([n // 2 + o for n, o in zip(inside.shape, shifts, strict=True)])
        return cls(name, inside, numbers, before, par.modes_of(mode, chosen, name), cval)

    @property
    def shape(self) -> Triple:
        return triple(self.inside.shape)

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.inside))

    @property
    def is_box(self) -> bool:
        return bool(self.inside.all())

    @property
    def members(self) -> np.ndarray:
        """The positions of the voxels in the extent, in raster order; there may be none."""
        return np.argwhere(self.inside).astype(np.int64, order="C").reshape(-1, 3)

    @property
    def offsets(self) -> np.ndarray:
        """The positions of the voxels, for a filter that visits each one; refuse none or too many."""
        if self.count > par.MAX_TAPS:
            raise ValueError(
                f"{self.name}: a footprint of {self.count:,} voxels is too large; the maximum is "
                f"{par.MAX_TAPS:,}"
            )
        if not self.count:
            raise ValueError(f"{self.name}: the footprint is all false")
        return self.members

    @property
    def has_constant(self) -> bool:
        """Whether the volume is extended by a constant along some axis."""
        return any("constant" in m for m in self.modes)

    @property
    def padding(self) -> Padding:
        """The extension beyond the edges, for a filter that computes in a wider dtype."""
        return Padding(self.modes, float(self.cval))

    def padding_in(self, dtype: np.dtype) -> Padding:
        """The extension beyond the edges, for a filter that computes in this dtype."""
        if self.has_constant:
            return Padding(self.modes, constant_in(dtype, self.cval, "cval", self.name))
        return Padding(self.modes, exact(self.cval, dtype))

    def fields(self, dtype: np.dtype, padding: Padding | None = None) -> Fields:
        """The first fields of a `Neighbourhood` stage with a result of ``dtype``.

        Without ``padding``, it computes in this dtype, too.
        """
        inner = kernel_dtype(dtype)
        return self.name, inner, self.before, self.shape, padding or self.padding_in(inner)

    def needs_one_mode(self, reason: str) -> None:
        """Refuse several modes if no kernel supports them."""
        if len(set(self.modes)) > 1:
            raise ValueError(f"{self.name}: give one mode for all axes: {reason}")

    def mirrored(self) -> Footprint:
        """The reflected footprint, which scipy uses for dilations and convolutions."""
        around = np.s_[::-1, ::-1, ::-1]
        numbers = None if self.numbers is None else self.numbers[around]
        before = triple([n - 1 - b for n, b in zip(self.shape, self.before, strict=True)])
        return replace(self, inside=self.inside[around], numbers=numbers, before=before)


def touching(volume: Volume, footprint: Any, name: str, connectivity: Any = None) -> np.ndarray:
    """The neighbours of a voxel, 3 x 3 x 3, by default along all axes.

    A footprint has 3 entries along each axis, is symmetric, and contains all neighbours that share a face.
    """
    axes = volume.space.visible
    if footprint is None:
        steps = len(axes) if connectivity is None else connectivity
        element = connectivity_structure(steps, len(axes), name)
    else:
        element = par.element(footprint, "footprint", name) != 0
        faces = connectivity_structure(1, len(axes))
        if (
            element.shape != (3,) * len(axes)
            or (element != element[(slice(None, None, -1),) * element.ndim]).any()
            or (faces & ~element).sum() > (not element[(1,) * len(axes)])
        ):
            raise ValueError(
                f"{name}: footprint of shape {element.shape} is not valid; it must have 3 entries "
                f"along each of {len(axes)} axes, be symmetric about its centre, and include the "
                "neighbours that share a face"
            )
    whole = np.zeros((3, 3, 3), bool)
    at: list[Any] = [slice(None) if a in axes else 1 for a in range(3)]
    whole[tuple(at)] = element
    whole[1, 1, 1] = True
    return whole


def _box(sizes: Sequence[int]) -> np.ndarray:
    return np.broadcast_to(np.True_, sizes)


def _expanded(array: np.ndarray, chosen: Sequence[int], what: str, name: str) -> np.ndarray:
    """Extend an array from the chosen axes to z, y, x."""
    if array.ndim != len(chosen):
        raise ValueError(
            f"{name}: {what} has {array.ndim} dimensions, but there are {len(chosen)} axes "
            f"({', '.join(AXES[a] for a in chosen)})"
        )
    if array.size == 0:
        raise ValueError(f"{name}: {what} is empty")
    order = sorted(range(len(chosen)), key=lambda i: chosen[i])
    shape = [1, 1, 1]
    for i in order:
        shape[chosen[i]] = array.shape[i]
    return np.ascontiguousarray(array.transpose(order)).reshape(shape)


def _origins(origin: Any, sizes: Sequence[int], chosen: Sequence[int], name: str) -> list[int]:
    """Origins along z, y, x, within scipy's limits."""
    result = par.per_axis(origin, chosen, 0, "origin")
    for o, n in zip(result, sizes, strict=True):
        if not par.is_whole(o):
            raise TypeError(f"{name}: origin={origin!r} is not a whole number")
        if not -(n // 2) <= o <= (n - 1) // 2:
            raise ValueError(
                f"{name}: origin={o} is outside {-(n // 2)} to {(n - 1) // 2}, the limits for size {n}"
            )
    return [int(o) for o in result]
