"""Cutting an expression graph into passes at its barriers, and choosing what to store between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from beam_volumes.geometry import NO_HALO, Box, Triple
from beam_volumes.graph.nodes import (
    AcrossNode,
    Barrier,
    BarrierValue,
    CropNode,
    FoldValue,
    Node,
    SourceNode,
    StageNode,
    Value,
    ViewNode,
)
from beam_volumes.plan.compile import ancestors
from beam_volumes.storage.sink import Sink
from beam_volumes.storage.source import Source
from beam_volumes.sweep.stage import Regrid

#: Rough nanoseconds per byte of an uncompressed read and write, for choosing between plans.
READ_COST, WRITE_COST = 0.5, 1.0


@dataclass
class Cut:
    """One pass before it is compiled: what it writes, folds and surveys, all of one shape."""

    level: int
    shape: Triple
    outputs: list[tuple[Node, Sink]] = field(default_factory=list)
    folds: list[FoldValue] = field(default_factory=list)
    barriers: list[Barrier] = field(default_factory=list)

    @property
    def ends(self) -> list[Node]:
        """The nodes whose voxels it is for."""
        folded = [n for f in self.folds for n in f.nodes]
        return (
            [n for n, _ in self.outputs] + folded + [n for b in self.barriers for n in b.operands]
        )


class Levels:
    """In which pass everything can be computed: one after the last number or answer it needs.

    What rests on the answer to a slab can be computed in the slabs of the survey alone, and no
    farther than the survey saw (it is *bound*): where more is needed, by a halo or a crop, it is
    stored (`stored` names such nodes) and used one pass later.

    Parameters
    ----------
    nodes, values, barriers : sequences
        All that is asked for.
    pencils : bool
        Whether what a stage needs whole planes of is stored, to be read in full rows or columns.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        values: Sequence[Value],
        barriers: Sequence[Barrier] = (),
        pencils: bool = False,
    ):
        self.node: dict[str, int] = {}
        self.value: dict[str, int] = {}
        self.barrier: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}
        self.folds: dict[str, FoldValue] = {}
        self.barriers: dict[str, Barrier] = {}
        self.stored: dict[str, str] = {}
        self._pencils = pencils
        #: Of bound nodes, whether they reach to the planes beyond the slab.
        self._bound: dict[str, bool] = {}
        self._visit([*nodes, *values, *barriers])

    def _visit(self, items: Sequence[Node | Value | Barrier]) -> None:
        # Nodes, values and barriers rest on each other, so all are walked on one stack.
        stack: list[tuple[Node | Value | Barrier, bool]] = [(i, False) for i in items]
        while stack:
            item, done = stack.pop()
            if item.token in self._table(item):
                continue
            if not done:
                stack.append((item, True))
                stack.extend((b, False) for b in _below(item))
                continue
            if isinstance(item, Node):
                self.node[item.token] = self._level_of_node(item)
                self.nodes[item.token] = item
            elif isinstance(item, Barrier):
                self.barrier[item.token] = self._level_of_sweep(
                    [self._used(n, item.survey.upper) for n in item.operands], item.parameters
                )
                self.barriers[item.token] = item
            elif isinstance(item, FoldValue):
                used = [self._used(n, False) for n in item.nodes]
                self.value[item.token] = self._level_of_sweep(used, item.parameters)
                self.folds[item.token] = item
            elif isinstance(item, BarrierValue):
                self.value[item.token] = self.barrier[item.barrier.token]
            else:
                # A formula is known as soon as the last of its arguments is.
                known = (self.value[a.token] for a in item.arguments)
                self.value[item.token] = max(known, default=-1)

    def _table(self, item: Node | Value | Barrier) -> dict[str, int]:
        if isinstance(item, Node):
            return self.node
        return self.barrier if isinstance(item, Barrier) else self.value

    def _level_of_sweep(self, used: Sequence[int], parameters: Sequence[Value]) -> int:
        return max([0, *used, *(self.value[v.token] + 1 for v in parameters)])

    def _level_of_node(self, node: Node) -> int:
        if isinstance(node, CropNode):
            return self._used(node.operand, None, "a part of it is used")
        if isinstance(node, ViewNode):
            return self._store(node.operand, "its axes are reordered or reversed")
        if isinstance(node, AcrossNode):
            upper = node.completion.upper
            level = self._level_of_sweep([self._used(n, upper) for n in node.operands], ())
            self._bound[node.token] = upper
            return max(level, self.barrier[node.barrier.token] + 1)
        if not isinstance(node, StageNode):
            return 0
        used = []
        for i, n in enumerate(node.operands):
            if isinstance(node.stage, Regrid):
                used.append(self._used(n, None, f"{node.name} takes other voxels than its own"))
            elif node.stage.halo(i) != NO_HALO:
                used.append(self._used(n, None, f"{node.name} needs what is around each voxel"))
            elif self._pencils and node.stage.spans and not isinstance(n, SourceNode):
                used.append(self._store(n, f"{node.name} needs whole rows or columns of it"))
            else:
                used.append(self._used(n, False))
        bound = [self._bound[n.token] for n in node.operands if self._is_bound(n)]
        if bound:
            self._bound[node.token] = all(bound)
        return self._level_of_sweep(used, node.parameters)

    def _is_bound(self, node: Node) -> bool:
        return node.token in self._bound and node.token not in self.stored

    def _used(self, node: Node, upper: bool | None, why: str = "a survey sees more of it") -> int:
        """From which level a node can be used: in its slab, with the planes beyond, or (None) anyhow."""
        if must_store(node):
            return self.node[node.token] + 1
        if self._is_bound(node) and (upper is None or upper > self._bound[node.token]):
            return self._store(node, why)
        return self.node[node.token] + (node.token in self.stored)

    def _store(self, node: Node, why: str) -> int:
        self.stored.setdefault(node.token, why)
        return self.node[node.token] + 1


