"""The immutable expression graph: nodes yield voxels, and values yield numbers.

No code here reads data. Nodes and values have a shape, a dtype and a ``token``, a digest of everything that
determines the result. The planner treats two nodes with the same token as one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from beam_volumes.base.geometry import NO_HALO, Box, Halo, Triple
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.stage import Padding, PlainData, Regrid, Stage, digest
from beam_volumes.sweep.survey import Completion, Survey

#: The boundary mode of `WrappedNode`.
WRAP = "wrap"
#: Halos are added up for so many stages in a row. The result of a longer chain is stored.
MAX_WRAPPED = 64


@dataclass(frozen=True, eq=False)
class Node:
    """An expression with a voxel for every index of a 3-D ``shape``."""

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


def _check_shapes(name: str, operands: Sequence[Node]) -> None:
    for other in operands[1:]:
        if other.shape != operands[0].shape:
            raise ValueError(
                f"{name}: shapes {operands[0].shape} and {other.shape} differ (z, y, x); "
                "crop the volumes to one shape first"
            )


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
    """A stage applied to nodes of its shape, with lazy values as parameters.

    A `Regrid` stage has its own shape, and may have no operand.
    """

    stage: Stage
    operands: tuple[Node, ...]
    parameters: tuple[Value, ...]
    _name: str = field(init=False, repr=False)

    @classmethod
    def of(
        cls, stage: Stage, operands: tuple[Node, ...], parameters: tuple[Value, ...] = ()
    ) -> Node:
        if WRAP in stage.padding.modes:
            return WrappedNode.with_edges(stage, operands, parameters)
        shape = stage.grid if isinstance(stage, Regrid) else operands[0].shape
        _check_shapes(stage.name, operands)
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

    def __post_init__(self) -> None:
        # At once: expressions may be deeper than Python's stack.
        object.__setattr__(self, "_name", self.stage.expression(self.operands, self.parameters))

    @property
    def name(self) -> str:
        return self._name


def named(node: Node, name: str) -> Node:
    """Return a node that plans show by another name, if it is a stage; the result is the same."""
    if not isinstance(node, StageNode):
        return node
    other = copy.copy(node)
    object.__setattr__(other, "_name", name)
    return other


@dataclass(frozen=True, eq=False)
class CropNode(Node):
    """A box of another node, which is still computed on the whole volume."""

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
    """A node with permuted ``axes``; some axes of the result are reversed.

    The view of a source is another source. Computed voxels are stored first, since a sweep along z does not
    have the last slices when the view needs them.
    """

    operand: Node
    axes: Triple
    flipped: tuple[bool, bool, bool]

    @classmethod
    def of(cls, operand: Node, axes: Triple, flipped: tuple[bool, bool, bool]) -> Node:
        if isinstance(operand, ViewNode) and not isinstance(operand, PeriodicNode):
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

    def view(self, source: Source) -> Source:
        """Return the source of its voxels, if its operand is read from a source."""
        return source.view(self.axes, self.flipped)

    @property
    def name(self) -> str:
        return "flip" if self.axes == (0, 1, 2) else "transpose"


@dataclass(frozen=True, eq=False)
class PeriodicNode(ViewNode):
    """A node with more voxels around it, as if it repeated along each axis; see `periodic`."""

    around: Halo

    name = "wrap"

    @classmethod
    def with_voxels(cls, operand: Node, around: Halo) -> PeriodicNode:
        token = digest("periodic", operand.token, around)
        straight = (0, 1, 2), (False, False, False)
        return cls(_wider(operand.shape, around), operand.dtype, token, operand, *straight, around)

    def view(self, source: Source) -> Source:
        return source.periodic(self.around)


@dataclass(frozen=True, eq=False)
class WrappedNode(CropNode):
    """A stage with wrapped edges: it is computed on wider operands, and cropped."""

    stage: Stage
    operands: tuple[Node, ...]
    parameters: tuple[Value, ...]

    @classmethod
    def with_edges(
        cls, stage: Stage, operands: tuple[Node, ...], parameters: tuple[Value, ...]
    ) -> Node:
        found = _wrapped(stage, operands, parameters, NO_HALO, {})
        if not isinstance(found, CropNode):
            return found
        fields = found.shape, found.dtype, found.token, found.operand, found.start
        return cls(*fields, stage, operands, parameters)


def periodic(node: Node, around: Halo) -> Node:
    """Return a node with more voxels around it, as if it repeated along each axis.

    Sources are read again at their other end. Stages with wrapped edges, and stages that only use
    voxels at the same position, are computed on wider operands. All other nodes are stored first.
    """
    return _periodic(node, around, {})


def _periodic(node: Node, around: Halo, made: dict[Any, Node], depth: int = 0) -> Node:
    if around == NO_HALO or 0 in node.shape:
        return node
    key = node.token, around
    if key not in made:
        made[key] = _made_periodic(node, around, made, depth + 1)
    return made[key]


def _made_periodic(node: Node, around: Halo, made: dict[Any, Node], depth: int) -> Node:
    if isinstance(node, SourceNode):
        return SourceNode.of(node.source.periodic(around))
    if depth <= MAX_WRAPPED and isinstance(node, WrappedNode | StageNode):
        stage, wide = node.stage, [any(pair) for pair in around]
        fits = all(
            mode == WRAP or not (w and any(any(halo[a]) for halo in stage.halos))
            for a, (mode, w) in enumerate(zip(stage.padding.modes, wide, strict=True))
        )
        if stage.shift_invariant and stage.deterministic and fits:
            return _wrapped(stage, node.operands, node.parameters, around, made, depth)
    return PeriodicNode.with_voxels(node, around)


def _wrapped(
    stage: Stage,
    operands: tuple[Node, ...],
    parameters: tuple[Value, ...],
    around: Halo,
    made: dict[Any, Node],
    depth: int = 0,
) -> Node:
    """Apply a stage with wrapped edges; the result has more voxels around it."""
    modes = stage.padding.modes
    if WRAP not in modes:
        wide = tuple(_periodic(o, around, made, depth) for o in operands)
        return StageNode.of(stage, wide, parameters)
    z, y, x = ("nearest" if m == WRAP else m for m in modes)
    stage, halos = stage.with_padding(Padding((z, y, x), stage.padding.cval)), stage.halos
    margin = [
        (max((h[a][0] for h in halos), default=0), max((h[a][1] for h in halos), default=0))
        if m == WRAP
        else (0, 0)
        for a, m in enumerate(modes)
    ]
    total = tuple((b + c, a + d) for (b, a), (c, d) in zip(margin, around, strict=True))
    wide = tuple(_periodic(o, total, made, depth) for o in operands)  # type: ignore[arg-type]
    start = tuple(b for b, _ in margin)
    if 0 in operands[0].shape:
        return StageNode.of(stage, wide, parameters)
    box = Box.of_shape(_wider(operands[0].shape, around)).translate(start)  # type: ignore[arg-type]
    return CropNode.of(StageNode.of(stage, wide, parameters), box)


def _wider(shape: Triple, around: Halo) -> Triple:
    z, y, x = (n + b + a for n, (b, a) in zip(shape, around, strict=True))
    return (z, y, x)


@dataclass(frozen=True, eq=False)
class Barrier:
    """A survey of whole volumes that ends before voxels, numbers or rows that depend on it are computed."""

    survey: Survey
    operands: tuple[Node, ...]
    parameters: tuple[Value, ...]
    token: str

    @classmethod
    def of(
        cls, survey: Survey, operands: tuple[Node, ...], parameters: tuple[Value, ...] = ()
    ) -> Barrier:
        _check_shapes(survey.name, operands)
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
    """Voxels that depend on a barrier: a completion computes them from operands and slabs' answers."""

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
    """A number or small array that is known after a sweep."""

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


