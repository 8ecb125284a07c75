"""Keyed merges as data: rounds in which messages meet by key, the same on every runner.

What slabs found out travels as *messages*: an address, a key and a value. A *round* takes all
messages that were sent to its name under one key and sends messages to rounds after it, or to a
*port*, where the results of the whole `Flow` come out. How many rounds there are is fixed when a flow
is made; a runner needs nothing but to group by key between them. `run` does so in this process, and
`beam_volumes.transforms.rounds` as steps of a pipeline.

Rounds see the values of a key in any order, and must not mind a message that comes twice: a value
that would count twice says who sent it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

#: Of plain Python ints: other kinds do not make keys on every runner.
Key = tuple[int, ...]
#: The name of a round or port, a key, and something picklable.
Message = tuple[str, Key, Any]


@dataclass(frozen=True, eq=False)
class Round:
    """One keyed step: a frozen dataclass of plain data with a `step`."""

    name: str  #: Its address.
    to: tuple[str, ...]  #: Names of the later rounds and ports it may send to.

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        """What follows from all values sent here under one key."""
        raise NotImplementedError


def only(values: Iterable[Any], kind: type) -> Any:
    """The one message of a kind, which may have come twice; None without any."""
    return next((v for v in values if isinstance(v, kind)), None)


@dataclass(frozen=True, eq=False)
class Flow:
    """Rounds in order; the first is given one value for each key to begin with."""

    rounds: tuple[Round, ...]
    #: Where results come out. Those that sessions know: ``"answers"``, under the key of a slab (its
    #: index) what its second sweep needs, one value each; ``"numbers"``, under the key ``()`` dicts
    #: of numbers by name; ``"rows"``, under the key of a shard some rows of a table.
    ports: tuple[str, ...]

    def __post_init__(self) -> None:
        later = set(self.ports)
        for r in reversed(self.rounds):
            unknown = set(r.to) - later
            if unknown:
                raise ValueError(f"round {r.name} sends to {sorted(unknown)}, which do not follow")
            later.add(r.name)


Group = Callable[[list[tuple[Key, Any]]], Iterable[tuple[Key, list[Any]]]]


def group_by_key(pairs: list[tuple[Key, Any]]) -> Iterable[tuple[Key, list[Any]]]:
    """Values by key, keys in order."""
    groups: dict[Key, list[Any]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return sorted(groups.items())


def run(
    flow: Flow,
    given: Iterable[tuple[Key, Any]],
    group: Group = group_by_key,
    keep: Callable[[Any], Any] = lambda value: value,
) -> dict[str, list[tuple[Key, Any]]]:
    """All rounds in this process: what came out at each port.

    What ``keep`` makes of a value waits for the next round; ``group`` has to turn it back.
    """
    boxes: dict[str, list[tuple[Key, Any]]] = {r.name: [] for r in flow.rounds}
    boxes |= {port: [] for port in flow.ports}
    boxes[flow.rounds[0].name] = list(given)
    for r in flow.rounds:
        for key, values in group(boxes.pop(r.name)):
            for address, to, value in r.step(key, values):
                boxes[address].append((to, keep(value)))
    return boxes


def single_round(flow: Flow) -> Flow:
    """The same results from all that is given in one place: for few, when each round costs more than it does.

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
