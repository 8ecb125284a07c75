"""Advice on outputs of so many objects that requests take longer, and cost more, than machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beam_volumes.plan.cost.stores import STORES, Store
from beam_volumes.plan.cost.traffic import units_written
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.storage.outputs.sink import Sink

#: Outputs with more objects get advice.
MANY = 10**8
#: Bytes of the shards that are compared with.
_SHARD_BYTES = 64 << 20


def many_objects(passes: Sequence[Pass], store: Store = STORES["s3"]) -> Iterator[str]:
    """For each output with more than `MANY` objects: what writing them costs, and what shards would save."""
    sinks: dict[str, Sink] = {}
    counts: dict[str, int] = {}
    for p in passes:
        for output, (units, _) in zip(p.program.outputs, units_written(p.program), strict=True):
            sink = output.sink
            if not sink.is_file:
                sinks[sink.name] = sink
                counts[sink.name] = counts.get(sink.name, 0) + units
    for name, count in counts.items():
        if count > MANY:
            yield _advice(sinks[name], count, store)


def _advice(sink: Sink, count: int, store: Store) -> str:
    fewer = max(1, count // max(2, _SHARD_BYTES // sink.unit_bytes))
    has_shards = "shards" in sink.writer.options and sink.options.get("zarr_version") != 2
    if sink.shard is not None or not has_shards:
        remedy = "larger units" if has_shards else "larger chunks, or a format with shards,"
    else:
        remedy = "shards=True"
    hours, less = (store.seconds(0, n) / 3600 for n in (count, fewer))
    return (
        f"{sink.name} has {count:.2g} objects of {sink.unit_bytes / 1024:,.0f} KiB, which takes at least "
        f"{hours:,.1f} hours and ${store.cost(0, count):,.0f} of requests in {store.name}; {remedy} would "
        f"write {fewer:.2g} of 64 MiB in {less:,.1f} hours, and save "
        f"${store.cost(0, count - fewer):,.0f}"
    )
