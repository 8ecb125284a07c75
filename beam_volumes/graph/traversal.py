"""Dependencies of expressions: numbers across time points, voxels, and labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from beam_volumes.base.geometry import Box
from beam_volumes.graph.elementwise import Elementwise
from beam_volumes.graph.nodes import (
    AcrossNode,
    Barrier,
    CropNode,
    FoldValue,
    Node,
    SourceNode,
    StageNode,
    Value,
    ViewNode,
    below,
    goes_across,
    in_order,
    own_below,
    with_sources,
)
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.stage import Regrid
from beam_volumes.sweep.survey import VOXELS_PER_BASIN, VOXELS_PER_LABEL

Item = Node | Value | Barrier
T = TypeVar("T", bound=Item)


def numbers_across(roots: Iterable[Item]) -> list[FoldValue]:
    """The numbers across time points that items depend on, in order of computation."""
    return in_order(_next_across(roots), lambda fold: _next_across(below(fold)))


def _next_across(roots: Iterable[Item]) -> list[FoldValue]:
    """The nearest such numbers below items."""
    return [item for item in own_below(roots) if goes_across(item)]  # type: ignore[misc]


def everything(items: Iterable[Item]) -> list[Item]:
    """All nodes, values and barriers of expressions."""
    found: dict[str, Item] = {}
    stack = list(items)
    while stack:
        item = stack.pop()
        if item.token not in found:
            found[item.token] = item
            stack.extend(below(item))
    return list(found.values())


def of_part(items: Sequence[T], box: Box) -> tuple[T, ...] | None:
    """Expressions of a box of their inputs, at one time point; None if these are not aligned."""
    shapes = set()
    for item in everything(items):
        moves = isinstance(item, CropNode | ViewNode)
        if isinstance(item, StageNode):
            moves = isinstance(item.stage, Regrid)
        if moves:
            return None
        if isinstance(item, Node):
            shapes.add(item.shape)
    if len(shapes) > 1:
        return None
    instead: dict[str, Any] = {}

    def part(source: Source) -> Source:
        return source.crop(box)

    for number in numbers_across(items):  # of the first time point
        own = FoldValue.of(number.reduction, number.fed, number.parameters)
        (first,) = with_sources((own,), lambda s: part(_first(s)), instead)
        instead[number.token] = first
    return with_sources(items, part, instead)  # type: ignore[type-var, return-value]


def _first(source: Source) -> Source:
    return source.point("t", 0) if "t" in source.space.leading else source


def holds_voxels(roots: Iterable[Item]) -> bool:
    """Whether items depend on voxels other than by numbers across time points."""
    return any(isinstance(item, Node) for item in own_below(roots))


def holds_labels(nodes: Sequence[Node]) -> bool:
    """Whether all nodes yield labels or masks."""
    return all(map(_is_labelled, nodes))


def _is_labelled(node: Node) -> bool:
    """Whether a node yields labels, also cropped, permuted, downsampled or cast."""
    while True:
        if node.dtype.kind == "b":
            return True
        if node.dtype.kind not in "ui":
            return False
        if isinstance(node, AcrossNode):
            return node.completion.yields_labels
        if isinstance(node, SourceNode):
            return node.source.labels
        if isinstance(node, StageNode):
            if node.stage.yields_labels:
                return True
            keeps = isinstance(node.stage, Regrid) or node.stage.name == "astype"
            if not keeps or not node.operands:
                return False
            node = node.operands[0]
        elif isinstance(node, CropNode | ViewNode):
            node = node.operand
        else:
            return False


def voxels_per_label(node: Node) -> int:
    """The expected number of voxels per label; operations with small labels declare it."""
    own = node
    while not isinstance(own, AcrossNode):
        if isinstance(own, CropNode | ViewNode):
            own = own.operand
        elif isinstance(own, StageNode) and own.stage.name == "astype" and own.operands:
            own = own.operands[0]
        else:
            return voxels_per_part(own)
    return own.completion.voxels_per_label


def voxels_per_part(*nodes: Node) -> int:
    """The same for labels that are masked, renumbered, sampled or combined: basins, if some are below."""
    # Not less: the token of a run has these numbers, and earlier versions expected `VOXELS_PER_LABEL`.
    visited = {node.token for node in nodes}
    stack = list(nodes)
    while stack:
        item = stack.pop()
        operands: tuple[Node, ...] = ()
        if isinstance(item, AcrossNode):
            if item.completion.voxels_per_label < VOXELS_PER_LABEL:
                return VOXELS_PER_BASIN
        elif isinstance(item, CropNode | ViewNode):
            operands = (item.operand,)
        elif isinstance(item, StageNode) and isinstance(item.stage, Elementwise | Regrid):
            operands = item.operands
        stack += [n for n in operands if n.dtype.kind in "ui" and n.token not in visited]
        visited.update(n.token for n in operands)
    return VOXELS_PER_LABEL
