"""The fingerprint of a run: tokens of everything that it computes."""

from __future__ import annotations

from beam_volumes.graph.nodes import (
    AcrossNode,
    Barrier,
    FoldValue,
    Node,
    SourceNode,
    StageNode,
    Value,
)
from beam_volumes.plan.cut.passes import Levels
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.sweep.stage import digest
from beam_volumes.version import __version__


def fingerprint(
    levels: Levels,
    voxels: list[tuple[Node, Sink]],
    values: list[Value],
    tables: dict[str, tuple[TableSink, ...]],
) -> dict[str, str]:
    """Return the tokens of a run by name, so that a refused resume can list the differences."""
    fields = {"package": __version__}
    for n in levels.nodes.values():
        if isinstance(n, SourceNode):
            fields[f"input {n.name}"] = n.token
    for barrier in levels.barriers.values():
        for table in barrier.survey.tables:
            name = f"input {table.operand}"
            there = fields.setdefault(name, table.token())
            if there != table.token():  # other columns, or another table in memory
                fields[name] = digest(there, table.token())
    counts: dict[str, int] = {}
    for item in (*levels.nodes.values(), *levels.folds.values(), *levels.barriers.values()):
        if isinstance(item, StageNode):
            what, token = item.name, item.stage.token()
        elif isinstance(item, AcrossNode):
            what, token = item.name, item.completion.token()
        elif isinstance(item, Barrier):
            what, token = f"survey {item.name}", item.survey.token()
        elif isinstance(item, FoldValue):
            what, token = item.name, item.reduction.token()
        else:
            continue
        counts[what] = counts.get(what, 0) + 1
        fields[f"step {what} {counts[what]}"] = token
    for k, (node, sink) in enumerate(voxels):
        fields[f"output {k + 1}"] = f"{node.token} {sink.token()}"
    for k, value in enumerate(values):
        fields[f"scalar {k + 1}"] = value.token
    for token, sinks in tables.items():
        for place in sinks:
            fields[f"table {place.name}"] = f"{token} {place.token()}"
    return fields
