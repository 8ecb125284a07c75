"""Plans in words and numbers: the lines of `Plan.explain`, and phrases for progress and messages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from beam_volumes.base.geometry import NO_HALO
from beam_volumes.base.text import counted, format_bytes, format_duration
from beam_volumes.graph.nodes import values_below
from beam_volumes.plan.cost import memory
from beam_volumes.plan.cost.memory import MemoryItem
from beam_volumes.plan.fit.advice import badly_cut, many_objects
from beam_volumes.plan.fit.planned_pass import Pass, describe_patches, describe_places
from beam_volumes.plan.plan import Plan
from beam_volumes.storage.places.stored_size import sampled_bytes, stored_bytes
from beam_volumes.sweep.device import DEVICE, HOST, is_transfer, name_of
from beam_volumes.sweep.program import FoldEdge, Step, Surveyed
from beam_volumes.sweep.schedule import Overlap

_OVERLAPS = {
    Overlap(read_ahead=True, write_behind=True): "reading ahead and writing behind",
    Overlap(
        read_ahead=False, write_behind=True
    ): "writing behind, with no room set aside to read ahead",
    Overlap(
        read_ahead=False, write_behind=False
    ): "with no room set aside to read ahead or write behind",
}
#: The amount of data of a run that should be divided among machines.
_MANY_BYTES = 1 << 40
#: The part of a name that differs between channels.
_CHANNEL = re.compile(r"\[c=\d+\]|(?<=, )c=\d+(?=\])")


def explained(plan: Plan, timed: bool, verbose: bool, census: Mapping[str, str]) -> str:
    """Describe each pass in one line; with ``verbose`` in detail. ``census``: texts by barrier."""
    lines = [
        f"{counted(len(plan.passes), 'pass')}, {counted(plan.workers, 'slab')} in flight in "
        f"{counted(plan.processes, 'process')}, {counted(plan.threads, 'thread')} a slab"
        + (f", on each of {plan.machines:,} machines" if plan.machines > 1 else ""),
        f"memory: {format_bytes(plan.predicted_memory)} predicted = {plan.processes} x "
        f"{format_bytes(plan.base)} base + {plan.workers} x {format_bytes(plan.slab_memory)} "
        f"slab; budget {format_bytes(plan.memory)}, smallest that works "
        f"{format_bytes(plan.smallest_memory)}",
        f"reads {format_bytes(plan.bytes_read)} decoded, {plan.read_amplification:.2f}x the "
        f"chunks that each pass needs; writes {format_bytes(plan.bytes_written)} before "
        f"compression{_tables(plan)}",
    ]
    if plan.device != "cpu":
        lines.append(_device(plan))
    if (seconds := plan.predicted_seconds) is not None:
        lines.append(
            f"takes about {format_duration(seconds, 1)} on this machine, once kernels are compiled"
            + _depends_on_voxels(plan)
        )
    if plan.in_process is not None:
        lines.insert(1, f"runs in threads of this process: {plan.in_process}. {_runner(plan)}")
    inside = {sink.name for sink in plan.intermediates}
    read = []
    for name, times in plan.times_read.items():
        if name in inside:
            continue
        passes = [p.index + 1 for p in plan.passes if any(r.name == name for r in p.reads)]
        line = f"{name} is read {times:.2f} times, in pass {', '.join(map(str, passes))}"
        read.append(line + _stored(plan, name))
    lines += list(dict.fromkeys(_CHANNEL.sub("", line) for line in read))
    for name, sweeps in plan.sweeps.items():
        lines.append(f"{name} takes {counted(sweeps, 'sweep')}")
    for p in plan.passes:
        if p.point is None:
            lines.append(_in_brief(plan, p))
            may_be_refused = (
                n for n, size in p.merges.items() if size.maximum > p.merge_limit_bytes
            )
            lines += [f"  {name}: {describe_merge(plan, p, name)}" for name in may_be_refused]
            counted_here = (b for b in p.program.surveys if b.token in census)
            lines += [f"  {b.survey.name}: {census[b.token]}" for b in counted_here]
            if plan.device_memory:
                lines += [f"  {line}" for line in describe_places(p)]
            stages = (step.stage for step in p.program.steps if step.stage is not None)
            lines += [f"  {stage.name} {stage.remark}" for stage in stages if stage.remark]
    for p in plan.passes:
        if p.point is not None:
            own = explained(p.point, timed, verbose, census).splitlines()
            lines += ["", f"{_points(plan, p)}, each of them:", *(f"  {x}" for x in own)]
        elif verbose:
            lines += ["", *_pass(plan, p, timed)]
    if plan.reasons and verbose:
        lines += ["", "why:", *(f"  {r}" for r in plan.reasons)]
    slow = [*badly_cut(plan, plan.replanned), *many_objects(plan.passes)]
    if slow:
        lines += ["", "slow:", *(f"  {reason}" for reason in slow)]
    return "\n".join(lines)


def _runner(plan: Plan) -> str:
    if plan.bytes_read + plan.bytes_written < _MANY_BYTES:
        return "runner= selects a Beam runner."
    slabs = sum(len(p.grid) for p in plan.passes)
    return (
        f"For {slabs:,} slabs, select a Beam runner with many machines, e.g. runner='FlinkRunner'."
    )


def _depends_on_voxels(plan: Plan) -> str:
    """Name the operations that take longer with more objects; their number is unknown."""
    each = (q for p in plan.passes for q in ([p] if p.point is None else p.point.passes))
    names = dict.fromkeys(b.survey.name for p in each for b in p.program.surveys)
    if not names:
        return ""
    return (
        f", with as many objects as in the calibration for {', '.join(names)}; `beam-volumes bench "
        "RECIPE.yaml` measures a part of the real volume"
    )


def _device(plan: Plan) -> str:
    """Describe the memory of the device, or why there is none."""
    if not plan.device_memory:
        return "device: this machine has none, so all stages run on the host"
    if not plan.uses_device:
        return f"device: none used, device={plan.device!r}: all stages run on the host"
    return (
        f"device: {format_bytes(plan.predicted_device_memory)} of its memory predicted for "
        f"{counted(plan.workers, 'slab')}; budget {format_bytes(plan.device_memory)}"
    )


def _tables(plan: Plan) -> str:
    """Describe the number of tables and the bytes of a row; the number of rows is unknown."""
    rows = [
        _row_bytes(p, surveyed)
        for p in plan.passes
        for surveyed in p.program.surveys
        for sink in plan.tables.get(surveyed.token, ())
        if sink not in plan.intermediates
    ]
    if not rows:
        return ""
    sizes = " and ".join(map(str, rows))
    return f", and the rows of {counted(len(rows), 'table')}, {sizes} bytes each"


def _row_bytes(p: Pass, surveyed: Surveyed) -> int:
    """Bytes of one row as numbers."""
    columns = surveyed.survey.no_rows(p.program.shape).values()
    return sum(c.dtype.itemsize * math.prod(c.shape[1:]) for c in columns)


def _stored(plan: Plan, name: str) -> str:
    """Describe the size of an input's files, if it can be found quickly."""
    sources = {s.source for p in plan.passes for s in p.program.steps if s.source is not None}
    extents = [e for s in sources if s.name == name for e in s.reader.extents]
    if (stored := stored_bytes(extents)) is not None:
        return f"; its files take {format_bytes(stored)} as stored"
    if (stored := sampled_bytes(extents)) is not None:
        return f"; its files take about {format_bytes(stored)} as stored, by the sizes of a sample"
    return ""