class Fed(NamedTuple):
    """The input of a reduction: a node, an optional mask, and further nodes of the same shape."""

    voxels: Node
    mask: Node | None = None
    others: tuple[Node, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.voxels, *(() if self.mask is None else (self.mask,)), *self.others)


@dataclass(frozen=True, eq=False)
class FoldValue(Value):
    """A reduction of the voxels of a volume, or of each channel.

    With ``across`` it is one number for all time points, else one for each.
    """

    reduction: Reduction
    fed: tuple[Fed, ...]
    parameters: tuple[Value, ...]
    across: bool = False

    @classmethod
    def of(
        cls,
        reduction: Reduction,
        fed: Sequence[Fed],
        parameters: tuple[Value, ...] = (),
        across: bool = False,
    ) -> FoldValue:
        shape = fed[0].voxels.shape
        for item in fed:
            _check_shapes(reduction.name, (fed[0].voxels, item.voxels, *item.others))
            if item.mask is not None and item.mask.shape != shape:
                raise ValueError(
                    f"{reduction.name}: the mask has shape {item.mask.shape}, but the volume has "
                    f"shape {shape}"
                )
        tokens = [
            (
                f.voxels.token,
                f.mask.token if f.mask is not None else None,
                [n.token for n in f.others],
            )
            for f in fed
        ]
        kind = "fold across points" if across else "fold"
        token = digest(kind, reduction.token(), tokens, [v.token for v in parameters])
        return cls(
            reduction.dtype, reduction.shape, token, reduction, tuple(fed), parameters, across
        )

    @property
    def over(self) -> Triple:
        return self.fed[0].voxels.shape

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(n for f in self.fed for n in f.nodes)

    @property
    def arguments(self) -> tuple[Value, ...]:
        return self.parameters

    @property
    def name(self) -> str:
        return self.reduction.name


