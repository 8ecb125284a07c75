"""Voxelwise arithmetic of volumes, lazy numbers, arrays and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES, LEADING, METRES, Space
from beam_volumes.graph import elementwise
from beam_volumes.graph.nodes import Formula, FormulaValue, Node, StageNode, Value
from beam_volumes.graph.scalar import Scalar, lazy
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.stages import Repeated
from beam_volumes.graph.volume import Volume, of_source, volume_of
from beam_volumes.storage.inputs.arrays import refuse_masked
from beam_volumes.storage.inputs.objects import is_array_object
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.inputs.renaming import renamed, without_single
from beam_volumes.storage.sources.axes import DEFAULT_AXES


@dataclass(frozen=True, eq=False)
class Ufunc(Formula):
    """A numpy ufunc of computed values and constants."""

    def evaluate(self, *arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return elementwise.of_numbers(self.name, arguments)


def _stand_in(item: Any) -> Any:
    """An empty or single operand of the same type, from which numpy infers dtypes."""
    if isinstance(item, Volume) or (isinstance(item, Scalar | np.ndarray) and item.ndim):
        return np.empty(0, item.dtype)
    return item.dtype.type(1) if isinstance(item, Scalar) else item


def _is_foreign(item: Any) -> bool:
    return not isinstance(item, Volume | Scalar) and is_array_object(item) and item.ndim > 0


def apply_ufunc(name: str, *operands: Any) -> Any:
    """Apply a ufunc to volumes, lazy scalars and numbers, lazily."""
    operands = with_arrays_opened(operands)
    for o in operands:
        if not isinstance(o, Volume | Scalar | bool | int | float | np.generic | np.ndarray):
            raise TypeError(f"{name}: cannot combine a lazy volume with {type(o).__name__} {o!r}")
    volumes = [o for o in operands if isinstance(o, Volume)]
    dtype = elementwise.result_dtype(name, [_stand_in(o) for o in operands])
    if not volumes:
        values = tuple(lazy(o) for o in operands)
        shape = np.broadcast_shapes(*(v.shape for v in values))
        return Scalar(FormulaValue.of(Ufunc(name), values, dtype, shape))
    if name == "power":
        elementwise.check_power(operands[1], dtype)
    return elementwise_volume(name, name, dtype, operands)


def with_arrays_opened(operands: Sequence[Any]) -> tuple[Any, ...]:
    """Open arrays as volumes with the last axes of the volumes, if there is a volume or only arrays."""
    for o in operands:
        refuse_masked(o)
    like = _widest_space(operands)
    if like is None and any(isinstance(o, Scalar) and o.shape for o in operands):
        return tuple(operands)
    return tuple(
        aligned_volume(o, like) if (isinstance(o, np.ndarray) and o.ndim) or _is_foreign(o) else o
        for o in operands
    )


def _widest_space(operands: Sequence[Any]) -> Space | None:
    spaces = [o.space for o in operands if isinstance(o, Volume)]
    return max(spaces, key=lambda s: len(s.all_axes), default=None)


def _last_axes_volume(numbers: Scalar, widest: Space | None) -> Volume:
    """A lazy array as a volume with the last axes of another."""
    axes = () if widest is None else tuple(a for a in widest.all_axes if a != "t")
    return volume_of(numbers, axes[-numbers.ndim :] if numbers.ndim <= len(axes) else None)


def elementwise_volume(
    name: str, function: str, dtype: np.dtype, operands: Sequence[Any]
) -> Volume:
    """Compute a volume voxel by voxel from volumes, lazy numbers, lazy arrays and numbers.

    A volume without channels is combined with each channel of the others. Operands are repeated along axes
    that they lack or have with extent 1.
    """
    values: list[Value] = []
    arguments: list[tuple[str, Any]] = []
    widest = _widest_space(operands)
    operands = [
        _last_axes_volume(o, widest) if isinstance(o, Scalar) and o.shape else o for o in operands
    ]
    given = [o for o in operands if isinstance(o, Volume)]
    volumes = broadcast(given) or given
    like = next((v for v in volumes if v.space.has_channels), volumes[0])
    for v in volumes:
        check_alike(name, like, v)
    count = 0
    for o in operands:
        if isinstance(o, Volume):
            arguments.append(("input", count))
            count += 1
        elif isinstance(o, Scalar):
            arguments.append(("value", len(values)))
            values.append(o.value)
        else:
            arguments.append(("constant", o.item() if isinstance(o, np.ndarray) else o))
    stage = elementwise.Elementwise(name, np.dtype(dtype), function, tuple(arguments))
    nodes = (
        StageNode.of(stage, operands_of_one, tuple(values))
        for operands_of_one in zip(*(channels_of(v, like) for v in volumes), strict=True)
    )
    return Volume(tuple(nodes), shared_space(name, *volumes))


def check_alike(name: str, like: Volume, v: Volume) -> None:
    """Refuse volumes of different shapes, axes or numbers of channels."""
    channels = len(v.nodes) if v.space.has_channels else len(like.nodes)
    if (
        len({0, v.space.times, like.space.times}) > 2
        or v.space.axes != like.space.axes
        or v.grid_shape != like.grid_shape
        or channels != len(like.nodes)
    ):
        raise ValueError(
            f"{name}: volumes of shapes {like.shape} ({' '.join(like.axes)}) and {v.shape} "
            f"({' '.join(v.axes)}) do not match; crop them to one shape first"
        )


def channels_of(volume: Volume, like: Volume) -> tuple[Node, ...]:
    """Return the nodes of a volume, repeated for each channel of another one if it has no channels."""
    if volume.space.has_channels or not like.space.has_channels:
        return volume.nodes
    return volume.nodes * len(like.nodes)


# Shapes are broadcast as in numpy: extents of 1 are repeated.


def aligned_volume(array: Any, like: Space | None) -> Volume:
    """Open an array as a volume with the last axes of another one."""
    if isinstance(array, np.ndarray) and array.ndim == 1:
        array = array[None]
    # As in numpy, an extent of 1 fits any.
    source = without_single(open_source(array))
    ndim = len(array.shape)
    if like is None or ndim > len(like.all_axes) or ndim not in DEFAULT_AXES:
        return of_source(source)
    by_itself = zip(DEFAULT_AXES[ndim], array.shape, like.all_axes[-ndim:], strict=True)
    letters = [name for axis, n, name in by_itself if not (axis in LEADING and n == 1)]
    return of_source(
        renamed(source, letters) if len(letters) == len(source.space.all_axes) else source
    )


def broadcast(volumes: Sequence[Volume]) -> list[Volume] | None:
    """Broadcast volumes to one grid; None if their shapes do not match.

    Channels and time points are not repeated.
    """
    try:
        grid = np.broadcast_shapes(*(v.grid_shape for v in volumes))
    except ValueError:
        return None
    axes = tuple(a for a in AXES if any(a in v.space.axes for v in volumes))
    many = max(len(v.nodes) for v in volumes)
    return [_repeated(v, (grid[0], grid[1], grid[2]), axes, many, volumes) for v in volumes]


def _repeated(
    v: Volume, grid: Triple, axes: tuple[str, ...], channels: int, among: Sequence[Volume]
) -> Volume:
    if v.space.has_channels and len(v.nodes) == 1 < channels:
        v = Volume(v.nodes, v.space.of_one("c"))
    if v.grid_shape == grid and v.space.axes == axes:
        return v
    space = v.space
    # An array without a position has none when it is repeated, either: it fits any tile of a stage.
    for axis, name in enumerate(AXES) if space.knows_origin else ():
        if v.grid_shape[axis] != grid[axis] or (name in axes and name not in space.axes):
            full = next(
                w for w in among if w.grid_shape[axis] == grid[axis] and name in w.space.axes
            )
            space = _along(space, full.space, axis)
    space = replace(space, axes=axes)
    if v.grid_shape == grid:
        return Volume(v.nodes, space)
    stage = Repeated("broadcast", v.dtype, v.grid_shape, grid)
    return v.map_channels(lambda node: StageNode.of(stage, (node,)), space)


def _along(space: Space, other: Space, axis: int) -> Space:
    """A space with another's voxel size and origin along an axis on which it has one voxel."""
    if {space.unit, other.unit} <= set(METRES):
        other = other.in_unit(space.unit)

    def taken(own: tuple[float, float, float], new: tuple[float, float, float]) -> Any:
        return (*own[:axis], new[axis], *own[axis + 1 :])

    size = space.voxel_size
    if size is not None and other.voxel_size is not None:
        size = taken(size, other.voxel_size)
    return replace(
        space,
        voxel_size=size,
        origin=taken(space.origin, other.origin),
        sliced_from=None
        if space.sliced_from is None and other.sliced_from is None
        else taken(space.grid_origin, other.grid_origin),
    )
