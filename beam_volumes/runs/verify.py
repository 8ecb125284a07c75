"""Whether a finished run is complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from beam_volumes.runs.journal import Journal
from beam_volumes.runs.record import indices


def verify(
    journal: Journal,
    totals: Sequence[int],
    unit_exists: Callable[[str, int], bool] | None = None,
) -> list[str]:
    """Check that every slab is recorded and that every write unit is as its record says.

    Parameters
    ----------
    journal : Journal
        Of the run.
    totals : sequence of int
        Number of slabs of each pass.
    unit_exists : callable, optional
        Whether a write unit is in the store, by output and linear index. Without it the units are
        not looked at.

    Returns
    -------
    list of str
        What is wrong; empty if nothing is.
    """
    problems = []
    for k, total in enumerate(totals):
        for a, b in journal.missing(k, total):
            slabs = f"slab {a}" if b == a + 1 else f"slabs {a} to {b - 1}"
            problems.append(f"pass {k + 1}: {slabs} not finished")
        if unit_exists is None:
            continue
        for record in journal.records(k):
            for units, there in ((record.written, True), (record.empty, False)):
                for output, spans in units.items():
                    for unit in indices(spans):
                        if unit_exists(output, unit) != there:
                            found = "is missing" if there else "exists, but was left out as empty"
                            problems.append(
                                f"pass {k + 1}, slab {record.slab}: unit {unit} of {output} {found}"
                            )
    return problems
