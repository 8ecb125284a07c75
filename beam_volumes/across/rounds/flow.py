"""Keyed merges as data: rounds of messages grouped by key, the same on every runner.

Results of slabs are *messages*: an address, a key and a value. A *round* takes all messages to its
name under one key. It sends messages to later rounds, or to a *port* for results of the whole
`Flow`. The number of rounds is fixed when a flow is made, and a runner only has to group by key
between them. `run` does so in this process, and `beam_volumes.transforms.rounds` as steps of a
pipeline.

Rounds receive the values of a key in any order, and must accept duplicate messages: a value that
would count twice contains its sender.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

#: Plain Python ints: other types are not keys on every runner.
Key = tuple[int, ...]
#: The name of a round or port, a key, and a picklable value.
Message = tuple[str, Key, Any]


@dataclass(frozen=True, eq=False)
class Round:
    """One keyed step: a frozen dataclass of plain data with a `step`."""

    name: str  #: Its address.
    to: tuple[str, ...]  #: Names of the later rounds and ports that it sends to.

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        """Process all values under one key."""
        raise NotImplementedError


def only(values: Iterable[Any], kind: type) -> Any:
    """The only message of a type, which may have arrived twice; None without any."""
    return next((v for v in values if isinstance(v, kind)), None)


@dataclass(frozen=True, eq=False)
class Flow:
    """Rounds in order; the input of the first is one value for each key."""

    rounds: tuple[Round, ...]
    #: Names of results. Sessions use ``"answers"``, under the index of a slab the value for its
    #: second sweep; ``"numbers"``, under the key ``()`` dicts of numbers by name; ``"rows"``, under
    #: the key of a shard some rows of a table.
    ports: tuple[str, ...]

    def __post_init__(self) -> None:
        later = set(self.ports)
        for r in reversed(self.rounds):
            unknown = set(r.to) - later
            if unknown:
                raise ValueError(
                    f"round {r.name} sends to {sorted(unknown)}, which are not later rounds"
                )
            later.add(r.name)


class Box(list[tuple[Key, Any]]):
    """The messages to one round or port, as pairs of a key and a value."""

    def put(self, key: Key, value: Any) -> None:
        self.append((key, value))

    def load(self, value: Any) -> Any:
        """Return the value of an item."""
        return value

    def groups(self) -> Iterable[tuple[Key, list[Any]]]:
        """Items by key, sorted by key."""
        return group_by_key(self)


Group = Callable[[Box], Iterable[tuple[Key, list[Any]]]]


def group_by_key(pairs: Iterable[tuple[Key, Any]]) -> Iterable[tuple[Key, list[Any]]]:
    """Values by key, sorted by key."""
    groups: dict[Key, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return sorted(groups.items())


def run(
    flow: Flow,
    given: Iterable[tuple[Key, Any]],
    group: Group = methodcaller("groups"),
    make: Callable[[], Box] = Box,
) -> dict[str, Box]:
    """Run all rounds in this process; return the values of each port.

    ``make`` makes the boxes. The box of a round is dropped after the round.
    """
    boxes = {address: make() for address in (*(r.name for r in flow.rounds), *flow.ports)}
    boxes[flow.rounds[0].name] = given if isinstance(given, Box) else Box(given)
    del given  # it ends with its round
    for r in flow.rounds:
        box = boxes.pop(r.name)
        for key, values in group(box):
            for address, to, value in r.step(key, [box.load(value) for value in values]):
                boxes[address].put(to, value)
    return boxes


def single_round(flow: Flow) -> Flow:
    """Compute the same results in one round, for small inputs that are faster in one place.

    >>> class Parity(Round):
    ...     def step(self, key, values):
    ...         return [("sum", (key[0] % 2,), (key[0], values[0]))]
    >>> class Sum(Round):
    ...     def step(self, key, values):
    ...         return [("double", key, sum(dict(values).values()))]
    >>> class Double(Round):
    ...     def step(self, key, values):
    ...         return [("numbers", key, 2 * values[0])]
    >>> rounds = Parity("parity", ("sum",)), Sum("sum", ("double",)), Double("double", ("numbers",))
    >>> flow = single_round(Flow(rounds, ("numbers",)))
    >>> len(flow.rounds), run(flow, [((k,), 10 * k) for k in range(5)])
    (2, {'numbers': [((0,), 120), ((1,), 80)]})
    """
    if len(flow.rounds) < 3:
        return flow
    return Flow((_Gather("gather", ("all",)), _All("all", flow.ports, flow)), flow.ports)


@dataclass(frozen=True, eq=False)
class _Gather(Round):
    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        return [("all", (), (key, values[0]))]


@dataclass(frozen=True, eq=False)
class _All(Round):
    flow: Flow

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        given = dict(values)
        for port, messages in run(self.flow, given.items()).items():
            for to, value in messages:
                yield port, to, value
