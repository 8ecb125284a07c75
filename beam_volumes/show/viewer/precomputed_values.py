"""Expressions whose parts can be computed one by one: what rests on whole volumes is found once, before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.base.space import Space
from beam_volumes.base.text import format_bytes
from beam_volumes.drive.compute import run
from beam_volumes.graph.nodes import (
    AcrossNode,
    ConstantValue,
    Node,
    SourceNode,
    StageNode,
    Value,
    ViewNode,
    with_sources,
)
from beam_volumes.graph.options import options as settings
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.inputs.arrays import open_array


def settled(nodes: Sequence[Node], progress: bool = False) -> tuple[Node, ...]:
    """Nodes of the same voxels, of which a part rests on a part of the inputs.

    Numbers such as thresholds are computed, and labels and what is turned about, as arrays in memory.

    Raises
    ------
    ValueError
        Such an array is larger than `options.max_inmemory`.
    """
    values, whole = _outermost(nodes)
    for node in whole:
        size = int(np.prod(node.shape)) * node.dtype.itemsize
        if size > settings.max_inmemory:
            raise ValueError(
                f"{node.name} has to be computed whole before a part of it can be seen, and its "
                f"{format_bytes(size)} are more than options.max_inmemory, "
                f"{format_bytes(settings.max_inmemory)}: compute it to a file, and view that"
            )
    wanted: list[Any] = [Scalar(v) for v in values] + [Volume(n, Space()) for n in whole]
    if not wanted:
        return tuple(nodes)
    found = run(wanted, RunOptions(runner=None, progress=progress)).results
    instead: dict[str, Any] = {}
    for value, number in zip(values, found, strict=False):
        instead[value.token] = ConstantValue.of(np.asarray(number, value.dtype)[()])
    for node, array in zip(whole, found[len(values) :], strict=True):
        instead[node.token] = SourceNode.of(open_array(array))
    return with_sources(nodes, lambda source: source, instead)


def _outermost(nodes: Sequence[Node]) -> tuple[list[Value], list[Node]]:
    """The numbers that an expression takes, and its nodes of which no part can be computed alone."""
    values: dict[str, Value] = {}
    whole: dict[str, Node] = {}
    stack, seen = list(nodes), set()
    while stack:
        node = stack.pop()
        if node.token in seen:
            continue
        seen.add(node.token)
        if isinstance(node, AcrossNode | ViewNode) or _carries(node):
            whole[node.token] = node
            continue
        for value in node.values:
            if not isinstance(value, ConstantValue):
                values[value.token] = value
        stack.extend(node.inputs)
    return list(values.values()), list(whole.values())


def _carries(node: Node) -> bool:
    """Whether a stage begins with the first slice, or takes whole rows."""
    return isinstance(node, StageNode) and bool(node.stage.spans)
