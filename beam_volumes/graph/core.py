"""The nodes and space of a volume, for all modules that compute or change volumes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.base.hints import checked_methods
from beam_volumes.base.space import Space
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.elementwise import Elementwise
from beam_volumes.graph.nodes import Node, SourceNode, StageNode

V = TypeVar("V", bound="VolumeCore")


@checked_methods
class VolumeCore:
    """The data of a `Volume`: one node per channel, and the space of its voxels."""

    __slots__ = ("nodes", "space")

    def __init__(self, node: Node | tuple[Node, ...], space: Space):
        self.nodes = (node,) if isinstance(node, Node) else node
        self.space = space

    @property
    def node(self) -> Node:
        """The expression of the voxels; an error if there are several channels."""
        if self.space.has_channels:
            names = self.channels
            shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
            stated = f"there are {len(names)} ({shown}): choose one"
            if len(names) == 1:
                stated = "the axis c has extent 1: drop it"
            first = "v[:, 0]" if self.space.times else "v[0]"
            raise ValueError(
                f"one channel is needed, but {stated}, such as {first} or v.sel(c={names[0]!r})"
            )
        return self.nodes[0]

    @property
    def grid_shape(self) -> Triple:
        """Number of voxels along z, y and x; 1 along hidden axes."""
        return self.nodes[0].shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of voxels along each axis."""
        extents = {"t": self.space.times, "c": len(self.nodes)}
        leading = tuple(extents[a] for a in self.space.leading)
        return leading + tuple(self.grid_shape[i] for i in self.space.visible)

    @property
    def dtype(self) -> np.dtype:
        """Type of the voxels."""
        return self.nodes[0].dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.axes)

    @property
    def size(self) -> int:
        """Number of voxels."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all voxels."""
        return self.size * self.dtype.itemsize

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, as ``("z", "y", "x")``."""
        return self.space.all_axes

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels, or their numbers; empty without a channel axis."""
        if not self.space.has_channels:
            return ()
        return self.space.channels or tuple(map(str, range(len(self.nodes))))

    @property
    def voxel_size(self) -> tuple[float, ...] | None:
        """Extent of a voxel along each spatial axis, in `unit`; None if unknown."""
        size = self.space.voxel_size
        return None if size is None else tuple(size[i] for i in self.space.visible)

    @property
    def unit(self) -> str | None:
        """Unit of length, by its OME-NGFF name; None if unknown."""
        return self.space.unit

    @property
    def origin(self) -> tuple[float, ...]:
        """Position of the first voxel's centre along each spatial axis, in `unit`."""
        return tuple(self.space.origin[i] for i in self.space.visible)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of chunks of an opened volume; None for a computed one."""
        node = self.nodes[0]
        if not isinstance(node, SourceNode):
            return None
        return tuple(node.source.chunk[i] for i in self.space.visible)

    def __repr__(self) -> str:
        axes = " ".join(f"{a}={n}" for a, n in zip(self.axes, self.shape, strict=True)) or "1 voxel"
        size = f", {format_bytes(self.nbytes)}"
        chunks = f", chunks {'x'.join(map(str, self.chunks))}" if self.chunks else ""
        spacing = ""
        if self.voxel_size:
            spacing = (
                f", voxel {'x'.join(f'{v:g}' for v in self.voxel_size)} {self.unit or ''}".rstrip()
            )
        name = self.nodes[0].name
        if self.space.has_channels:
            name = name.removesuffix("[c=0]")
        return f"<Volume {name}: {axes}, {self.dtype}{size}{chunks}{spacing}>"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a volume without axes has no len()")
        return self.shape[0]

    def derive(self: V, node: Node) -> V:
        """Make a volume on the same grid from a node, for implementing operations.

        Parameters
        ----------
        node : Node
            The expression of the voxels.

        Returns
        -------
        Volume
            The node's volume, with the axes, voxel size, unit and origin of this one.

        Examples
        --------
        >>> v = bv.open(np.zeros((2, 3)), voxel_size=8)
        >>> v.derive((v + 1).node).voxel_size
        (8.0, 8.0)
        """
        return type(self)(node, self.space)

    def map_channels(self: V, function: Callable[[Node], Node], space: Space | None = None) -> V:
        """Apply a function to the node of each channel, for implementing operations.

        Parameters
        ----------
        function : callable
            A function from a node to a node.
        space : Space, optional
            Axes, voxel size, unit and origin of the result; the space of this volume by default.

        Returns
        -------
        Volume
            The volume of the new nodes, with the channels of this one.

        Examples
        --------
        >>> v = bv.open(np.zeros((2, 4, 5, 6)))
        >>> v.map_channels(lambda node: node).shape
        (2, 4, 5, 6)
        """
        return type(self)(tuple(map(function, self.nodes)), self.space if space is None else space)

    def sel(self: V, *, c: str | int | Sequence[str | int]) -> V:
        """Select channels by name or number.

        Parameters
        ----------
        c : str, int or sequence of these
            One channel, which drops the axis, or several, which keep it.

        Returns
        -------
        Volume
            The channel, or the channels in the given order.

        Raises
        ------
        ValueError
            If there is no such channel or no channel axis.

        Examples
        --------
        >>> v = bv.stack([np.zeros((2, 3)), np.ones((2, 3))], names=["DAPI", "GFP"])
        >>> v.sel(c="GFP").shape, v.sel(c=["GFP", "DAPI"]).channels
        ((2, 3), ('GFP', 'DAPI'))
        """
        if not self.space.has_channels:
            raise ValueError(f"sel(c={c!r}): {self!r} has no channel axis")
        if isinstance(c, str | int | np.integer):
            return type(self)(self.nodes[self._channel(c)], self.space.of_one("c"))
        at = [self._channel(item) for item in c]
        nodes = tuple(self.nodes[k] for k in at)
        if not at:
            raise ValueError("sel(c=[]) leaves no channel")
        names = tuple(self.space.channels[k] for k in at) if self.space.channels else ()
        return type(self)(
            nodes, replace(self.space, channels=names if len({*at}) == len(at) else ())
        )

    def _channel(self, item: str | int) -> int:
        """The position of a channel."""
        names = self.channels
        if isinstance(item, str):
            if item not in names:
                raise ValueError(f"there is no channel {item!r}; there are {', '.join(names)}")
            return names.index(item)
        if not -len(names) <= item < len(names):
            raise IndexError(f"axis c: index {item} is out of range for extent {len(names)}")
        return int(item) % len(names)


def cast(volume: V, dtype: np.dtype, function: str) -> V:
    """Convert voxels to another dtype, by ``astype`` or ``round`` of `elementwise`."""
    if dtype == volume.dtype:
        return volume
    stage = Elementwise(function, dtype, function, (("input", 0),))
    return volume.map_channels(lambda node: StageNode.of(stage, (node,)))


def rounded(volume: V, dtype: np.dtype) -> V:
    """Convert a volume to a dtype; integers are rounded half to even and saturate."""
    return cast(volume, dtype, "round")
