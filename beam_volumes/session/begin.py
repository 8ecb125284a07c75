"""Begin a run: choose its journal, and check that it may write its outputs."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from beam_volumes.base.nesting import check_not_nested
from beam_volumes.plan.cut.in_place import check_hidden_inputs, check_in_place
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.runs.journal import ENDED, PREPARED, Journal
from beam_volumes.session.identity import (
    Request,
    journal_place,
    scratch_of,
    stamps_of,
    with_scratch,
)
from beam_volumes.session.provenance import about
from beam_volumes.session.resume import asked_again
from beam_volumes.session.session import Session
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.storage.places.place import is_local, join, kvstore_spec

_AS_USUAL = RunOptions()


def begin(
    plan: Plan,
    options: RunOptions = _AS_USUAL,
    *,
    request: Request | None = None,
    scratch: Any = None,
    recipe: Any = None,
) -> Session:
    """Begin a run, or continue it with ``resume``; nothing is written yet.

    ``recipe`` is the source of the plan as plain data, for the provenance of the outputs.
    """
    # A run without a journal stores its intermediate results in ``scratch``, by default on this machine.
    check_not_nested()
    place = journal_place(plan, options.journal)
    if options.journal is not None and place is not None:
        # All channels of an output have the same place.
        outputs = {repr(sink.extents): sink for sink in plan.outputs}
        check_in_place(plan.inputs, list(outputs.values()), [place])
    if options.resume and place is not None:
        session = asked_again(plan, place, options.run_id, request)
        if session is not None:
            return replace(session, max_retries=options.max_retries)
    if options.overwrite:
        check_hidden_inputs(plan.inputs, plan.outputs)
    there = {sink.name: sink.begun_run() for sink in plan.outputs}
    places = list({repr(sink.extents): sink for sink in plan.outputs}.values())
    clears = options.overwrite and any(sink.has_many_objects() for sink in places)
    for sink in plan.outputs:
        if not options.overwrite and sink.exists():
            raise OutputExistsError(
                f"the output {sink.name} exists: pass overwrite=True to replace it, resume=True to "
                "continue the run that began it, or choose another path"
            )
    for sink in places:
        if (
            is_local(sink.kvstore) and sink.exists()
        ):  # before the journal of the old run is replaced
            sink.check_replaceable()
    run_id = options.run_id or uuid.uuid4().hex
    if place is None:
        if scratch is not None:
            where = f"beam-volumes-{run_id}-intermediate"
            plan = with_scratch(plan, join(kvstore_spec(scratch), where))
        session = Session(
            plan, run_id, None, options.overwrite, request, replaces=there, inputs=stamps_of(plan)
        )
        return replace(session, max_retries=options.max_retries, clears=clears)
    # A pass of one slab in this process needs no note of the slabs in flight.
    is_small = (
        request is not None and not request.beam and all(len(p.grid) < 2 for p in plan.passes)
    )
    journal = Journal(join(place, directory=True), run_id, attempts=not is_small)
    there[journal.url] = check_replaceable(journal, plan.outputs, options.overwrite)
    clears = clears or bool(journal.large_journals())
    made_of = about(plan, recipe) if plan.outputs else {}
    plan = with_scratch(plan, scratch_of(journal))
    return Session(
        plan,
        run_id,
        journal,
        options.overwrite,
        request,
        about=made_of,
        max_retries=options.max_retries,
        replaces=there,
        clears=clears,
    )


def check_replaceable(journal: Journal, outputs: Sequence[Any], overwrite: bool) -> str | None:
    """Return the id of the run in a journal if another run with these outputs may replace it.

    Raises OutputExistsError: it has not ended, or must not be overwritten.
    """
    try:
        manifest = Journal.load(journal.spec)
    except ValueError:
        if overwrite:
            return journal.now()
        raise
    if manifest is None or manifest.run_id == journal.run_id:
        return None if manifest is None else manifest.run_id
    now, other = manifest.run_id, Journal(journal.spec, manifest.run_id)
    writes = [_reopened(o) for o in manifest.outputs if not o["internal"]]
    names = [sink.name for sink in writes]
    if other.marked(PREPARED) and names and all(sink.begun_run() != now for sink in writes):
        return now  # its outputs were deleted
    ended = other.marked(ENDED)
    if ended and not names:
        return now  # it returned numbers, which are gone
    same = bool({_where(s) for s in outputs} & {*map(_where, writes)}) or not (outputs or names)
    if overwrite and (ended or same):
        return now
    wrote = f"{', '.join(names[:3])}{', ...' if names[3:] else ''}" if names else "numbers alone"
    remedy = "resume=True continues it, overwrite=True replaces it"
    if not same:
        also = "overwrite=True replaces it" if ended else "continue that run, or remove the folder"
        remedy = f"give this run its own journal=; otherwise {also}"
    raise OutputExistsError(
        f"{journal.url} is the journal of the run {now}, which "
        f"{'has ended' if ended else 'is unfinished'} (it writes {wrote}): {remedy}"
    )


def _where(sink: Any) -> str:
    """The place of an output, with links resolved."""
    return os.path.realpath(sink.name) if is_local(sink.kvstore) else str(sink.name)


def _reopened(output: Mapping[str, Any]) -> Sink | TableSink:
    return Sink.from_dict(output) if "shape" in output else TableSink.from_dict(output)
