"""Tables computed in one step from all rows of other tables.

The plan shows the bytes of this step in the worst case, and a census the bytes to expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.across.rounds.records import RecordRows, Records
from beam_volumes.across.rounds.tables import Columns, table_flow
from beam_volumes.base.text import format_bytes

#: The columns of all rows, by entry.
Given = Mapping[str, Sequence[np.ndarray]]


@dataclass(frozen=True, eq=False)
class GatheredStep(TableStep):
    """A step that needs all rows of its inputs; raises an error if they do not fit the memory."""

    gathered: ClassVar[str]  #: Name of the rows in messages.
    remedy: ClassVar[str] = ""  #: A remedy in addition to more memory.

    @property
    def used(self) -> Mapping[str, tuple[tuple[str, ...], int]]:
        """The columns that are used, and the bytes of a row, by entry."""
        raise NotImplementedError

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(self.used)

    @property
    def rows(self) -> RecordRows:
        """The type of the resulting rows."""
        raise NotImplementedError

    def gathered_bytes(self, rows: Sequence[int]) -> int:
        return sum(n * each for n, (_, each) in zip(rows, self.used.values(), strict=True))

    def taken(self, entry: str, shard: Columns) -> Sequence[np.ndarray]:
        """The used columns of a shard."""
        return [np.asarray(shard[name]) for name in self.used[entry][0]]

    def made(self, given: Given) -> Records:
        """Compute the rows, sorted."""
        raise NotImplementedError

    def flow(self, limit_bytes: int | None = None) -> Flow:
        width = 8 * len(self.rows.names)
        table = table_flow(self.rows, 1, limit_bytes=limit_bytes, row_bytes=width)
        first, *rest = table.rounds
        sent = (_Sent(entry, ("all",), self) for entry in self.entries)
        return Flow((*sent, _All("all", first.to, self, first, limit_bytes), *rest), table.ports)

    def no_rows(self) -> Columns:
        return self.rows.columns(self.rows.empty())


@dataclass(frozen=True, eq=False)
class _Sent(Round):
    """For a shard: send its columns to the one step."""

    of: GatheredStep

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        yield "all", (), ((self.name, *key), self.of.taken(self.name, values[0]))


@dataclass(frozen=True, eq=False)
class _All(Round):
    """Compute the rows from all rows of the inputs."""

    of: GatheredStep
    table: Round
    limit_bytes: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        of, parts = self.of, dict(values)
        need = sum(of.used[entry][1] * len(columns[0]) for (entry, *_), columns in parts.items())
        if self.limit_bytes is not None and need > self.limit_bytes:
            more = -(-(need - self.limit_bytes) >> 20)
            raise ValueError(
                f"{of.name}: all {of.gathered} are combined in one step, {format_bytes(need)}, "
                f"but a worker has {format_bytes(self.limit_bytes)}: increase memory= by {more} "
                f"MiB for each slab in flight{of.remedy}"
            )
        given = {}
        for entry, (names, _) in of.used.items():
            own = [columns for shard, columns in parts.items() if shard[0] == entry]
            nothing = [np.empty(0)] * len(names)
            given[entry] = list(map(np.concatenate, zip(*(own or [nothing]), strict=True)))
        yield from self.table.step((0,), [of.made(given)])
