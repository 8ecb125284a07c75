"""Cutting an expression graph into passes at its barriers, and choosing what to store between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from beam_volumes.geometry import Box, Triple
from beam_volumes.graph.nodes import FoldValue, Node, SourceNode, StageNode, Value
from beam_volumes.plan.compile import ancestors
from beam_volumes.storage.sink import Sink
from beam_volumes.storage.source import Source

#: Rough nanoseconds per byte of an uncompressed read and write, for choosing between plans.
READ_COST, WRITE_COST = 0.5, 1.0


@dataclass
class Cut:
    """One pass before it is compiled: what it writes and folds, all of one shape."""

    level: int
    shape: Triple
    outputs: list[tuple[Node, Sink]] = field(default_factory=list)
    folds: list[FoldValue] = field(default_factory=list)


class Levels:
    """In which pass each node and value can be computed: one after the last value it needs."""

    def __init__(self, nodes: Sequence[Node], values: Sequence[Value]):
        self.node: dict[str, int] = {}
        self.value: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}
        self.folds: dict[str, FoldValue] = {}
        self._visit(nodes, values)

    def _visit(self, nodes: Sequence[Node], values: Sequence[Value]) -> None:
        # Nodes and values rest on each other, so both are walked on one stack.
        stack: list[tuple[Node | Value, bool]] = [(n, False) for n in nodes]
        stack += [(v, False) for v in values]
        while stack:
            item, done = stack.pop()
            table = self.node if isinstance(item, Node) else self.value
            if item.token in table:
                continue
            below: list[Node | Value] = []
            if isinstance(item, Node):
                below += [*item.inputs, *item.values]
            else:
                below += item.arguments
                if isinstance(item, FoldValue):
                    below += item.nodes
            if not done:
                stack.append((item, True))
                stack.extend((b, False) for b in below)
                continue
            level = 0 if isinstance(item, Node) else -1
            for b in below:
                if isinstance(b, Node):
                    level = max(level, self.node[b.token] + must_store(b))
                else:
                    level = max(level, self.value[b.token] + 1)
            if isinstance(item, FoldValue):
                self.folds[item.token] = item
            elif isinstance(item, Value):
                # A formula is known as soon as the last of its arguments is.
                level = max((self.value[a.token] for a in item.arguments), default=-1)
            else:
                self.nodes[item.token] = item
            table[item.token] = level


def must_store(node: Node) -> bool:
    """Whether a second computation might give other bits, so that there must be only one."""
    return isinstance(node, StageNode) and not node.stage.deterministic


def cut(
    targets: Sequence[tuple[Node, Sink]],
    values: Sequence[Value],
    intermediate: Callable[[Node], Sink],
) -> tuple[list[Cut], dict[str, Source], list[str]]:
    """Cut a graph into passes.

    Parameters
    ----------
    targets : sequence of (Node, Sink)
        Voxels to write.
    values : sequence of Value
        Values asked for by themselves.
    intermediate : callable
        Gives the sink of a node that is to be stored between two passes.

    Returns
    -------
    passes : list of Cut
        In the order in which they run.
    stored : dict
        By token of a node, where later passes read it.
    reasons : list of str
        Why each pass is cut off and each node is stored or computed again.
    """
    levels = Levels([n for n, _ in targets], values)
    cuts: dict[tuple[int, Triple], Cut] = {}
    reasons: list[str] = []

    def at(level: int, shape: Triple) -> Cut:
        return cuts.setdefault((level, shape), Cut(level, shape))

    for node, sink in targets:
        at(levels.node[node.token], node.shape).outputs.append((node, sink))
    for token, fold in levels.folds.items():
        at(levels.value[token], fold.voxels.shape).folds.append(fold)

    stored: dict[str, Source] = {}
    for node, later in _crossing(levels, targets):
        here = levels.node[node.token]
        written = next(
            (s for n, s in targets if n.token == node.token and s.dtype == node.dtype), None
        )
        store, why = _store(node, len(later), written is not None)
        names = ", ".join(str(p + 1) for p in sorted(later))
        reasons.append(
            f"{node.name}: {'stored for' if store else 'computed again in'} pass {names}: {why}"
        )
        if not store:
            continue
        if written is None:
            written = intermediate(node)
            at(here, node.shape).outputs.append((node, written))
        stored[node.token] = written.read_back()
    passes = sorted(cuts.values(), key=lambda c: c.level)
    for c in passes[1:]:
        before = [f.name for f in levels.folds.values() if levels.value[f.token] < c.level]
        if before:
            reasons.append(
                f"pass level {c.level + 1} comes after {', '.join(dict.fromkeys(before))}, which it needs"
            )
    return passes, stored, list(dict.fromkeys(reasons))


def _crossing(levels: Levels, targets: Sequence[tuple[Node, Sink]]) -> list[tuple[Node, set[int]]]:
    """Computed nodes that a later pass uses directly, with those passes' levels, inputs first."""
    later: dict[str, set[int]] = {}

    def use(node: Node, level: int) -> None:
        if not isinstance(node, SourceNode) and levels.node[node.token] < level:
            later.setdefault(node.token, set()).add(level)

    for node in levels.nodes.values():
        for i in node.inputs:
            use(i, levels.node[node.token])
    for token, fold in levels.folds.items():
        for node in fold.nodes:
            use(node, levels.value[token])
    return [(n, later[n.token]) for n in levels.nodes.values() if n.token in later]


def _store(node: Node, passes: int, written: bool) -> tuple[bool, str]:
    """Whether storing a node beats computing it again in ``passes`` later passes."""
    if must_store(node):
        return True, "it is not deterministic"
    compute = read = 0.0
    for n in ancestors([node]):
        voxels = Box.of_shape(n.shape).size
        if isinstance(n, SourceNode):
            read += voxels * n.dtype.itemsize * READ_COST
        elif isinstance(n, StageNode):
            compute += voxels * n.stage.cost
    size = Box.of_shape(node.shape).size * node.dtype.itemsize
    again = passes * (compute + read)
    store = (0.0 if written else size * WRITE_COST) + passes * size * READ_COST
    text = (
        f"about {again / 1e9:.1f} s of computing and reading against {store / 1e9:.1f} s of storing"
    )
    return store < again, text