@dataclass(frozen=True, eq=False)
class BarrierValue(Value):
    """A number from the merged summaries of a barrier."""

    barrier: Barrier
    number: str

    @classmethod
    def of(
        cls, barrier: Barrier, number: str, dtype: np.dtype, shape: tuple[int, ...] = ()
    ) -> BarrierValue:
        return cls(np.dtype(dtype), shape, number_token(barrier.token, number), barrier, number)

    @property
    def name(self) -> str:
        return f"{self.barrier.name} {self.number}"


def number_token(barrier: str, number: str) -> str:
    return f"{barrier}.{number}"


@dataclass(frozen=True, eq=False)
class Formula(PlainData):
    """A function of computed values: a frozen dataclass of plain data, like a stage."""

    name: str

    def evaluate(self, *arguments: Any) -> Any:
        raise NotImplementedError


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
    """A constant."""

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
    """A number that a sweep computes, without the graph of its voxels."""

    label: str

    @property
    def name(self) -> str:
        return self.label


Item = TypeVar("Item", Node, Value, Barrier)
T = TypeVar("T", bound=Node | Value | Barrier)


def in_order(roots: Iterable[T], arguments: Callable[[T], Iterable[T]]) -> list[T]:
    """Items and their dependencies, each after its arguments, without recursion: graphs may be deep."""
    order: dict[str, T] = {}
    stack = [(item, False) for item in roots]
    while stack:
        item, done = stack.pop()
        if done:
            order.setdefault(item.token, item)
        elif item.token not in order:
            stack.append((item, True))
            stack.extend((a, False) for a in arguments(item))
    return list(order.values())


def values_below(values: Iterable[Value]) -> list[Value]:
    """The distinct values below values, arguments first."""
    return in_order(values, lambda value: value.arguments)


