"""Which results one sweep yields: those that lie in one domain, as crops of it or levels of a pyramid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from beam_volumes.base.geometry import Box, Lattice, Triple
from beam_volumes.graph.nodes import AcrossNode, CropNode, Node, StageNode
from beam_volumes.sweep.stage import Regrid


@dataclass(frozen=True)
class Position:
    """Where a node lies."""

    root: str  #: Token of the node that it is a crop or a level of, by its first operands.
    lattice: Lattice  #: Its voxels among those of the root.
    #: Where the domain has to be whose slabs it is computed in, if that is not free.
    domain: Lattice | None = None

    @property
    def points(self) -> Box:
        """From the first voxel to the last."""
        at = self.lattice
        z, y, x = (at.until(a, n) for a, n in enumerate(at.shape))
        return Box(at.start, (z, y, x))


def position(node: Node) -> tuple[Node, Lattice]:
    """The node that another is a crop or a level of, and where it lies there."""
    lattice = Lattice(node.shape)
    while True:
        if isinstance(node, CropNode):
            lattice = lattice.above(node.start)
            node = node.operand
        elif isinstance(node, StageNode) and isinstance(node.stage, Regrid):
            if node.stage.stride is None:
                break
            lattice = lattice.above((0, 0, 0), node.stage.stride)
            node = node.operands[0]
        elif isinstance(node, StageNode | AcrossNode) and node.operands:
            node = node.operands[0]
        else:
            break
    return node, lattice


@dataclass(frozen=True)
class Domain:
    """What the slabs of a sweep are cut from."""

    shape: Triple
    ends: tuple[int, ...]  #: Which of the nodes that were to be put together it holds.
    lattices: tuple[Lattice, ...]  #: Where each of these lies in it.


def domains(positions: Sequence[Position]) -> list[Domain]:
    """Put nodes into as few domains as it takes.

    Nodes of one root share a domain where that holds less than domains of their own would. So do nodes of
    one shape, whatever they are of, if it is the domain's.

    >>> whole, crop = Lattice((9, 9, 9)), Lattice((4, 9, 9), start=(5, 0, 0))
    >>> level, other = Lattice((5, 5, 5), step=(2, 2, 2)), Lattice((5, 5, 5))
    >>> ends = Position("a", whole), Position("a", crop), Position("a", level), Position("b", other)
    >>> [(d.shape, d.ends) for d in domains(ends)]
    [((9, 9, 9), (0, 1, 2)), ((5, 5, 5), (3,))]
    """
    groups: list[list[int]] = []
    for k in range(len(positions)):
        new = [k]
        while True:
            other = next((g for g in groups if _is_shared([*g, *new], g, new, positions)), None)
            if other is None:
                break
            groups.remove(other)
            new = sorted([*other, *new])
        groups.append(new)
    found: dict[Triple, Domain] = {}
    for group in sorted(groups):
        shape, lattices = _reduced([positions[k] for k in group])
        old = found.get(shape, Domain(shape, (), ()))
        found[shape] = Domain(shape, (*old.ends, *group), (*old.lattices, *lattices))
    return list(found.values())


def _is_shared(
    both: Sequence[int], a: Sequence[int], b: Sequence[int], positions: Sequence[Position]
) -> bool:
    """Whether two groups of nodes have a domain in common that is worth it."""
    members = [positions[k] for k in both]
    if len({p.root for p in members}) > 1 or any(0 in p.lattice.shape for p in members):
        return False
    hull = _hull(members)
    apart = sum(_hull([positions[k] for k in group]).size for group in (a, b))
    if hull.size >= apart:
        return False
    fixed = {_domain([Position("", p.domain)]) for p in members if p.domain is not None}
    return not fixed or fixed == {_domain(members)}


def _hull(members: Sequence[Position]) -> Box:
    boxes = [p.points for p in members]
    z, y, x = (min(b.start[a] for b in boxes) for a in range(3))
    stop = tuple(max(b.stop[a] for b in boxes) for a in range(3))
    return Box((z, y, x), stop)  # type: ignore[arg-type]


def _domain(members: Sequence[Position]) -> Lattice:
    """The coarsest lattice that holds all voxels of some nodes of one root."""
    hull = _hull(members)
    steps, shape = [], []
    for axis in range(3):
        first = hull.start[axis]
        apart = [p.lattice.step[axis] for p in members if p.lattice.shape[axis] > 1]
        apart += [p.lattice.start[axis] - first for p in members]
        steps.append(math.gcd(*apart) or 1)
        shape.append((hull.stop[axis] - 1 - first) // steps[axis] + 1)
    return Lattice(tuple(shape), hull.start, tuple(steps))  # type: ignore[arg-type]


def _reduced(members: Sequence[Position]) -> tuple[Triple, list[Lattice]]:
    """The shape of a domain, and where nodes lie in it."""
    fixed = next((p.domain for p in members if p.domain is not None), None)
    if fixed is None and len(members) == 1:  # an empty one, too
        return members[0].lattice.shape, [Lattice(members[0].lattice.shape)]
    domain = fixed or _domain(members)
    found = []
    for p in members:
        at, axes = p.lattice, range(3)
        start = tuple((at.start[a] - domain.start[a]) // domain.step[a] for a in axes)
        step = tuple(
            max(1, at.step[a] // domain.step[a]) if domain.shape[a] > 1 else 1 for a in axes
        )
        found.append(Lattice(at.shape, start, step))  # type: ignore[arg-type]
    return domain.shape, found
