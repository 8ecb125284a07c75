"""Tables computed from tables: flows appended to each other, so one merge does everything.

A `TableStep` processes the rows of tables, or messages of slabs, by keyed rounds. `chained` appends
its rounds to those that make its inputs. Rows from the port ``"rows"`` of a flow go to the *entry*
of the next one, a round, under the same key; nothing is sent twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.across.rounds.records import RecordRows
from beam_volumes.across.rounds.tables import Columns
from beam_volumes.base.geometry import Triple
from beam_volumes.sweep.stage import PlainData


@dataclass(frozen=True, eq=False)
class TableStep(PlainData):
    """A result made of tables: a frozen dataclass of plain data with these methods."""

    name: str  #: Its name in plans and messages.
    #: Whether shards of its inputs may have any rows, in any order.
    takes_any_order: ClassVar[bool] = False

    @property
    def entries(self) -> tuple[str, ...]:
        """For each input, the round of `flow` for its rows: columns of a shard, under any key."""
        raise NotImplementedError

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        """Its rounds. All values under one key of an entry are equal.

        ``ordered``: the resulting shards are ranges of the sorted table, and not any parts of it.
        """
        raise NotImplementedError

    def sized(self, rows: Sequence[int], limit_bytes: int | None) -> TableStep:
        """The same step, with as many rounds as the expected rows of each input need."""
        return self

    @property
    def rows(self) -> RecordRows:
        """The type of the rows of the port ``"rows"``."""
        raise NotImplementedError

    def no_rows(self) -> Columns:
        """The columns of the port ``"rows"`` without rows."""
        return self.rows.columns(self.rows.empty())

    def most_rows(self, rows: Sequence[int]) -> int:
        """The maximum number of its rows, given the rows of each input."""
        return sum(rows)

    def likely_rows(self, rows: Sequence[int]) -> int:
        """The expected number of its rows, given the expected rows of each input."""
        return self.most_rows(rows)

    def gathered_bytes(self, rows: Sequence[int]) -> int:
        """Bytes of a round that needs all rows; 0 if rounds only need a part of them."""
        return 0

    def likely_bytes(self, rows: Sequence[int], shape: Triple) -> int:
        """Expected bytes of the largest round, for rows of a volume of this shape."""
        return self.gathered_bytes(rows)

    def most_bytes(self, rows: Sequence[int]) -> int:
        """Maximum bytes of a round, for any rows."""
        return self.gathered_bytes(rows)

    def empty_numbers(self) -> dict[str, Any]:
        """The numbers of a volume without voxels, by name."""
        return {"shards": 1}


@dataclass(frozen=True, eq=False)
class Within(Round):
    """A round of an embedded flow: its messages go to ``names``, or nowhere."""

    inner: Round
    names: Mapping[str, tuple[str, ...]]

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        for address, to, value in self.inner.step(key, values):
            for name in self.names.get(address, ()):
                yield name, to, value


@dataclass(frozen=True, eq=False)
class _Begin(Round):
    """For a slab: pass the summary of each source to the first round of its flow."""

    firsts: tuple[Round, ...]

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        for first, summary in zip(self.firsts, values[0], strict=True):
            yield from first.step(key, [summary])


def chained(
    sources: Sequence[Flow],
    steps: Sequence[tuple[TableStep, Sequence[int]]],
    limit_bytes: int | None,
) -> Flow:
    """The flow of the last step; its input under ``(slab,)`` is a tuple with a summary for each source.

    Inputs of ``steps`` are numbers of sources, then of earlier steps, counted from the number of sources on.
    """
    wanted: dict[int, list[str]] = {}
    ordered = {len(sources) + len(steps) - 1}
    for k, (step, inputs) in enumerate(steps, len(sources)):
        for number, entry in zip(inputs, step.entries, strict=True):
            wanted.setdefault(number, []).append(f"{k}.{entry}")
        if not step.takes_any_order:
            ordered.update(inputs)
    own = (step.flow(limit_bytes, k in ordered) for k, (step, _) in enumerate(steps, len(sources)))
    flows = [*sources, *own]
    last = len(flows) - 1
    rounds, firsts = [], []
    for k, flow in enumerate(flows):
        names: dict[str, tuple[str, ...]] = {r.name: (f"{k}.{r.name}",) for r in flow.rounds}
        if k == last:
            names |= {port: (port,) for port in flow.ports}
        else:
            names["rows"] = tuple(wanted[k])
        within = [
            Within(names[r.name][0], tuple(n for to in r.to for n in names.get(to, ())), r, names)
            for r in flow.rounds
        ]
        if k < len(sources):
            firsts.append(within.pop(0))
        rounds += within
    to = tuple(dict.fromkeys(address for first in firsts for address in first.to))
    return Flow((_Begin("slabs", to, tuple(firsts)), *rounds), flows[-1].ports)


@dataclass(frozen=True, eq=False)
class Through(Round):
    """Pass messages of slabs to a table step unchanged."""

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "rows", key, values[0]


def through() -> Flow:
    """The flow of a source with summaries that a step uses instead of rows."""
    return Flow((Through("slabs", ("rows",)),), ("rows",))


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A stored table in parts: a frozen dataclass of plain data with `parts` and `read`."""

    names: tuple[tuple[str, str], ...]  #: Names and dtypes of its columns.

    @property
    def extents(self) -> tuple[Any, ...]:
        """The location (`beam_volumes.storage.places.extent`), if it is stored."""
        return ()

    @property
    def operand(self) -> str:
        """Its name in messages: its place, if it has one."""
        raise NotImplementedError

    @property
    def rows(self) -> int:
        """The number of rows."""
        raise NotImplementedError

    def parts(self) -> Sequence[Key]:
        raise NotImplementedError

    def read(self, part: Key) -> Columns:
        raise NotImplementedError

    def token(self) -> str:
        """A digest of its content, the same in every process."""
        raise NotImplementedError

    def token_now(self) -> str:
        """The digest of the current content of its place."""
        return self.token()


@dataclass(frozen=True, eq=False)
class _Parts(Round):
    """For the first slab: request all parts of the table."""

    table: StoredTable

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        if key == (0,):
            for part in self.table.parts():
                yield "read", part, None


@dataclass(frozen=True, eq=False)
class _Read(Round):
    """For a part of a table: its rows."""

    table: StoredTable

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "rows", key, self.table.read(key)


def stored_flow(table: StoredTable) -> Flow:
    """The rows of a stored table, independent of slabs."""
    return Flow((_Parts("slabs", ("read",), table), _Read("read", ("rows",), table)), ("rows",))
