"""Expressions with values that depend on whole volumes precomputed."""

from __future__ import annotations

import threading
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


def with_precomputed_values(
    nodes: Sequence[Node], progress: bool = False, stop: threading.Event | None = None
) -> tuple[Node, ...]:
    """Return equal nodes with parts that only depend on parts of the inputs; ``stop`` ends this early."""
    # Numbers such as thresholds, labels and rotated volumes are computed, as arrays in memory. Arrays larger
    # than `options.max_inmemory` are refused.
    values, whole = _outermost(nodes)
    for node in whole:
        size = int(np.prod(node.shape)) * node.dtype.itemsize
        if size > settings.max_inmemory:
            raise ValueError(
                f"{node.name} must be computed as a whole before a part of it is shown, but its "
                f"{format_bytes(size)} are more than options.max_inmemory, "
                f"{format_bytes(settings.max_inmemory)}; compute it to a file, and view that"
            )
    wanted: list[Any] = [Scalar(v) for v in values] + [Volume(n, Space()) for n in whole]
    if not wanted:
        return tuple(nodes)
    found = run(wanted, RunOptions(runner=None, progress=progress), stop=stop).results
    instead: dict[str, Any] = {}
    for value, number in zip(values, found, strict=False):
        instead[value.token] = ConstantValue.of(np.asarray(number, value.dtype)[()])
    for node, array in zip(whole, found[len(values) :], strict=True):
        instead[node.token] = SourceNode.of(open_array(array))
    return with_sources(nodes, lambda source: source, instead)


def _outermost(nodes: Sequence[Node]) -> tuple[list[Value], list[Node]]:
    """Return the numbers of an expression, and the nodes that can only be computed as a whole."""
    values: dict[str, Value] = {}
    whole: dict[str, Node] = {}
    stack, visited = list(nodes), set()
    while stack:
        node = stack.pop()
        if node.token in visited:
            continue
        visited.add(node.token)
        if is_computed_whole(node):
            whole[node.token] = node
            continue
        for value in node.values:
            if not isinstance(value, ConstantValue):
                values[value.token] = value
        stack.extend(node.inputs)
    return list(values.values()), list(whole.values())


def is_computed_whole(node: Any) -> bool:
    """Whether a node's voxels depend on its whole input; a stage may need its first slice or rows."""
    carries = isinstance(node, StageNode) and bool(node.stage.spans)
    return isinstance(node, AcrossNode | ViewNode) or carries
