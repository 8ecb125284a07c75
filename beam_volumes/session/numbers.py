"""Numbers too large for elements: they stay in the journal, and elements name their pass."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import Value, values_below
from beam_volumes.runs.journal import Journal

#: Maximum bytes of numbers in an element.
MAXIMUM = 1 << 20


@dataclass(frozen=True)
class InJournal:
    """A placeholder for a number in the journal, with its pass."""

    pass_index: int


def by_name(before: dict[str, Any], known: dict[str, Any], pass_index: int) -> dict[str, Any]:
    """The numbers known after a pass; if they are too large, placeholders for the largest new ones.

    Numbers from ``before`` the pass are kept: they were checked then.
    """
    total = sum(map(_size, before.values()))
    light = dict(known)
    for token in sorted(known.keys() - before.keys(), key=lambda t: (_size(known[t]), t)):
        total += _size(known[token])
        if total > MAXIMUM:
            light[token] = InJournal(pass_index)
    return light


def _size(number: Any) -> int:
    return (
        number.nbytes if isinstance(number, np.ndarray) else len(pickle.dumps(number, protocol=5))
    )


def resolve_numbers(
    known: dict[str, Any], values: Iterable[Value], journal: Journal | None
) -> dict[str, Any]:
    """Copy known numbers, and read those that some values depend on from the journal."""
    near = dict(known)
    passes: dict[int, list[str]] = {}
    for v in values_below(values):
        if isinstance(number := near.get(v.token), InJournal):
            passes.setdefault(number.pass_index, []).append(v.token)
    for index, tokens in passes.items():
        near |= {token: numbers_of(journal, index)[token] for token in tokens}
    return near


def numbers_of(journal: Journal | None, pass_index: int) -> dict[str, Any]:
    """Read the numbers of a finished pass; Superseded if another run has taken over the journal."""
    assert journal is not None, "placeholders need a journal"
    found = journal.read_scalars(pass_index)
    if found is None:
        journal.check()  # a run that takes over deletes them
        raise OSError(
            f"the numbers of pass {pass_index + 1} are not in {journal.url}: remote workers need "
            "a place that they and this machine can access; give journal=, or temp_location in "
            "options"
        )
    return found