def describe_work(plan: Plan, p: Pass) -> list[str]:
    """List what a pass computes, in the words of a program: steps, numbers, labels and tables."""
    steps = p.program.steps
    does = [
        step.name if step.completion is None else f"{step.name} (second sweep)"
        for step in steps
        if step.source is None and not is_transfer(step)
    ]
    does += describe_numbers(plan, p)
    does += [_survey(plan, surveyed) for surveyed in p.program.surveys]
    return _channels_together(does or [f"copy {step.name}" for step in steps])


def describe_numbers(plan: Plan, p: Pass) -> list[str]:
    """List the numbers of a pass, and what needs them, for example the extrema for a threshold."""
    purposes = [(fold.reduction.name, _purpose(plan, fold)) for fold in p.program.folds]
    joined = {
        purpose: " and ".join(dict.fromkeys(name for name, same in purposes if same == purpose))
        for _, purpose in purposes
    }
    return list(dict.fromkeys(joined[end] + end if end else name for name, end in purposes))


def _purpose(plan: Plan, fold: FoldEdge) -> str:
    for p in plan.passes:
        for user in p.program.folds:
            needs = values_below(v for v in p.values if v.token in user.values)
            if any(v.token == fold.token for v in needs):
                return f" for {user.reduction.name}"
    return ""


def _survey(plan: Plan, surveyed: Surveyed) -> str:
    """Name a survey; voxels that depend on it are computed in a second sweep."""
    steps = (step for p in plan.passes for step in p.program.steps)
    again = any(step.completion is not None and step.barrier == surveyed.token for step in steps)
    return f"{surveyed.survey.name} (first sweep)" if again else surveyed.survey.name


