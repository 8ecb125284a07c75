"""Cut an expression graph into passes at its barriers, and choose the nodes to store in between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from beam_volumes.base.geometry import NO_HALO, Box, Lattice, Triple
from beam_volumes.graph.compile import ancestors, compile_program
from beam_volumes.graph.nodes import (
    AcrossNode,
    Barrier,
    BarrierValue,
    CropNode,
    FoldValue,
    Node,
    PeriodicNode,
    SourceNode,
    StageNode,
    Value,
    ViewNode,
    below,
)
from beam_volumes.plan.cut.domains import Position, domains, position
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.program import Program
from beam_volumes.sweep.stage import Regrid

#: Approximate nanoseconds per byte of an uncompressed read and write, to choose between plans.
READ_COST, WRITE_COST = 0.5, 1.0


@dataclass
class Cut:
    """One pass before it is compiled."""

    level: int
    shape: Triple  #: The shape of its domain.
    outputs: list[tuple[Node, Sink]] = field(default_factory=list)
    folds: list[FoldValue] = field(default_factory=list)
    barriers: list[Barrier] = field(default_factory=list)
    #: Sources of nodes that earlier passes have stored, by token; set by `in_order`.
    before: dict[str, Source] = field(default_factory=dict)
    #: Positions of the nodes that do not cover the domain.
    lattices: dict[str, Lattice] = field(default_factory=dict)

    def program(self) -> Program:
        return compile_program(
            self.shape, self.outputs, self.folds, self.barriers, self.before, self.lattices
        )

    @property
    def ends(self) -> list[Node]:
        """The nodes that it writes, folds or surveys."""
        folded = [n for f in self.folds for n in f.nodes]
        return (
            [n for n, _ in self.outputs] + folded + [n for b in self.barriers for n in b.operands]
        )

    @property
    def given(self) -> list[Node]:
        """The nodes that later passes can read back from its outputs."""
        return [n for n, sink in self.outputs if _holds(sink, n)]

    @cached_property
    def reached(self) -> list[Node]:
        """The nodes that it computes or reads, inputs before users; the pass is complete by then."""
        return ancestors(self.ends, self.before)


@dataclass(frozen=True)
class Choice:
    """Whether a node that later passes need is stored or computed again, and why."""

    node: Node
    stored: bool
    why: str


class Levels:
    """The pass of each node and value: the one after the last number or answer that it needs."""

    # Nodes that depend on the answer to a slab are *bound*: they can only be computed in the slabs of
    # the survey, and only where the survey had voxels. If a user needs more, because of a halo or a
    # crop, the node is stored (`stored` contains it) and used one pass later.
    #
    # ``pencils``: store the inputs of stages that need whole planes, to read them in full rows or
    # columns. ``copied``: by token, why a source is first stored in other chunks; numbers are
    # computed from the original. ``separate``: by token, why the users of a node read it from storage
    # in a later pass.

    def __init__(
        self,
        nodes: Sequence[Node],
        values: Sequence[Value],
        barriers: Sequence[Barrier] = (),
        pencils: bool = False,
        copied: Mapping[str, str] | None = None,
        separate: Mapping[str, str] | None = None,
    ):
        self.node: dict[str, int] = {}
        self.value: dict[str, int] = {}
        self.barrier: dict[str, int] = {}
        self.nodes: dict[str, Node] = {}
        self.folds: dict[str, FoldValue] = {}
        self.barriers: dict[str, Barrier] = {}
        self.stored: dict[str, str] = dict(separate or {})
        self.copied = copied or {}
        self._pencils = pencils
        #: Nodes that have to be computed from the volume's first slice on.
        self._in_order: set[str] = set()
        #: For bound nodes, whether they include the planes above the slab.
        self._bound: dict[str, bool] = {}
        #: Bound nodes with coarser voxels than their slabs.
        self._levels: set[str] = set()
        self._visit([*nodes, *values, *barriers])

    def _visit(self, items: Sequence[Node | Value | Barrier]) -> None:
        # Nodes, values and barriers depend on each other, so one stack is used for all.
        stack: list[tuple[Node | Value | Barrier, bool]] = [(i, False) for i in items]
        while stack:
            item, done = stack.pop()
            if item.token in self._table(item):
                continue
            if not done:
                stack.append((item, True))
                stack.extend((b, False) for b in below(item))
                continue
            if isinstance(item, Node):
                self.node[item.token] = self._level_of_node(item)
                self.nodes[item.token] = item
            elif isinstance(item, Barrier):
                self.barrier[item.token] = self._level_of_sweep(
                    [self._fed(n, item.survey.upper) for n in item.operands], item.parameters
                )
                self.barriers[item.token] = item
            elif isinstance(item, FoldValue):
                used = [
                    0
                    if n.token in self.copied
                    else self._store(n, f"{item.name} takes voxels of another size too")
                    if i and self._is_level(n)
                    else self._used(n, False)
                    for i, n in enumerate(item.nodes)
                ]
                self.value[item.token] = self._level_of_sweep(used, item.parameters)
                self.folds[item.token] = item
            elif isinstance(item, BarrierValue):
                self.value[item.token] = self.barrier[item.barrier.token]
            else:
                # A formula is known with the last of its arguments.
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
            if node.start[0] and self._begins_first(node.operand):
                return self._store(node.operand, "slices after its first are used")
            return self._used(node.operand, None, "a part of it is used")
        if isinstance(node, ViewNode):
            wraps = isinstance(node, PeriodicNode)
            why = (
                "its last voxels are needed first"
                if wraps
                else "its axes are reordered or reversed"
            )
            return self._store(node.operand, why)
        if isinstance(node, AcrossNode):
            upper = node.completion.upper
            level = self._level_of_sweep([self._fed(n, upper) for n in node.operands], ())
            self._bound[node.token] = upper
            return max(level, self.barrier[node.barrier.token] + 1)
        if not isinstance(node, StageNode):
            return 0
        used = []
        for i, n in enumerate(node.operands):
            if isinstance(node.stage, Regrid) and self._begins_first(n):
                used.append(self._store(n, f"{node.name} takes other slices than its own"))
            elif isinstance(node.stage, Regrid) and node.stage.stride is not None:
                used.append(self._used(n, False))  # slabs contain whole windows of it
            elif i and self._is_bound(n) and self._is_mixed(node):
                used.append(self._store(n, f"{node.name} takes voxels of another size too"))
            elif isinstance(node.stage, Regrid):
                used.append(self._used(n, None, f"{node.name} takes other voxels than its own"))
            elif node.stage.halo(i) != NO_HALO:
                used.append(
                    self._used(n, None, f"{node.name} needs the surroundings of each voxel")
                )
            elif self._pencils and node.stage.spans and not isinstance(n, SourceNode):
                used.append(self._store(n, f"{node.name} needs whole rows or columns of it"))
            else:
                used.append(self._used(n, False))
        if 0 in node.stage.spans or any(map(self._begins_first, node.operands)):
            self._in_order.add(node.token)
        bound = [n for n in node.operands if self._is_bound(n)]
        if bound:
            is_level = isinstance(node.stage, Regrid) or any(map(self._is_level, bound))
            self._bound[node.token] = not is_level and all(self._bound[n.token] for n in bound)
            if is_level:
                self._levels.add(node.token)
        return self._level_of_sweep(used, node.parameters)

    def _fed(self, node: Node, upper: bool) -> int:
        """The level from which a survey or completion can use a node."""
        return self._used(node, None if self._is_level(node) else upper)

    def answered(self, nodes: Sequence[Node], level: int, stored: Collection[str]) -> Node | None:
        """A node with answers to slabs that nodes of a level depend on; None if there is none."""
        if not self.barriers:
            return None
        known = {token for token, at in self.node.items() if at < level}
        known |= set(stored) - {n.token for n in nodes if self.node[n.token] == level}
        below = ancestors(nodes, known)
        return next((n for n in below if isinstance(n, AcrossNode) and n.token not in known), None)

    def _is_level(self, node: Node) -> bool:
        """Whether a node is bound to slabs of finer voxels."""
        return node.token in self._levels and self._is_bound(node)

    def _is_mixed(self, node: StageNode) -> bool:
        """Whether a node has operands bound to slabs of finer voxels."""
        return any(map(self._is_level, node.operands))

    def _begins_first(self, node: Node) -> bool:
        """Whether the pass of a node computes it from the first slice on."""
        return node.token in self._in_order and node.token not in self.stored

    def _is_bound(self, node: Node) -> bool:
        return node.token in self._bound and node.token not in self.stored

    def _used(self, node: Node, upper: bool | None, why: str = "a survey needs more of it") -> int:
        """The level from which a node can be used.

        ``upper``: whether in its slab with the planes above it; None is anywhere.
        """
        if must_store(node) or node.token in self.copied:
            return self.node[node.token] + 1
        if self._is_bound(node) and (upper is None or upper > self._bound[node.token]):
            return self._store(node, why)
        return self.node[node.token] + (node.token in self.stored)

    def _store(self, node: Node, why: str) -> int:
        self.stored.setdefault(node.token, why)
        return self.node[node.token] + 1


def must_store(node: Node) -> bool:
    """Whether a node is not deterministic, so that it must be computed only once."""
    if not isinstance(node, StageNode) or node.dtype.names:
        return False  # interleaved channels are stored one by one
    made = [n.stage for n in node.inputs if isinstance(n, StageNode) and n.dtype.names]
    return not all(s.deterministic for s in (node.stage, *made))


def cut(
    targets: Sequence[tuple[Node, Sink]],
    levels: Levels,
    intermediate: Callable[[Node], Sink],
) -> tuple[list[Cut], dict[str, Source], list[Choice]]:
    """Cut a graph into passes.

    ``targets``: voxels to write. ``levels``: of them, and of numbers and surveys with tables.
    ``intermediate``: returns the sink of a node that is stored between two passes.
    Returns passes by level (`in_order` sorts them), the sources of stored nodes by token, and the
    choices between storing and computing again.
    """
    choices: list[Choice] = []
    ends: list[_End] = []
    for node, sink in targets:
        level = levels.node[node.token] + (node.token in levels.copied)
        ends.append(_End(level, node, output=(node, sink)))
    for token, fold in levels.folds.items():
        ends.append(_End(levels.value[token], fold.nodes[0], fold=fold))
    for token, barrier in levels.barriers.items():
        ends.append(_End(levels.barrier[token], barrier.operands[0], barrier=barrier))

    stored: dict[str, Source] = {}
    written = {n.token: s for n, s in reversed(targets) if _holds(s, n)}
    for token in levels.copied.keys() & levels.nodes.keys():
        node = levels.nodes[token]
        choices.append(Choice(node, True, levels.copied[token]))
        sink = intermediate(node)
        ends.append(_End(0, node, output=(node, sink)))
        stored[token] = sink.read_back()
    for node, passes in _crossing(levels):
        why = "it is not deterministic" if must_store(node) else levels.stored.get(node.token)
        if why is not None:
            choices.append(Choice(node, True, why))
        elif node.token in written:
            continue  # `in_order` decides whether it is read back
        else:
            choices.append(_choice(node, passes, _cost_at_best([node], stored, written)))
        if choices[-1].stored:
            if node.token not in written:
                written[node.token] = intermediate(node)
                output = (node, written[node.token])
                ends.append(_End(levels.node[node.token], node, output=output))
            stored[node.token] = written[node.token].read_back()
    return _cuts_of(ends, levels, stored), stored, choices


@dataclass(frozen=True)
class _End:
    """The purpose of a pass: an output, a reduction or a survey of a node."""

    level: int
    node: Node
    output: tuple[Node, Sink] | None = None
    fold: FoldValue | None = None
    barrier: Barrier | None = None

    def add_to(self, made: Cut, lattice: Lattice) -> None:
        if self.output is not None:
            made.outputs.append(self.output)
        if self.fold is not None:
            made.folds.append(self.fold)
        if self.barrier is not None:
            made.barriers.append(self.barrier)
        made.lattices[self.node.token] = lattice


def _cuts_of(ends: Sequence[_End], levels: Levels, stored: Collection[str]) -> list[Cut]:
    """Passes by level, one for each domain."""
    cuts = []
    for level in sorted({e.level for e in ends}):
        own = [e for e in ends if e.level == level]
        for domain in domains([_position(e, levels, stored) for e in own]):
            made = Cut(level, domain.shape)
            for k, lattice in zip(domain.ends, domain.lattices, strict=True):
                own[k].add_to(made, lattice)
            cuts.append(made)
    return cuts


def _position(end: _End, levels: Levels, stored: Collection[str]) -> Position:
    """The position of an end. Surveys, and nodes that depend on answers, fix the domain."""
    root, lattice = position(end.node)
    if end.barrier is not None:
        return Position(root.token, lattice, lattice)
    nodes = [end.node] if end.fold is None else end.fold.nodes
    answered = levels.answered(nodes, end.level, stored)
    if answered is None:
        return Position(root.token, lattice)
    of, slabs = position(answered)
    return Position(root.token, lattice, slabs if of.token == root.token else lattice)


def _holds(sink: Sink, node: Node) -> bool:
    """Whether a later pass can read a node back from its output."""
    return sink.holds(node.dtype) and not isinstance(node, SourceNode)


def _choice(node: Node, passes: int, again: float) -> Choice:
    """Compare the cost of storing a node with computing it again in ``passes`` later passes."""
    size, again = _bytes(node), passes * again
    store = size * WRITE_COST + passes * size * READ_COST
    text = f"about {again / 1e9:.1f} s to compute and read, against {store / 1e9:.1f} s to store"
    return Choice(node, store < again, text)


def in_order(cuts: Sequence[Cut], stored: dict[str, Source]) -> list[Cut]:
    """Sort the passes in the order of execution, and set what each reads from earlier ones."""
    # A pass reads nodes that earlier levels have stored for it. It also reads back other outputs of
    # earlier passes if that is faster than computing them again. Within a level, passes with such
    # outputs come first.
    if len(cuts) == 1:
        return [replace(cuts[0], before={})]
    # A rechunked source may also be an output of a later level.
    levels = {n.token: c.level for c in reversed(cuts) for n, _ in c.outputs}
    ordered: list[Cut] = []
    there: dict[str, Source] = {}
    for level in sorted({c.level for c in cuts}):
        before = {token: s for token, s in stored.items() if levels[token] < level}
        waiting = [c for c in cuts if c.level == level]
        while waiting:
            c = waiting.pop(_first(waiting, before))
            own = before | {token: there[token] for token in _quicker(c.ends, before, there)}
            ordered.append(replace(c, before=own))
            for n, sink in c.outputs:
                if _holds(sink, n) and n.token not in there:
                    there[n.token] = stored.get(n.token) or sink.read_back()
    return ordered


def _first(cuts: Sequence[Cut], before: Collection[str]) -> int:
    """Choose the next pass of a level: one that depends on no output of the others.

    If all depend on others, the one with the most bytes that others need.
    """
    needed = [{n.token for n in ancestors(c.ends, before)} for c in cuts]
    given = []
    for k, c in enumerate(cuts):
        others = [j for j in range(len(cuts)) if j != k]
        if not any(n.token in needed[k] for j in others for n in cuts[j].given):
            return k
        given.append(sum(_bytes(n) for j in others for n in c.given if n.token in needed[j]))
    return given.index(max(given))


def _quicker(roots: Sequence[Node], known: Collection[str], there: Collection[str]) -> list[str]:
    """The available nodes that are faster to read than to compute again."""
    taken: list[str] = []
    now = _cost(roots, known)
    # Users before inputs: inputs of a node that is read are not needed.
    for node in reversed(ancestors(roots, known)):
        if node.token in there and node.token not in known:
            then = _cost(roots, {*known, *taken, node.token})
            if then < now:
                taken.append(node.token)
                now = then
    return taken


def _cost_at_best(roots: Sequence[Node], known: Collection[str], there: Collection[str]) -> float:
    return _cost(roots, {*known, *_quicker(roots, known, there)})


def _cost(roots: Sequence[Node], known: Collection[str]) -> float:
    """Approximate nanoseconds to compute nodes from sources and known nodes."""
    cost = 0.0
    for n in ancestors(roots, known):
        voxels = Box.of_shape(n.shape).size
        if n.token in known or isinstance(n, SourceNode):
            cost += _bytes(n) * READ_COST
        elif isinstance(n, StageNode):
            cost += voxels * n.stage.cost
        elif isinstance(n, AcrossNode):
            cost += voxels * n.completion.cost
    return cost


def _bytes(node: Node) -> int:
    return Box.of_shape(node.shape).size * node.dtype.itemsize


def describe_cuts(cuts: Sequence[Cut], choices: Sequence[Choice]) -> list[str]:
    """Describe why nodes are stored, read back or computed again; cuts must be `in_order`."""
    reads = [[n for n in c.reached if n.token in c.before] for c in cuts]
    makes = [[n for n in c.reached if n.token not in c.before] for c in cuts]
    lines = []

    def add_line(node: Node, action: str, passes: Sequence[int], why: str) -> None:
        if passes:
            lines.append(f"{node.name}: {action} {', '.join(str(k + 1) for k in passes)}{why}")

    for choice in choices:
        if choice.stored:
            passes = _those_with(choice.node, reads)
            add_line(choice.node, "stored for pass", passes, f": {choice.why}")
        else:
            passes = _those_with(choice.node, makes)[1:]
            add_line(choice.node, "computed again in pass", passes, f": {choice.why}")
    known = {choice.node.token for choice in choices}
    places: dict[str, str] = {}
    made: set[str] = set()
    for k, c in enumerate(cuts):
        for node, sink in c.outputs:
            if _holds(sink, node) and node.token not in {*known, *places}:
                passes = [j for j in _those_with(node, reads) if j > k]
                places[node.token] = "the result in memory" if sink.scratch else sink.name
                why = ", where it is written anyway"
                add_line(node, f"read back from {places[node.token]} in pass", passes, why)
        # Only the end of a chain that is computed again is described.
        used = {n.token for n in c.ends}
        used |= {i.token for n in makes[k] if n.token not in made for i in n.inputs}
        for node in makes[k]:
            if node.token in (made & used) - known and not isinstance(node, SourceNode | CropNode):
                why = ": it writes or reduces voxels of another shape, or in other write units"
                if node.token in places:
                    why = f": reading it back from {places[node.token]} would take longer"
                add_line(node, "computed again in pass", [k], why)
        made |= {n.token for n in makes[k]}
    return lines


def _those_with(node: Node, passes: Sequence[Sequence[Node]]) -> list[int]:
    return [k for k, some in enumerate(passes) if any(n.token == node.token for n in some)]


def _crossing(levels: Levels) -> list[tuple[Node, int]]:
    """Computed nodes that later passes use directly, with the number of passes; inputs first."""
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
    return [(n, len(later[n.token])) for n in levels.nodes.values() if n.token in later]
