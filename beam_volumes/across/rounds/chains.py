"""Tables that rest on tables: flows put behind one another, so that one merge does all.

A `TableStep` takes the rows of tables, or what slabs tell, by keyed rounds. `chained` puts its rounds behind
those that make its inputs. What comes out of a flow at its port ``"rows"`` goes to the consumer's *entry*,
a round, under the key that it had; nothing comes out twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.across.rounds.tables import Columns
from beam_volumes.sweep.stage import PlainData


@dataclass(frozen=True, eq=False)
class TableStep(PlainData):
    """What is made of tables: a frozen dataclass of plain data beside the functions below."""

    name: str  #: What plans and messages call it.

    @property
    def entries(self) -> tuple[str, ...]:
        """For each input, the round of `flow` that its rows go to: columns of a shard, under any key."""
        raise NotImplementedError

    def flow(self, limit_bytes: int | None = None) -> Flow:
        """Its rounds. Values that come under one key of an entry are equal."""
        raise NotImplementedError

    def no_rows(self) -> Columns:
        """The columns of what comes out at the port ``"rows"``, without rows."""
        raise NotImplementedError

    def most_rows(self, rows: Sequence[int]) -> int:
        """How many rows it makes at most, of so many rows of each input."""
        return sum(rows)

    def gathered_bytes(self, rows: Sequence[int]) -> int:
        """What one of its rounds holds whatever the rows are: 0 if a round takes in but a part of them."""
        return 0

    def empty_numbers(self) -> dict[str, Any]:
        """The numbers of a volume without voxels, by name."""
        return {"shards": 1}


@dataclass(frozen=True, eq=False)
class Within(Round):
    """A round of a flow that is a part of another: what it sends goes where ``names`` says, or nowhere."""

    inner: Round
    names: Mapping[str, tuple[str, ...]]

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        for address, to, value in self.inner.step(key, values):
            for name in self.names.get(address, ()):
                yield name, to, value


@dataclass(frozen=True, eq=False)
class _Begin(Round):
    """Under a slab: what each source tells of it, through the first round of its flow."""

    firsts: tuple[Round, ...]

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        for first, summary in zip(self.firsts, values[0], strict=True):
            yield from first.step(key, [summary])


def chained(
    sources: Sequence[Flow],
    steps: Sequence[tuple[TableStep, Sequence[int]]],
    limit_bytes: int | None,
) -> Flow:
    """The flow of the last step.

    Given under ``(slab,)`` a tuple with a summary for each source.

    ``sources``: their first rounds are given summaries.
    ``steps``, sequence of (TableStep, inputs): in order. An input is the number of a source, or that of
    an earlier step plus the number of sources.
    """
    flows = [*sources, *(step.flow(limit_bytes) for step, _ in steps)]
    wanted: dict[int, list[str]] = {}
    for k, (step, inputs) in enumerate(steps, len(sources)):
        for number, entry in zip(inputs, step.entries, strict=True):
            wanted.setdefault(number, []).append(f"{k}.{entry}")
    last = len(flows) - 1
    rounds, firsts = [], []
    for k, flow in enumerate(flows):
        names: dict[str, tuple[str, ...]] = {r.name: (f"{k}.{r.name}",) for r in flow.rounds}
        if k == last:
            names |= {port: (port,) for port in flow.ports}
        else:
            names["rows"] = tuple(wanted[k])
        own = [
            Within(names[r.name][0], tuple(n for to in r.to for n in names.get(to, ())), r, names)
            for r in flow.rounds
        ]
        if k < len(sources):
            firsts.append(own.pop(0))
        rounds += own
    to = tuple(dict.fromkeys(address for first in firsts for address in first.to))
    return Flow((_Begin("slabs", to, tuple(firsts)), *rounds), flows[-1].ports)


@dataclass(frozen=True, eq=False)
class Through(Round):
    """What slabs tell, on to a table step as it is."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "rows", key, values[0]


def through() -> Flow:
    """The flow of a source whose summaries, not rows, a step takes."""
    return Flow((Through("slabs", ("rows",)),), ("rows",))


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A table that is there already, in parts: a frozen dataclass of plain data with `parts` and `read`."""

    names: tuple[tuple[str, str], ...]  #: Names of its columns, and their dtypes.

    @property
    def extents(self) -> tuple[Any, ...]:
        """Where it is stored (of `beam_volumes.storage.places.extent`), if it is."""
        return ()

    @property
    def operand(self) -> str:
        """What it is called: its place, if it has one."""
        raise NotImplementedError

    @property
    def rows(self) -> int:
        """How many rows it has."""
        raise NotImplementedError

    def parts(self) -> Sequence[Key]:
        raise NotImplementedError

    def read(self, part: Key) -> Columns:
        raise NotImplementedError

    def token(self) -> str:
        """A digest of what it holds, the same in every process."""
        raise NotImplementedError

    def token_now(self) -> str:
        """The same of what lies at its place now."""
        return self.token()


@dataclass(frozen=True, eq=False)
class _Parts(Round):
    """Under a slab: of the first, that the table is read."""

    table: StoredTable

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        if key == (0,):
            for part in self.table.parts():
                yield "read", part, None


@dataclass(frozen=True, eq=False)
class _Read(Round):
    """Under a part of a table: its rows."""

    table: StoredTable

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "rows", key, self.table.read(key)


def stored_flow(table: StoredTable) -> Flow:
    """The rows of a table that is there, whatever slabs tell."""
    return Flow((_Parts("slabs", ("read",), table), _Read("read", ("rows",), table)), ("rows",))