def _in_brief(plan: Plan, p: Pass) -> str:
    """Describe a pass in one line: its steps, slabs, and the largest parts of its memory."""
    slab = " x ".join(map(str, p.grid.step))
    line = (
        f"pass {p.index + 1}: {', '.join(describe_work(plan, p))}; "
        f"{counted(len(p.grid), 'slab')} of {slab}, windows of "
        f"{counted(p.partition.window, 'slice')}; reads {format_bytes(p.bytes_read)}, writes "
        f"{format_bytes(p.bytes_written)}; {format_bytes(p.slab_memory)} a slab"
    )
    parts = [item for item in p.partition.parts if item.place == HOST]
    parts.sort(key=lambda item: -item.bytes)
    shown = [item for k, item in enumerate(parts) if k == 0 or item.name.startswith("scratch of")]
    return f"{line}, {', '.join(f'{format_bytes(item.bytes)} {item.name}' for item in shown)}"


def _points(plan: Plan, p: Pass) -> str:
    """Describe a pass over time points: how many, and the numbers it computes of all of them."""
    points = f"{len(p.grid)} time points"
    if len(plan.passes) == 1:
        return points
    finds = f", which finds {', '.join(p.of_all_points)} of all points" if p.of_all_points else ""
    return f"pass {p.index + 1}{finds}: {points}"


def _pass(plan: Plan, p: Pass, timed: bool) -> list[str]:
    part = p.partition
    slab = " x ".join(map(str, p.grid.step))
    overlap = _OVERLAPS[part.overlap]
    shape = " x ".join(map(str, p.program.shape))
    lines = [
        f"pass {p.index + 1}: {shape} voxels in {counted(len(p.grid), 'slab')} of {slab}, "
        f"windows of {counted(part.window, 'slice')}, {overlap}",
    ]
    if plan.concurrency.slots > 1:
        lines.append(f"  {_tail(plan, p)}")
    answered = [_surveying(plan, token) for token in p.program.barriers]
    if answered:
        names = ", ".join(f"pass {k + 1}" for k in sorted({k for k, _ in answered}))
        lines.append(f"  takes the answers of {names}, in the same slabs and windows")
    steps = p.program.steps
    for i, step in enumerate(steps):
        lines.append("  " + _step(plan, p, step))
        if patches := describe_patches(p, i, timed, plan.threads):
            lines.append(f"    {patches}")
    for f in p.program.folds:
        name, many = steps[f.fed[0].voxels.step].name, len(f.fed)
        of = name if many == 1 else f"the {many} channels of {_CHANNEL.sub('', name)}"
        lines.append(f"  {f.reduction.name} of {of}{_purpose(plan, f)}")
    for surveyed in p.program.surveys:
        names = ", ".join(_channels_together([steps[e.step].name for e in surveyed.edges]))
        name, limit_bytes = surveyed.survey.name, format_bytes(p.limit_bytes)
        lines.append(
            f"  {_survey(plan, surveyed)} of {names}, up to {limit_bytes} a slab, then merge the slabs' "
            "summaries"
        )
        if p.merges[name].maximum:
            lines.append(f"    {describe_merge(plan, p, name)}")
    for o in p.program.outputs:
        unit = " x ".join(map(str, o.sink.unit))
        what = steps[o.edge.step].name
        if o.sink in plan.intermediates:
            lines.append(f"  store {what} for this run ({o.sink.dtype}, units of {unit})")
        else:
            lines.append(f"  write {what} to {o.sink.name} ({o.sink.dtype}, units of {unit})")
    for surveyed in p.program.surveys:
        for sink in plan.tables.get(surveyed.token, ()):
            rows = f"the rows of {surveyed.survey.name}"
            inside = sink in plan.intermediates
            end = "for this run" if inside else f"to {sink.name}"
            how = f"({sink.format}), {_row_bytes(p, surveyed)} bytes each before encoding"
            lines.append(f"  {'store' if inside else 'write'} {rows} {end} {how}")
    chunks = f"{counted(p.chunks_read, 'chunk')}, " if p.chunks_read else ""
    lines.append(
        f"  reads {chunks}{format_bytes(p.bytes_read)} "
        f"({p.read_amplification:.2f}x); writes {counted(p.units_written, 'unit')}, "
        f"{format_bytes(p.bytes_written)}"
    )
    lines.append(f"  memory of a slab {format_bytes(part.sweep_memory)}:")
    lines += _items(item for item in part.parts if item.place == HOST)
    if part.device_memory:
        lines.append(f"  memory of a slab on the device {format_bytes(part.device_memory)}:")
        lines += _items(item for item in part.parts if item.place == DEVICE)
    if part.merge_memory:
        lines.append(
            f"  memory of a step of the merge, when the sweep has ended, {format_bytes(part.merge_memory)}:"
        )
        lines += _items(part.merge)
    return _channels_together(lines)


