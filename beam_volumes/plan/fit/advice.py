"""Advice on outputs and slabs: slabs that cost less than the given ones, and shards for many objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Protocol

from beam_volumes.base.geometry import Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.plan.cost.stores import STORES, Store
from beam_volumes.plan.cost.traffic import units_written
from beam_volumes.plan.fit.partitioning import write_grid
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.storage.outputs.sink import Sink

#: Outputs with more objects get advice.
MANY = 10**8
#: Bytes of the shards in the advice.
_SHARD_BYTES = 64 << 20


class CutPlan(Protocol):
    """The attributes of a plan that are used here."""

    @property
    def passes(self) -> tuple[Pass, ...]: ...
    @property
    def slab(self) -> tuple[int, ...] | None: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_written(self) -> int: ...


#: Plans with other slabs, or with the planner's own (None); None if they do not fit the memory.
Replan = Callable[[Sequence[int] | None], CutPlan | None]
#: Other slabs are suggested if they move this factor less; factors up to the second count as equal.
_LESS, _EQUAL = 1.5, 1.25


def badly_cut(plan: CutPlan, replan: Replan) -> list[str]:
    """Describe why the user's slabs need more I/O than others would, and suggest better ones."""
    if plan.slab is None:
        return []
    better = _better(plan, replan)
    if better is None:
        return []
    lines = [line for p in plan.passes for line in _cut_through(p)]
    if len(plan.passes) > len(better.passes):
        lines.append(
            f"the slabs need {len(plan.passes)} passes instead of {len(better.passes)}: they divide "
            "planes, so operations on whole planes are stored and read again by rows and columns"
        )
    which = "without slab= it" if better.slab is None else f"slab={better.slab}"
    read, written = (
        f"{format_bytes(new)} instead of {format_bytes(old)}"
        for new, old in (
            (better.bytes_read, plan.bytes_read),
            (better.bytes_written, plan.bytes_written),
        )
    )
    text = f"{which} would read {read}"
    if better.bytes_written != plan.bytes_written:
        text += f" and write {written}"
    return [*lines, text]


def _moved(plan: CutPlan) -> int:
    return plan.bytes_read + plan.bytes_written


def _cut_through(p: Pass) -> Iterator[str]:
    """The chunks that a pass reads more often than needed."""
    sources = {s.source.name: s.source for s in p.program.steps if s.source is not None}
    for r in p.reads:
        if sources[r.name].in_memory or r.bytes < _LESS * r.bytes_needed:
            continue
        yield (
            f"pass {p.index + 1} reads {r.name} {r.bytes / r.bytes_needed:.1f} times: its slabs of "
            f"{_text(p.grid.step)}, with halos, cut through chunks of {_text(sources[r.name].chunk)}"
        )


def _text(shape: Triple) -> str:
    return " x ".join(map(str, shape))


def _better(plan: CutPlan, replan: Replan) -> CutPlan | None:
    """The plan with the smallest slabs of those with the minimum I/O; None if they save little.

    Plans that do not fit the memory are not considered.
    """
    plans = [other for other in map(replan, (*_candidates(plan), None)) if other is not None]
    minimum = min(map(_moved, plans), default=0)
    if not plans or _moved(plan) <= _LESS * minimum:
        return None
    return min(
        (p for p in plans if _moved(p) <= _EQUAL * minimum),
        key=lambda p: math.inf if p.slab is None else math.prod(p.slab),
    )


def _candidates(plan: CutPlan) -> list[tuple[int, ...]]:
    """The user's slab, extended along some axes to whole chunks or the whole volume."""
    assert plan.slab is not None
    largest = max(plan.passes, key=lambda p: p.voxels)
    shape, step = largest.program.shape, largest.grid.step
    unit = write_grid([largest.program])
    asked = (1,) * (3 - len(plan.slab)) + plan.slab
    chunks = [s.source.chunk for s in largest.program.steps if s.source is not None]
    options = []
    for axis, n in enumerate(shape):
        own = min(asked[axis], max(1, n), step[axis])
        layer = math.lcm(unit[axis], *(c[axis] for c in chunks if c[axis] < n))
        if any(c[axis] >= n for c in chunks):
            layer = n
        options.append(sorted({own, min(n, -(-own // layer) * layer), n}))
    found = (slab[3 - len(plan.slab) :] for slab in product(*options))
    return [slab for slab in dict.fromkeys(found) if slab != plan.slab]


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
    if sink.scratch:  # it follows the units of the outputs
        remedy = "outputs with larger shards="
    elif sink.shard is not None or not has_shards:
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
