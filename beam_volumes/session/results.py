"""What a session hands back when all its passes are done."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_volumes.graph.nodes import SourceNode, Value, evaluate
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Scalar, Target, Volume
from beam_volumes.session.session import Session
from beam_volumes.storage.remove import remove_tree
from beam_volumes.storage.sink import Sink
from beam_volumes.storage.tables import TableSink


def result_of(target: Any, result: Sink | TableSink | Value, known: dict[str, Any]) -> Any:
    """What `compute` gives for a target, from the plan's result and the numbers known at the end."""
    if isinstance(target, Scalar):
        assert isinstance(result, Value)
        return evaluate(result, known)
    if isinstance(result, TableSink):
        return result.read() if isinstance(target, Table) else result.name
    assert isinstance(result, Sink)
    source = result.read_back()
    if isinstance(target, Target):
        return Volume(SourceNode.of(source), source.space)
    array = source.read() if 0 not in source.shape else np.empty(source.shape, source.dtype)
    return array.astype(target.dtype, copy=False).reshape(target.shape)


def clear(session: Session) -> None:
    """Remove what was stored between passes and in-memory results."""
    if session.plan.scratch_place is not None:
        remove_tree(session.plan.scratch_place)