def _below(item: Node | Value | Barrier) -> list[Node | Value | Barrier]:
    """What something rests on directly."""
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


def must_store(node: Node) -> bool:
    """Whether a second computation might give other bits, so that there must be only one."""
    return isinstance(node, StageNode) and not node.stage.deterministic


def cut(
    targets: Sequence[tuple[Node, Sink]],
    values: Sequence[Value],
    barriers: Sequence[Barrier],
    intermediate: Callable[[Node], Sink],
    pencils: bool = False,
) -> tuple[list[Cut], dict[str, Source], list[str]]:
    """Cut a graph into passes.

    Parameters
    ----------
    targets : sequence of (Node, Sink)
        Voxels to write.
    values : sequence of Value
        Values asked for by themselves.
    barriers : sequence of Barrier
        Those that are asked for by themselves: tables.
    intermediate : callable
        Gives the sink of a node that is to be stored between two passes.
    pencils : bool
        As of `Levels`.

    Returns
    -------
    passes : list of Cut
        In the order in which they run.
    stored : dict
        By token of a node, where later passes read it.
    reasons : list of str
        Why nodes are stored or computed again.
    """
    levels = Levels([n for n, _ in targets], values, barriers, pencils)
    cuts: dict[tuple[int, Triple], Cut] = {}
    reasons: list[str] = []

    def at(level: int, shape: Triple) -> Cut:
        return cuts.setdefault((level, shape), Cut(level, shape))

    for node, sink in targets:
        at(levels.node[node.token], node.shape).outputs.append((node, sink))
    for token, fold in levels.folds.items():
        at(levels.value[token], fold.voxels.shape).folds.append(fold)
    for token, barrier in levels.barriers.items():
        at(levels.barrier[token], barrier.shape).barriers.append(barrier)

    stored: dict[str, Source] = {}
    for node, later in _crossing(levels, targets):
        here = levels.node[node.token]
        written = next(
            (s for n, s in targets if n.token == node.token and s.dtype == node.dtype), None
        )
        store, why = True, levels.stored.get(node.token, "")
        if not why:
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
        for i in fold.nodes:
            use(i, levels.value[token])
    for token, barrier in levels.barriers.items():
        for i in barrier.operands:
            use(i, levels.barrier[token])
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
        elif isinstance(n, AcrossNode):
            compute += voxels * n.completion.cost
    size = Box.of_shape(node.shape).size * node.dtype.itemsize
    again = passes * (compute + read)
    store = (0.0 if written else size * WRITE_COST) + passes * size * READ_COST
    text = (
        f"about {again / 1e9:.1f} s of computing and reading against {store / 1e9:.1f} s of storing"
    )
    return store < again, text
