"""Scans along z over all slabs as rounds of messages.

Each column of slabs, a tile along y and x, is scanned separately, and so is each tile of its plane
of state if that is large (`beam_volumes.across.scans.state_tiles`). ``up-1`` combines groups of
``radix`` slabs, ``up-2`` groups of groups, and so on until one is left. The state carried into a
group is passed to its members in ``down-n``, ..., ``down-1``, and to the slabs in ``slabs-again``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from beam_volumes.across.rounds.flow import Flow, Key, Message, Round, only
from beam_volumes.across.scans import Combine, cut_state, down, join_states, state_tiles, up
from beam_volumes.base.geometry import Grid

FORWARD, BACKWARD = 0, 1


def scan_flow(
    grid: Grid,
    combine: Combine,
    *,
    itemsize: int = 8,
    forward: bool = True,
    backward: bool = False,
    radix: int = 16,
) -> Flow:
    """The rounds that carry states along z, up, down or both, in each tile of a grid.

    A state is a plane of a slab, or a dataclass of planes, with ``itemsize`` bytes per pixel.

    >>> from beam_volumes.across.rounds.flow import run, only
    >>> flow = scan_flow(Grid((4, 1, 1), (1, 1, 1)), str.__add__, backward=True, radix=2)
    >>> out = run(flow, [((z,), (z, "abcd"[z], "ABCD"[z])) for z in range(4)])
    >>> for key, answer in out["answers"]:
    ...     print(key, answer)
    (0,) (0, None, 'DCB')
    (1,) (1, 'a', 'DC')
    (2,) (2, 'ab', 'D')
    (3,) (3, 'abc', None)
    """
    # The input, under the key ``(slab index,)``, is a tuple ``(own, of_forward, of_backward)``: any value
    # that is returned to the same slab, and the slab's states for the two scans, or None. The port
    # ``"answers"`` has, under the same key and once for each slab, ``(own, before, after)``: the states
    # carried into the slab from those below it and above it, or None. ``combine(a, b)`` is associative, for
    # neighbours in the order of the scan: backward, ``a`` is the upper one. States of more than 4 MB are
    # divided into tiles, so it must work pixel by pixel; smaller ones have any type.
    if radix < 2:
        raise ValueError(f"radix {radix} is too small; groups must have at least 2 members")
    if itemsize < 1:
        raise ValueError(f"itemsize={itemsize}: a state must have at least one byte per pixel")
    top, groups = 0, grid.counts[0]
    while groups > 1:
        top, groups = top + 1, -(-groups // radix)
    chosen = tuple(d for d, is_wanted in ((FORWARD, forward), (BACKWARD, backward)) if is_wanted)
    task = _Task(grid, combine, itemsize, chosen, radix, top)
    if top == 0 or not chosen:
        return Flow((_Slabs("slabs", ("answers",), task),), ("answers",))
    rounds: list[Round] = [_Slabs("slabs", ("up-1", "slabs-again"), task)]
    for level in range(1, top + 1):
        to = (f"up-{level + 1}", f"down-{level}") if level < top else (task.below(level),)
        rounds.append(_Up(f"up-{level}", to, task, level))
    for level in range(top - 1, 0, -1):
        rounds.append(_Down(f"down-{level}", (task.below(level),), task, level))
    rounds.append(_Again("slabs-again", ("answers",), task))
    return Flow(tuple(rounds), ("answers",))


@dataclass(frozen=True, eq=False)
class _Task:
    grid: Grid
    combine: Combine
    itemsize: int
    directions: tuple[int, ...]
    radix: int
    top: int

    def tiles(self, index: int) -> list[tuple[slice, slice]]:
        """The tiles of the plane of a slab's state."""
        _, rows, cols = self.grid.box(index).shape
        return state_tiles(rows, cols, self.itemsize)

    @staticmethod
    def below(level: int) -> str:
        return f"down-{level - 1}" if level > 1 else "slabs-again"


class _Member(NamedTuple):
    """A member of a group: its slab or group of the level below, and its state."""

    place: int
    state: Any


class _Group(NamedTuple):
    """From a group to itself, for the way back: its members in the order of the scan."""

    members: list[_Member]


class _Carry(NamedTuple):
    """Into a group or, for one direction and tile of the plane, into a slab."""

    direction: int
    tile: int
    state: Any


class _Own(NamedTuple):
    value: Any


@dataclass(frozen=True, eq=False)
class _Slabs(Round):
    task: _Task

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        t = self.task
        own, *states = values[0]
        if not t.top or not t.directions:
            return [("answers", key, (own, None, None))]
        return self.sent(key[0], own, states)

    def sent(self, index: int, own: Any, states: list[Any]) -> Iterator[Message]:
        t = self.task
        z, y, x = t.grid.cell(index)
        yield "slabs-again", (index,), _Own(own)
        tiles = t.tiles(index)
        for direction in t.directions:
            for k, tile in enumerate(tiles):
                state = states[direction]
                part = state if len(tiles) == 1 else cut_state(state, tile)
                yield "up-1", (direction, y, x, k, z // t.radix), _Member(z, part)


@dataclass(frozen=True, eq=False)
class _Carried(Round):
    """Pass the state carried into a group on. Keys: direction, tile y, x, part, group."""

    task: _Task
    level: int

    def send(self, key: Key, carry: Any, members: list[_Member]) -> Iterator[Message]:
        direction, y, x, part, _ = key
        address: Key
        into = down(carry, [m.state for m in members], self.task.combine)
        for member, state in zip(members, into, strict=True):
            if state is None:
                continue
            if self.level > 1:
                address = (direction, y, x, part, member.place)
            else:
                _, ny, nx = self.task.grid.counts
                address = ((member.place * ny + y) * nx + x,)
            yield self.task.below(self.level), address, _Carry(direction, part, state)


@dataclass(frozen=True, eq=False)
class _Up(_Carried):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        direction, *_, group = key
        by_place = {m.place: m for m in values}
        members = [by_place[i] for i in sorted(by_place, reverse=direction == BACKWARD)]
        if self.level == self.task.top:
            return self.send(key, None, members)
        total = up([m.state for m in members], self.task.combine)
        return [
            (f"up-{self.level + 1}", (*key[:-1], group // self.task.radix), _Member(group, total)),
            (f"down-{self.level}", key, _Group(members)),
        ]


@dataclass(frozen=True, eq=False)
class _Down(_Carried):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        group = only(values, _Group)
        carry = next((v.state for v in values if type(v) is _Carry), None)
        return self.send(key, carry, group.members)


@dataclass(frozen=True, eq=False)
class _Again(Round):
    task: _Task

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        own = next(v.value for v in values if type(v) is _Own)
        parts = {(v.direction, v.tile): v.state for v in values if type(v) is _Carry}
        tiles = self.task.tiles(key[0])
        carries = (
            join_states([parts.get((d, k)) for k in range(len(tiles))], tiles)
            for d in (FORWARD, BACKWARD)
        )
        return [("answers", key, (own, *carries))]