def below(item: Node | Value | Barrier) -> list[Node | Value | Barrier]:
    """The direct dependencies of a node, value or barrier."""
    if isinstance(item, Barrier):
        return [*item.operands, *item.parameters]
    if isinstance(item, AcrossNode):
        return [*item.inputs, item.barrier]
    if isinstance(item, Node):
        return [*item.inputs, *item.values]
    if isinstance(item, FoldValue):
        return [*item.arguments, *item.nodes]
    if isinstance(item, BarrierValue):
        return [item.barrier]
    return list(item.arguments)


def own_below(roots: Iterable[Node | Value | Barrier]) -> Iterator[Node | Value | Barrier]:
    """Items and their dependencies, each once, excluding dependencies of numbers across time points."""
    tokens: set[str] = set()
    left = list(roots)
    while left:
        item = left.pop()
        if item.token not in tokens:
            tokens.add(item.token)
            if not goes_across(item):
                left += below(item)
            yield item


def times_below(roots: Iterable[Node | Value | Barrier]) -> int:
    """The number of time points of the sources below; 0 without a time axis."""
    sources = (item.source for item in own_below(roots) if isinstance(item, SourceNode))
    return max((s.leading[0] for s in sources if "t" in s.space.leading), default=0)


def with_sources(
    nodes: Iterable[Item],
    change: Callable[[Source], Source],
    instead: Mapping[str, Any] | None = None,
) -> tuple[Item, ...]:
    """Copy nodes, values or barriers with other sources; ``instead`` has replacements by token.

    Numbers across time points do not change: a point of ``v - bv.mean(v, across="t")`` is a point of
    ``v``, minus the mean of all points.
    """
    nodes = tuple(nodes)
    made: dict[str, Any] = dict(instead or {})

    def arguments(item: Any) -> Sequence[Any]:
        return () if item.token in made or goes_across(item) else below(item)

    for item in in_order(nodes, arguments):
        if item.token not in made:
            made[item.token] = _with(item, made, change)
    return tuple(made[n.token] for n in nodes)


def goes_across(item: Any) -> bool:
    """Whether an item is one number for all time points."""
    return isinstance(item, FoldValue) and item.across


def _with(item: Any, made: dict[str, Any], change: Callable[[Source], Source]) -> Any:
    """Copy a node, value or barrier with new arguments from ``made``."""

    def new(items: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(made[i.token] for i in items)

    if isinstance(item, SourceNode):
        return SourceNode.of(change(item.source))
    if isinstance(item, StageNode):
        return StageNode.of(item.stage, new(item.operands), new(item.parameters))
    if isinstance(item, CropNode):
        box = Box.of_shape(item.shape).translate(item.start)
        return CropNode.of(made[item.operand.token], box)
    if isinstance(item, PeriodicNode):
        return periodic(made[item.operand.token], item.around)
    if isinstance(item, ViewNode):
        return ViewNode.of(made[item.operand.token], item.axes, item.flipped)
    if isinstance(item, Barrier):
        return Barrier.of(item.survey, new(item.operands), new(item.parameters))
    if isinstance(item, AcrossNode):
        return AcrossNode.of(made[item.barrier.token], item.completion, new(item.operands))
    if goes_across(item):
        return item
    if isinstance(item, FoldValue):
        fed = [
            Fed(made[f.voxels.token], f.mask and made[f.mask.token], new(f.others))
            for f in item.fed
        ]
        return FoldValue.of(item.reduction, fed, new(item.parameters))
    if isinstance(item, BarrierValue):
        return BarrierValue.of(made[item.barrier.token], item.number, item.dtype)
    if isinstance(item, FormulaValue):
        return FormulaValue.of(item.formula, new(item.operands), item.dtype, item.shape)
    return item


def without_voxels(values: Iterable[Value]) -> tuple[Value, ...]:
    """Values with the same numbers, without the graph of their voxels."""
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
    """Evaluate a value from numbers by token; KeyError if one is missing."""
    stack = [value]
    while stack:
        # Arguments first, without recursion: chains may have thousands of scalars.
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
