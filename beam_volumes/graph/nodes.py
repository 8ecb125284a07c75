"""The immutable expression graph: nodes that yield voxels, and values that yield numbers.

Nothing here reads data. A node knows its shape and dtype; a value its dtype and shape. Both carry a
``token``, a digest of everything that determines the result, computed once when they are built: two
nodes with one token are one node to the planner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from beam_volumes.geometry import Box, Triple
from beam_volumes.storage.source import Source
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.stage import Regrid, Stage, digest
from beam_volumes.sweep.survey import Completion, Survey


@dataclass(frozen=True, eq=False)
class Node:
    """Something that yields a voxel for every index of a 3-D ``shape``."""

    shape: Triple
    dtype: np.dtype
    token: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def values(self) -> tuple[Value, ...]:
        return ()

    @property
    def name(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class SourceNode(Node):
    """Voxels read from storage."""

    source: Source

    @classmethod
    def of(cls, source: Source) -> SourceNode:
        return cls(source.shape, source.dtype, digest("source", source.token()), source)

    @property
    def name(self) -> str:
        return self.source.name


@dataclass(frozen=True, eq=False)
class StageNode(Node):
    """A stage applied to nodes of its own shape, with lazy values as parameters.

    A `Regrid` stage has a shape of its own, and may have no operand.
    """

    stage: Stage
    operands: tuple[Node, ...]
    parameters: tuple[Value, ...]

    @classmethod
    def of(
        cls, stage: Stage, operands: tuple[Node, ...], parameters: tuple[Value, ...] = ()
    ) -> StageNode:
        shape = stage.grid if isinstance(stage, Regrid) else operands[0].shape
        for other in operands[1:]:
            if other.shape != operands[0].shape:
                raise ValueError(
                    f"{stage.name}: shapes {operands[0].shape} and {other.shape} differ (z, y, x); "
                    "crop the volumes to one shape first"
                )
        token = digest(
            "stage",
            stage.token(),
            shape,
            [n.token for n in operands],
            [v.token for v in parameters],
        )
        return cls(shape, stage.dtype, token, stage, operands, parameters)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.operands

    @property
    def values(self) -> tuple[Value, ...]:
        return self.parameters

    @property
    def name(self) -> str:
        return self.stage.name


@dataclass(frozen=True, eq=False)
class CropNode(Node):
    """A box of another node; what lies upstream still sees the whole volume."""

    operand: Node
    start: Triple

    name = "crop"

    @classmethod
    def of(cls, operand: Node, box: Box) -> Node:
        if box == Box.of_shape(operand.shape):
            return operand
        if isinstance(operand, SourceNode):
            return SourceNode.of(operand.source.crop(box))
        if isinstance(operand, CropNode):
            return cls.of(operand.operand, box.translate(operand.start))
        token = digest("crop", operand.token, box.start, box.stop)
        return cls(box.shape, operand.dtype, token, operand, box.start)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(frozen=True, eq=False)
class ViewNode(Node):
    """A node with its axes in another order (``axes``), some of those of the result reversed.

    Of a source it is another source. What is computed is stored first: a sweep along z has not the
    last slices when the first are wanted.
    """

    operand: Node
    axes: Triple
    flipped: tuple[bool, bool, bool]

    @classmethod
    def of(cls, operand: Node, axes: Triple, flipped: tuple[bool, bool, bool]) -> Node:
        if isinstance(operand, ViewNode):
            back = tuple(f != operand.flipped[a] for a, f in zip(axes, flipped, strict=True))
            order = tuple(operand.axes[a] for a in axes)
            return cls.of(operand.operand, order, back)  # type: ignore[arg-type]
        if axes == (0, 1, 2) and not any(flipped):
            return operand
        if isinstance(operand, SourceNode):
            return SourceNode.of(operand.source.view(axes, flipped))
        z, y, x = (operand.shape[a] for a in axes)
        token = digest("view", operand.token, axes, flipped)
        return cls((z, y, x), operand.dtype, token, operand, axes, flipped)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.operand,)

    @property
    def name(self) -> str:
        return "flip" if self.axes == (0, 1, 2) else "transpose"


@dataclass(frozen=True, eq=False)
class Barrier:
    """What has to be known of whole volumes before voxels, numbers or rows that rest on it are."""

    survey: Survey
    operands: tuple[Node, ...]
    parameters: tuple[Value, ...]
    token: str

    @classmethod
    def of(
        cls, survey: Survey, operands: tuple[Node, ...], parameters: tuple[Value, ...] = ()
    ) -> Barrier:
        for other in operands[1:]:
            if other.shape != operands[0].shape:
                raise ValueError(
                    f"{survey.name}: shapes {operands[0].shape} and {other.shape} differ (z, y, x); "
                    "crop the volumes to one shape first"
                )
        below = [n.token for n in operands], [v.token for v in parameters]
        token = digest("barrier", survey.token(), operands[0].shape, *below)
        return cls(survey, operands, parameters, token)

    @property
    def shape(self) -> Triple:
        return self.operands[0].shape

    @property
    def name(self) -> str:
        return self.survey.name


@dataclass(frozen=True, eq=False)
class AcrossNode(Node):
    """Voxels that rest on a barrier: what its completion makes of operands and of each slab's answer."""

    barrier: Barrier
    completion: Completion
    operands: tuple[Node, ...]

    @classmethod
    def of(cls, barrier: Barrier, completion: Completion, operands: tuple[Node, ...]) -> AcrossNode:
        token = digest("across", barrier.token, completion.token(), [n.token for n in operands])
        return cls(barrier.shape, completion.dtype, token, barrier, completion, operands)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.operands

    @property
    def name(self) -> str:
        return self.completion.name


