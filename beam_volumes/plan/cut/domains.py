"""Group the results that one sweep can compute: parts of one domain, such as crops and levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from beam_volumes.base.geometry import Box, Lattice, Triple
from beam_volumes.graph.nodes import AcrossNode, CropNode, Node, StageNode
from beam_volumes.sweep.stage import Regrid


@dataclass(frozen=True)
class Position:
    """The position of a node in a domain."""

    root: str  #: Token of the node that it is a crop or level of, following first operands.
    lattice: Lattice  #: Its voxels in the lattice of the root.
    #: The domain that it must be computed in, if it is bound to slabs.
    domain: Lattice | None = None

    @property
    def points(self) -> Box:
        """The box from the first voxel to the last."""
        at = self.lattice
        z, y, x = (at.until(a, n) for a, n in enumerate(at.shape))
        return Box(at.start, (z, y, x))


def position(node: Node) -> tuple[Node, Lattice]:
    """Return the node that another is a crop or level of, and its lattice there."""
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
    """A box that the slabs of a sweep divide."""

    shape: Triple
    ends: tuple[int, ...]  #: Indices of its nodes.
    lattices: tuple[Lattice, ...]  #: The position of each of them.


def domains(positions: Sequence[Position]) -> list[Domain]:
    """Group nodes into as few domains as possible.

    Nodes with the same root share a domain if it is smaller than their separate domains. Nodes of
    any root share one if they have the same shape as the domain.

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
    """Whether two groups of nodes can share a domain, and it is smaller than separate ones."""
    members = [positions[k] for k in both]
    if len({p.root for p in members}) > 1 or any(0 in p.lattice.shape for p in members):
        return False
    hull = _hull(members)
    separate = sum(_hull([positions[k] for k in group]).size for group in (a, b))
    if hull.size >= separate:
        return False
    fixed = {_domain([Position("", p.domain)]) for p in members if p.domain is not None}
    return not fixed or fixed == {_domain(members)}


def _hull(members: Sequence[Position]) -> Box:
    boxes = [p.points for p in members]
    z, y, x = (min(b.start[a] for b in boxes) for a in range(3))
    stop = tuple(max(b.stop[a] for b in boxes) for a in range(3))
    return Box((z, y, x), stop)  # type: ignore[arg-type]


def _domain(members: Sequence[Position]) -> Lattice:
    """The coarsest lattice that contains all voxels of some nodes with the same root."""
    hull = _hull(members)
    steps, shape = [], []
    for axis in range(3):
        first = hull.start[axis]
        distances = [p.lattice.step[axis] for p in members if p.lattice.shape[axis] > 1]
        distances += [p.lattice.start[axis] - first for p in members]
        steps.append(math.gcd(*distances) or 1)
        shape.append((hull.stop[axis] - 1 - first) // steps[axis] + 1)
    return Lattice(tuple(shape), hull.start, tuple(steps))  # type: ignore[arg-type]


def _reduced(members: Sequence[Position]) -> tuple[Triple, list[Lattice]]:
    """The shape of a domain, and the positions of nodes in it."""
    fixed = next((p.domain for p in members if p.domain is not None), None)
    if fixed is None and len(members) == 1:  # it may be empty
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
