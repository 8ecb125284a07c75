"""Whether workers can open what a plan reads and writes: in other processes, or on other machines."""

from __future__ import annotations

from typing import Any

from beam_volumes.base.text import format_bytes
from beam_volumes.plan.plan import Plan
from beam_volumes.session.identity import journal_place
from beam_volumes.storage.inputs.arrays import ArrayReader
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.place import is_local, kvstore_spec, url


def check_portable(planned: Plan, journal: Any = None) -> None:
    """Refuse what other processes cannot open; ``journal`` is where the user wants it, if they say so."""
    if journal is not None and kvstore_spec(journal).get("driver") == "memory":
        raise ValueError(
            f"the journal {journal} is memory of this process; use a path or runner=None"
        )
    for p in planned.swept:
        for step in p.program.steps:
            if step.source is not None and not step.source.portable:
                raise ValueError(
                    f"{step.source.name} lives in this process ({format_bytes(step.source.nbytes)}): "
                    "a pipeline's workers cannot read it; use runner=None, or write it to a .zarr first"
                )
    for p in planned.passes:
        sinks: list[Sink | TableSink] = [output.sink for output in p.program.outputs]
        if p is planned.passes[0]:
            sinks += [s for some in planned.tables.values() for s in some]
        for sink in sinks:
            if not sink.portable:
                raise ValueError(
                    f"{sink.name} is memory of this process; use runner=None or a path"
                )


def check_scratch(plan: Plan, journal: Any, scratch: Any, workers: str) -> None:
    """Refuse to keep on this machine what workers that may be elsewhere store for the run.

    Parameters
    ----------
    plan : Plan
    journal, scratch
        Where the user wants the journal, and where a run without one may store what is its own.
    workers : str
        How messages call the workers.
    """
    if plan.scratch_place is None or journal_place(plan, journal) is not None or scratch:
        return
    raise ValueError(
        f"results between passes, or without a path, would be stored on this machine, and {workers} "
        "may be on others: write the results with .to(path), or give journal=, a folder that all of them "
        "share, such as a bucket (bv.compute also takes temp_location in options)"
    )


def check_remote(plan: Plan, journal: Any, runner: str, scratch: Any = None) -> None:
    """Refuse local paths for a runner whose workers are never on this machine."""
    book = journal_place(plan, journal)
    steps = [s for p in plan.swept for s in p.program.steps]
    own = {sink.name for sink in plan.sinks}
    sources = [s.source.stored for s in steps if s.source is not None and s.source.name not in own]
    # Small arrays travel with the plan.
    here = [
        f"the input {source.name}"
        for source in sources
        if not source.reader.remote and not isinstance(source.reader, ArrayReader)
    ]
    here += [f"the output {sink.name}" for sink in plan.outputs if is_local(sink.kvstore)]
    if book is not None and is_local(book):
        here.append(f"the journal {url(book)}")
    if plan.scratch_place is not None:
        root = book or (kvstore_spec(scratch) if scratch else plan.scratch_place)
        if is_local(root):
            here.append(f"the place of results between passes or without a path, {url(root)},")
    if here:
        raise ValueError(
            f"{here[0]} is on this machine, where {runner} has no workers; use a bucket, gs:// or s3://"
        )
