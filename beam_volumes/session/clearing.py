"""Delete many objects in parts: of replaced outputs and journals, and of intermediate results.

Objects of a replaced output that the run does not replace are deleted after `Session.prepare`. Parts
may be repeated, also late: a run never writes an object that has one of their names. Intermediate
results are deleted after the last pass, and `Session.end` removes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice

from beam_volumes.plan.cost.machine import cores
from beam_volumes.session.session import Session
from beam_volumes.storage.inputs.arrays import ArraySink
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.ownership import MAX_AT_ONCE, OwnedOutput
from beam_volumes.storage.places.place import Place


def count(session: Session) -> int:
    """Return the number of parts of the journal and of all outputs."""
    return sum(parts for parts, _ in _parts(session))


def delete(session: Session, k: int) -> None:
    """Delete a part, by its number among all."""
    for parts, delete_part in _parts(session):
        if k < parts:
            delete_part(k)
            return
        k -= parts


def _parts(session: Session) -> Iterator[tuple[int, Callable[[int], None]]]:
    """Return the number of parts of each place, and what deletes one."""
    if session.journal is not None:
        yield session.journal.parts_left(), session.journal.delete_part
    for output in _outputs(session):
        yield output.parts_left(session.run_id), partial(output.delete_part, session.run_id)


def end(session: Session) -> None:
    """Note in the journal and in the outputs that all parts are deleted."""
    if session.journal is not None:
        session.journal.note_deleted()
    for output in _outputs(session):
        output.note_deleted(session.run_id)


def scratch_count(session: Session) -> int:
    """Return the number of parts of intermediate results; 0 if they are few, or not in parts."""
    units = sum(sink.unit_count for sink in _scratch(session))
    return sum(len(sink.own_parts()) for sink in _scratch(session)) if units > MAX_AT_ONCE else 0


def delete_scratch(session: Session, k: int) -> None:
    """Delete a part of the intermediate results, by its number among all."""
    for sink in _scratch(session):
        parts = sink.own_parts()
        if k < len(parts):
            Place(sink.home).delete_while(parts.names(k), lambda: True)
            return
        k -= len(parts)


def _scratch(session: Session) -> Iterator[Sink]:
    """Return the stored intermediate results that the driver does not read."""
    plan = session.plan
    for sink in plan.intermediates:
        is_stored = isinstance(sink, Sink) and not isinstance(sink, ArraySink)
        if is_stored and sink not in plan.results:
            yield sink


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