def _with_larger_merges(plan: Plan) -> Plan | None:
    """Return a plan with room for merges of the expected size; None if none is found."""

    def needs(p: Pass) -> list[int]:
        return [p.partition.kept + size.expected for size in p.merges.values()]

    need = max(n for p in plan.swept for n in needs(p))
    # With one slab in flight, a merge has the whole memory.
    for workers in sorted({1, plan.workers}):
        processes = min(workers, plan.processes)
        how = replace(plan.concurrency, workers=workers, processes=processes)
        room = max(plan.memory, memory.of_machine(plan.base, need, how))
        other = plan._replanned(memory=room, workers=workers, processes=processes)
        if other is not None and all(
            max(needs(p), default=0) <= p.partition.kept + p.merge_limit_bytes for p in other.swept
        ):
            return other
    return None


def describe_merge(plan: Plan, p: Pass, name: str) -> str:
    """Describe the expected and the maximum size of a merge, and what happens beyond its limit."""
    size, limit = p.merges[name], p.merge_limit_bytes
    text = (
        f"the largest step of the merge is expected to need {format_bytes(size.expected)}, and at most "
        f"{format_bytes(size.maximum)}"
    )
    if size.maximum <= limit:
        return text
    text += f"; more than {format_bytes(limit)} is refused when pass {p.index + 1} has ended"
    if size.expected > limit:
        if (larger := _with_larger_merges(plan)) is not None:
            fewer = f"workers={larger.workers} and " if larger.workers < plan.workers else ""
            text += (
                f". The expected size fits {fewer}memory={larger.memory} "
                f"({format_bytes(larger.memory)})"
            )
        text += ". A census estimates the size from a part of the volume"
    return text


def _tail(plan: Plan, p: Pass) -> str:
    """How many slabs each slot gets, and for which share of the time the last ones run."""
    slabs, concurrency = len(p.grid), plan.concurrency
    if slabs <= concurrency.slots:
        return f"all slabs run at the same time, of {concurrency.slots:,} in flight"
    return (
        f"{slabs / concurrency.slots:,.1f} slabs for each of {concurrency.slots:,} in flight; "
        f"while the last ones run, about {concurrency.tail(slabs):.1%} of the time, others may "
        "wait"
    )


def _items(parts: Iterable[MemoryItem]) -> Iterator[str]:
    for item in sorted(parts, key=lambda item: -item.bytes):
        if item.bytes:
            yield f"    {format_bytes(item.bytes):>10}  {item.name}"


def _channels_together(lines: Sequence[str]) -> list[str]:
    """Merge lines that differ only in the channel, and append how often they occur."""
    counts: dict[str, int] = {}
    first: dict[str, str] = {}
    for line in lines:
        alike = _CHANNEL.sub("", line)
        counts[alike] = counts.get(alike, 0) + 1
        first.setdefault(alike, line)
    return [
        first[alike] if many == 1 else f"{alike}, {many} times" for alike, many in counts.items()
    ]


def _surveying(plan: Plan, token: str) -> tuple[int, str]:
    """Return the pass that surveys for a barrier, and the name of the survey."""
    return next(
        (p.index, b.survey.name) for p in plan.passes for b in p.program.surveys if b.token == token
    )


def _step(plan: Plan, p: Pass, step: Step) -> str:
    if step.source is not None:
        kept = {o.sink.name: q.index for q in plan.passes for o in q.program.outputs}
        name = step.source.name
        inside = name in {sink.name for sink in plan.intermediates}
        how = "stored" if inside else "written"
        where = f", {how} by pass {kept[name] + 1}" if name in kept else ""
        chunk = " x ".join(map(str, step.source.chunk))
        remark = f"; {step.source.remark}" if step.source.remark else ""
        return f"read {step.name} ({step.dtype}, chunks of {chunk}{where}{remark})"
    inputs = []
    for edge in step.edges:
        name = p.program.steps[edge.step].name
        if edge.halo != NO_HALO:
            name += (
                " halo " + " ".join(f"{b}+{a}" for b, a in edge.halo) + f" {edge.padding.modes[0]}"
            )
        inputs.append(name)
    if is_transfer(step):
        return name_of(step)
    where = " on the device" if step.place == DEVICE else ""
    text = f"{step.name}{where} ({step.dtype})"
    if inputs:
        text += f" of {', '.join(inputs)}"
    if step.completion is not None:
        index, name = _surveying(plan, step.barrier)
        text += f", with the answers of pass {index + 1} to {name}"
    return text
