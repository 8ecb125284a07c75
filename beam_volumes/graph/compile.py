"""Compile the expression graph to the program of one sweep.

Crops become offsets of edges, and chains of elementwise stages become one stage. A copy is inserted
if one ring cannot serve all its users: two paddings, two sinks, or a filter that pads at the edge
of a crop instead of the edge of the volume.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from beam_volumes.base.geometry import NO_HALO, Lattice, Triple
from beam_volumes.graph.elementwise import Elementwise, Fused
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
)
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.program import Edge, FedEdges, FoldEdge, Output, Program, Step, Surveyed
from beam_volumes.sweep.stage import Padding, Regrid, Stage


def compile_program(
    shape: Triple,
    outputs: Sequence[tuple[Node, Sink]],
    folds: Sequence[FoldValue],
    barriers: Sequence[Barrier],
    stored: dict[str, Source],
    lattices: Mapping[str, Lattice] | None = None,
) -> Program:
    """Compile the program that writes ``outputs``, computes ``folds`` and surveys for ``barriers``.

    ``lattices``: by token, the positions of nodes in the domain of ``shape``; other nodes cover it.
    ``stored``: by token, the sources of nodes that an earlier sweep has written.
    """

    def lattice(node: Node) -> Lattice:
        return (lattices or {}).get(node.token, Lattice(node.shape))

    compiler = _Compiler(stored)
    compiler.count([*(n for n, _ in outputs), *(n for b in barriers for n in b.operands)], folds)
    program_outputs = [
        Output(compiler.for_sink(node), sink, lattice(node)) for node, sink in outputs
    ]
    program_folds = [
        FoldEdge(
            f.token,
            f.reduction,
            tuple(
                FedEdges(
                    compiler.edge(fed.voxels),
                    compiler.edge(fed.mask) if fed.mask is not None else None,
                    tuple(compiler.edge(n) for n in fed.others),
                )
                for fed in f.fed
            ),
            lattice(f.nodes[0]),
            tuple(v.token for v in f.parameters),
        )
        for f in folds
    ]
    surveys = [
        Surveyed(
            b.token,
            b.survey,
            tuple(compiler.edge(n) for n in b.operands),
            tuple(v.token for v in b.parameters),
        )
        for b in barriers
    ]
    return Program(
        shape,
        tuple(compiler.steps),
        tuple(program_outputs),
        tuple(program_folds),
        tuple(surveys),
    )


def ancestors(roots: Iterable[Node], stored: Iterable[str] = ()) -> list[Node]:
    """The distinct nodes that roots depend on, inputs first, without inputs of stored nodes."""
    order: dict[str, Node] = {}
    stack: list[tuple[Node, bool]] = [(r, False) for r in roots]
    known = frozenset(stored)
    while stack:
        node, done = stack.pop()
        if done:
            order.setdefault(node.token, node)
        elif node.token not in order:
            stack.append((node, True))
            if node.token not in known:
                stack.extend((i, False) for i in node.inputs if i.token not in order)
    return list(order.values())


def _is_elementwise(node: Node) -> bool:
    return isinstance(node, StageNode) and isinstance(node.stage, Elementwise)


class _Compiler:
    def __init__(self, stored: dict[str, Source]):
        self.stored = stored
        self.steps: list[Step] = []
        self.made: dict[str, int] = {}
        self.copies: dict[tuple[int, Padding], int] = {}
        self.paddings: dict[int, Padding] = {}
        self.written: set[int] = set()
        self.uses: Counter[str] = Counter()
        self.inline: set[str] = set()

    def count(self, roots: Sequence[Node], folds: Sequence[FoldValue]) -> None:
        """Find the elementwise nodes with a single elementwise user: they need no array."""
        ends = [*roots, *(n for f in folds for n in f.nodes)]
        self.uses.update(n.token for n in ends)
        nodes = ancestors(ends, self.stored)
        for node in nodes:
            if node.token not in self.stored:
                self.uses.update(i.token for i in node.inputs)
        for node in nodes:
            if _is_elementwise(node) and node.token not in self.stored:
                for i in node.inputs:
                    if (
                        _is_elementwise(i)
                        and self.uses[i.token] == 1
                        and i.token not in self.stored
                    ):
                        self.inline.add(i.token)
        # Inputs are compiled before their users without recursion: graphs may be thousands of nodes
        # deep. Stored nodes have no inputs, and may only be read through a view.
        for node in nodes:
            known = node.token in self.inline or node.token in self.stored
            if not known and not isinstance(node, CropNode):
                self._make(node)

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def _make(self, node: Node) -> int:
        if node.token in self.made:
            return self.made[node.token]
        source = self._source(node)
        if source is not None:
            at = self._add(Step(node.name, node.shape, source.dtype, source=source))
            if source.dtype != node.dtype:
                cast = Elementwise("astype", node.dtype, "astype", (("input", 0),))
                at = self._add(
                    Step("astype", node.shape, node.dtype, stage=cast, edges=(Edge(at),))
                )
        elif isinstance(node, AcrossNode):
            edges = tuple(map(self.edge, node.operands))
            how, barrier = node.completion, node.barrier.token
            at = self._add(
                Step(node.name, node.shape, node.dtype, None, None, edges, (), how, barrier)
            )
        else:
            assert isinstance(node, StageNode)
            at = self._make_stage(node)
        self.made[node.token] = at
        return at

    def _source(self, node: Node) -> Source | None:
        """The source of a node's voxels, if it can be read."""
        if node.token in self.stored:
            return self.stored[node.token]
        if isinstance(node, ViewNode):
            return node.view(self.stored[node.operand.token])
        return node.source if isinstance(node, SourceNode) else None

    def _make_stage(self, node: StageNode) -> int:
        if _is_elementwise(node):
            return self._make_elementwise(node)
        edges = tuple(self._padded(n, node.stage, i) for i, n in enumerate(node.operands))
        values = tuple(v.token for v in node.parameters)
        examples = tuple(map(_example, node.parameters))
        return self._add(
            Step(
                node.name, node.shape, node.dtype, None, node.stage, edges, values,
                examples=examples,
            )
        )  # fmt: skip

    def _make_elementwise(self, node: StageNode) -> int:
        """Compile a node and everything inlined into it as one stage."""
        order = [n for n in ancestors([node], self._outside(node)) if self._inside(n, node)]
        at = {n.token: k for k, n in enumerate(order)}
        edges: list[Edge] = []
        values: list[str] = []
        examples: dict[str, np.ndarray] = {}
        parts = []
        for n in order:
            assert isinstance(n, StageNode) and isinstance(n.stage, Elementwise)
            arguments: list[tuple[str, object]] = []
            for kind, item in n.stage.arguments:
                if kind == "input" and n.operands[item].token in at:
                    arguments.append(("part", at[n.operands[item].token]))
                elif kind == "input":
                    arguments.append(("input", _index(edges, self.edge(n.operands[item]))))
                elif kind == "value":
                    value = n.parameters[item]
                    arguments.append(("value", _index(values, value.token)))
                    examples[value.token] = _example(value)
                else:
                    arguments.append((kind, item))
            parts.append(replace(n.stage, arguments=tuple(arguments)))
        stage: Stage = parts[0]
        if len(parts) > 1:
            stage = Fused(" ".join(p.name for p in parts), node.dtype, tuple(parts))
        return self._add(
            Step(
                node.name, node.shape, node.dtype, None, stage, tuple(edges), tuple(values),
                examples=tuple(examples[token] for token in values),
            )
        )  # fmt: skip

    def _inside(self, n: Node, root: Node) -> bool:
        return n.token == root.token or n.token in self.inline

    def _outside(self, root: Node) -> set[str]:
        """Tokens of the inputs below ``root`` that are not inlined."""
        outside, stack = set(), [root]
        while stack:
            for i in stack.pop().inputs:
                if i.token in self.inline:
                    stack.append(i)
                else:
                    outside.add(i.token)
        return outside

    def edge(self, node: Node) -> Edge:
        """How a user without a halo reads a node."""
        offset = (0, 0, 0)
        while isinstance(node, CropNode) and node.token not in self.stored:
            offset = tuple(a + b for a, b in zip(offset, node.start, strict=True))  # type: ignore[assignment]
            node = node.operand
        return Edge(self._make(node), offset)

    def _copy(self, edge: Edge, shape: Triple) -> int:
        dtype = self.steps[edge.step].dtype
        stage = Elementwise("copy", dtype, "copy", (("input", 0),))
        return self._add(Step("copy", shape, dtype, stage=stage, edges=(edge,)))

    def _padded(self, node: Node, stage: Stage, i: int) -> Edge:
        halo = stage.halo(i)
        edge = self.edge(node)
        if isinstance(stage, Regrid):
            return replace(edge, regrid=stage)
        if halo == NO_HALO:
            return edge
        if isinstance(node, CropNode) and node.token not in self.stored:
            # The filter pads at the edges of the crop, so the crop must be an array of its own.
            if node.token not in self.made:
                self.made[node.token] = self._copy(edge, node.shape)
            edge = Edge(self.made[node.token])
        padding = _normal(stage.padding)
        step = edge.step
        if self.paddings.setdefault(step, padding) != padding:
            if (step, padding) not in self.copies:
                self.copies[step, padding] = self._copy(edge, self.steps[step].shape)
            step = self.copies[step, padding]
            self.paddings[step] = padding
        return Edge(step, (0, 0, 0), halo, padding)

    def for_sink(self, node: Node) -> Edge:
        """How a sink reads a node: a computed step that no other sink reads."""
        edge = self.edge(node)
        if self.steps[edge.step].source is not None or edge.step in self.written:
            edge = Edge(self._copy(edge, node.shape))
        self.written.add(edge.step)
        return edge


def _normal(padding: Padding) -> Padding:
    """Make equal paddings compare equal: the constant only matters for constant modes."""
    constant = any(m in ("constant", "grid-constant") for m in padding.modes)
    names = {"grid-mirror": "reflect", "grid-constant": "constant"}
    modes = tuple(names.get(m, m) for m in padding.modes)
    return Padding(modes, padding.cval if constant else 0.0)  # type: ignore[arg-type]


def _example(value: Value) -> np.ndarray:
    """A number like a value, or an empty array; integers are large, which shows where they do not fit."""
    is_integer = value.dtype.kind in "ui"
    number = np.iinfo(value.dtype).max if is_integer else 1
    return np.full([0] * len(value.shape), number, value.dtype)


def _index(items: list, item: object) -> int:
    """The index of an item in a list; it is appended if missing."""
    if item not in items:
        items.append(item)
    return items.index(item)
