"""Advice on requests: remedies for refused ones, cheaper slabs, and shards for many objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol

from beam_volumes.base.geometry import Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.volume import Target
from beam_volumes.plan.cost.stores import STORES, Store
from beam_volumes.plan.cost.traffic import units_written
from beam_volumes.plan.fit.partitioning import write_grid
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.storage.outputs.sink import Sink

#: Outputs with more objects get advice.
MANY = 10**8
#: Bytes of the shards in the advice.
_SHARD_BYTES = 64 << 20


#: Write units of an output are not made smaller than this to fit a memory.
_UNIT_BYTES = 64 << 10


@dataclass(frozen=True)
class Remedy:
    """A change of a refused request: of options of the run, or of options of `Volume.to`."""

    options: Mapping[str, Any]
    output: str | None = None  #: The name of the output, for options of `Volume.to`.

    def __str__(self) -> str:
        text = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return text if self.output is None else f"{text} for {self.output}"

    def applied(self, targets: Sequence[Any], options: Any) -> tuple[Sequence[Any], Any]:
        """Return the changed request."""
        if self.output is None:
            return targets, replace(options, **self.options)
        return [
            t.stored_as(**self.options)
            if isinstance(t, Target) and t.sink.name == self.output
            else t
            for t in targets
        ], options


class PlanRefused(ValueError):
    """A request that cannot be planned, with remedies.

    - ``remedies``: they work.
    - ``candidates``: they may work.
    """

    def __init__(self, text: str, *remedies: Remedy, candidates: Sequence[Remedy] = ()) -> None:
        super().__init__(text)
        self.remedies, self.candidates = remedies, candidates

    def with_candidates(
        self, targets: Sequence[Any], options: Any, works: Callable[[Remedy], bool]
    ) -> PlanRefused:
        """The error with those candidates, and smaller write units and fewer slabs, that work."""
        found: list[Remedy] = []
        if options.slabs_in_flight > 1:
            found += filter(works, [Remedy({"workers": 1})])
        found += filter(works, self.candidates)
        if not self.candidates:
            for target in targets:
                units = list(_smaller_units(target)) if isinstance(target, Target) else []
                if units and works(units[-1]):
                    found.append(next(filter(works, units)))
        if not found:
            return self
        text = f"{self}; {', or '.join(map(str, found))} also works"
        return type(self)(text, *self.remedies, *found)


def visible(sink: Sink, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape along the axes that an output has, as an option of `Volume.to`."""
    return tuple(shape[a] for a in sink.space.visible)


def _smaller_units(target: Target) -> Iterator[Remedy]:
    """Smaller shards or chunks of an output, the largest first."""
    sink = target.sink
    has_shards = sink.shard is not None
    if not has_shards and "chunks" not in sink.writer.options:
        return
    parts = sink.chunk if has_shards else (1, 1, 1)
    for unit in _halves(sink.unit, parts):
        if not has_shards and math.prod(unit) * sink.dtype.itemsize < _UNIT_BYTES:
            return
        yield Remedy({"shards" if has_shards else "chunks": visible(sink, unit)}, sink.name)


def _halves(unit: Triple, parts: Triple) -> Iterator[Triple]:
    """Units of fewer and fewer parts: all axes that have the most are halved.

    >>> list(_halves((16, 2048, 512), (16, 128, 128)))
    [(16, 1024, 512), (16, 512, 512), (16, 256, 256), (16, 128, 128)]
    """
    counts = [u // p for u, p in zip(unit, parts, strict=True)]
    while (largest := max(counts)) > 1:
        counts = [n // 2 if 2 * n > largest else n for n in counts]
        z, y, x = (n * p for n, p in zip(counts, parts, strict=True))
        yield z, y, x


def with_smaller_shards(targets: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Targets with smaller and smaller shards where the format chooses them, at last without."""
    units = {
        k: [*_halves(t.sink.unit, t.sink.chunk), None]
        for k, t in enumerate(targets)
        if isinstance(t, Target) and t.has_automatic_shards
    }
    for step in range(max(map(len, units.values()), default=0)):
        changed = list(targets)
        for k, some in units.items():
            shard = some[min(step, len(some) - 1)]
            asked = False if shard is None else visible(targets[k].sink, shard)
            try:
                changed[k] = targets[k].stored_as(shards=asked)
            except ValueError:  # some formats have few shapes of shards
                break
        else:
            yield changed


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