@dataclass(frozen=True, eq=False)
class Value:
    """Something that yields one number or a small array, known only when the volume has been swept."""

    dtype: np.dtype
    shape: tuple[int, ...]
    token: str

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def arguments(self) -> tuple[Value, ...]:
        return ()

    @property
    def name(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class FoldValue(Value):
    """A reduction over the voxels of a node, where ``mask`` is true if one is given.

    ``others`` are further nodes that it takes the voxels of, each of the first one's shape.
    """

    reduction: Reduction
    voxels: Node
    mask: Node | None
    parameters: tuple[Value, ...]
    others: tuple[Node, ...] = ()

    @classmethod
    def of(
        cls,
        reduction: Reduction,
        voxels: Node,
        mask: Node | None = None,
        parameters: tuple[Value, ...] = (),
        others: tuple[Node, ...] = (),
    ) -> FoldValue:
        for other in others:
            if other.shape != voxels.shape:
                raise ValueError(
                    f"{reduction.name}: shapes {voxels.shape} and {other.shape} differ (z, y, x); "
                    "crop the volumes to one shape first"
                )
        if mask is not None and mask.shape != voxels.shape:
            raise ValueError(
                f"{reduction.name}: the mask's shape {mask.shape} is not the volume's {voxels.shape}"
            )
        token = digest(
            "fold",
            reduction.token(),
            voxels.token,
            mask.token if mask is not None else None,
            [v.token for v in parameters],
            [n.token for n in others],
        )
        return cls(
            reduction.dtype, reduction.shape, token, reduction, voxels, mask, parameters, others
        )

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Everything it takes voxels of."""
        mask = () if self.mask is None else (self.mask,)
        return (self.voxels, *mask, *self.others)

    @property
    def arguments(self) -> tuple[Value, ...]:
        return self.parameters

    @property
    def name(self) -> str:
        return self.reduction.name


@dataclass(frozen=True, eq=False)
class BarrierValue(Value):
    """A number that is found when a barrier's summaries are merged."""

    barrier: Barrier
    number: str

    @classmethod
    def of(cls, barrier: Barrier, number: str, dtype: np.dtype) -> BarrierValue:
        return cls(np.dtype(dtype), (), number_token(barrier.token, number), barrier, number)

    @property
    def name(self) -> str:
        return f"{self.barrier.name} {self.number}"


def number_token(barrier: str, number: str) -> str:
    """Under which token a number of a barrier is known."""
    return f"{barrier}.{number}"


@dataclass(frozen=True, eq=False)
class Formula:
    """A function of evaluated values; a frozen dataclass of plain data, as a stage is."""

    name: str

    def evaluate(self, *arguments: Any) -> Any:
        raise NotImplementedError

    def token(self) -> str:
        return digest(type(self).__name__, *(getattr(self, f) for f in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class FormulaValue(Value):
    """A formula of other values."""

    formula: Formula
    operands: tuple[Value, ...]

    @classmethod
    def of(
        cls,
        formula: Formula,
        operands: tuple[Value, ...],
        dtype: np.dtype,
        shape: tuple[int, ...] = (),
    ) -> FormulaValue:
        token = digest(
            "formula", formula.token(), str(np.dtype(dtype)), shape, [v.token for v in operands]
        )
        return cls(np.dtype(dtype), shape, token, formula, operands)

    @property
    def arguments(self) -> tuple[Value, ...]:
        return self.operands

    @property
    def name(self) -> str:
        return self.formula.name


@dataclass(frozen=True, eq=False)
class ConstantValue(Value):
    """A number known from the start."""

    number: Any = field(default=None)

    @classmethod
    def of(cls, number: Any) -> ConstantValue:
        array = np.asarray(number)
        return cls(array.dtype, array.shape, digest("constant", array), number)

    @property
    def name(self) -> str:
        return repr(self.number)


@dataclass(frozen=True, eq=False)
class FoundValue(Value):
    """A number that some sweep finds, without the voxels it was found in."""

    label: str

    @property
    def name(self) -> str:
        return self.label


def values_below(values: Iterable[Value]) -> list[Value]:
    """The distinct values that values rest on, arguments before users."""
    order: dict[str, Value] = {}
    stack = [(v, False) for v in values]
    while stack:
        value, done = stack.pop()
        if done:
            order.setdefault(value.token, value)
        elif value.token not in order:
            stack.append((value, True))
            stack.extend((a, False) for a in value.arguments)
    return list(order.values())


def without_voxels(values: Iterable[Value]) -> tuple[Value, ...]:
    """Values that can be evaluated just the same and do not hold the graph of voxels behind them."""
    values = list(values)
    light: dict[str, Value] = {}
    for v in values_below(values):
        if isinstance(v, FoldValue | BarrierValue):
            light[v.token] = FoundValue(v.dtype, v.shape, v.token, v.name)
        elif isinstance(v, FormulaValue):
            light[v.token] = replace(v, operands=tuple(light[o.token] for o in v.operands))
        else:
            light[v.token] = v
    return tuple(light[v.token] for v in values)


def evaluate(value: Value, known: dict[str, Any]) -> Any:
    """The number of a value, given those of the folds it rests on by token.

    Raises
    ------
    KeyError
        A fold it rests on is not among ``known``.
    """
    stack = [value]
    while stack:
        # Arguments before users, without recursion: scalars may be chained by the thousand.
        item = stack[-1]
        if item.token in known:
            stack.pop()
        elif isinstance(item, ConstantValue):
            known[item.token] = item.number
        elif not isinstance(item, FormulaValue):
            raise KeyError(f"{item.name} has not been computed yet")
        elif missing := [v for v in item.operands if v.token not in known]:
            stack += missing
        else:
            known[item.token] = item.formula.evaluate(*(known[v.token] for v in item.operands))
    return known[value.token]
