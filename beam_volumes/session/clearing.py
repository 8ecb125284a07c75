"""Delete the objects of replaced outputs that the run does not replace, in parts.

`Session.prepare` comes first. Parts may be repeated, also late: a run never writes an object that
has one of their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

from beam_volumes.plan.cost.machine import cores
from beam_volumes.session.session import Session
from beam_volumes.storage.places.ownership import OwnedOutput


def count(session: Session) -> int:
    """Return the number of parts of all outputs."""
    return sum(output.parts_left(session.run_id) for output in _outputs(session))


def delete(session: Session, k: int) -> None:
    """Delete a part, by its number among all."""
    for output in _outputs(session):
        parts = output.parts_left(session.run_id)
        if k < parts:
            output.delete_part(session.run_id, k)
            return
        k -= parts


def end(session: Session) -> None:
    """Note in the outputs that all parts are deleted."""
    for output in _outputs(session):
        output.note_deleted(session.run_id)


def by_threads(session: Session) -> None:
    """Delete all parts in threads of this process."""
    with ThreadPoolExecutor(cores(), thread_name_prefix="delete") as pool:
        left = iter(range(count(session)))
        while some := list(islice(left, 16 * cores())):
            for _ in pool.map(partial(delete, session), some):
                pass
    end(session)


def _outputs(session: Session) -> Iterator[OwnedOutput]:
    """Return each place once."""
    yield from {repr(sink.extents): sink for sink in session.plan.outputs}.values()
