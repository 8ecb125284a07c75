"""Rows of a table for given labels, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.across.rounds.tables import Columns, label_column


@dataclass(frozen=True, eq=False)
class Picked(TableStep):
    """Columns of a table for given labels: numbers by name, with a row for each label.

    Missing labels are NaN, or 0 in columns of integers.

    >>> from beam_volumes.across.rounds.flow import run
    >>> area = "size", ("area",), np.dtype("f8")
    >>> step = Picked("picked", np.array([7, 2, 7], "u8"), (area,))
    >>> rows = {"label": np.array([1, 7], "u8"), "area": np.array([4.0, 9.0])}
    >>> run(step.flow(), [((0,), rows)])["numbers"]
    [((), {'size': array([[ 9.],
           [nan],
           [ 9.]])})]
    """

    labels: np.ndarray  #: uint64.
    #: The name of each number, its columns, and their dtype.
    numbers: tuple[tuple[str, tuple[str, ...], np.dtype], ...]

    entries = ("rows",)

    def flow(self, limit_bytes: int | None = None, ordered: bool = True) -> Flow:
        rounds = (_Some("rows", ("all",), self), _All("all", ("numbers",), self))
        return Flow(rounds, ("numbers",))

    def empty_numbers(self) -> dict[str, Any]:
        return {
            name: np.full((len(self.labels), len(columns)), np.nan if d.kind == "f" else 0, d)
            for name, columns, d in self.numbers
        }

    def no_rows(self) -> Columns:
        return {}

    def most_rows(self, rows: Sequence[int]) -> int:
        return len(self.labels)

    def gathered_bytes(self, rows: Sequence[int]) -> int:
        return 3 * len(self.labels) * (1 + sum(len(c) for _, c, _ in self.numbers)) * 8


@dataclass(frozen=True, eq=False)
class _Some(Round):
    """For a shard of the table: the rows of given labels in it."""

    of: Picked

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        known = label_column(values[0], "label", self.of.name)
        at = np.minimum(np.searchsorted(known, self.of.labels), max(0, len(known) - 1))
        rows = np.flatnonzero(known[at] == self.of.labels) if len(known) else at[:0]
        found = {
            name: np.stack([np.asarray(values[0][c])[at[rows]] for c in columns], axis=1)
            for name, columns, _ in self.of.numbers
        }
        yield "all", (), (key, (rows, found))


@dataclass(frozen=True, eq=False)
class _All(Round):
    """The rows of all shards."""

    of: Picked

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        picked = self.of.empty_numbers()
        for rows, found in dict(values).values():
            for name, array in found.items():
                picked[name][rows] = array
        yield "numbers", (), picked
