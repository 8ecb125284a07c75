"""A plan as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_volumes.geometry import NO_HALO
from beam_volumes.graph.volume import format_bytes
from beam_volumes.plan.alignment import badly_cut
from beam_volumes.sweep.program import Step
from beam_volumes.sweep.schedule import Overlap

if TYPE_CHECKING:
    from beam_volumes.plan.plan import Pass, Plan


_OVERLAPS = {
    Overlap(ahead=True, behind=True): "reading ahead and writing behind",
    Overlap(ahead=False, behind=True): "writing behind, with no room set aside to read ahead",
    Overlap(ahead=False, behind=False): "with no room set aside to read ahead or write behind",
}


def explain(plan: Plan) -> str:
    """Passes, stages, halos, windows, slabs, memory and I/O, and why each choice was made."""
    lines = [
        f"{len(plan.passes)} pass(es), {plan.workers} slab(s) in flight in {plan.processes} process(es), "
        f"{plan.threads} thread(s) a slab",
        f"memory: {format_bytes(plan.predicted_memory)} predicted = {plan.processes} x "
        f"{format_bytes(plan.base)} base + {plan.workers} x {format_bytes(plan.slab_memory)} ours; "
        f"budget {format_bytes(plan.memory)}, smallest that works {format_bytes(plan.smallest_memory)}",
        f"reads {format_bytes(plan.bytes_read)} in chunks, {plan.read_amplification:.2f}x what is needed "
        f"once per pass; writes {format_bytes(plan.bytes_written)}",
    ]
    inside = {sink.name for sink in plan.intermediates}
    for name, times in plan.times_read.items():
        if name in inside:
            continue
        passes = [p.index + 1 for p in plan.passes if any(r.name == name for r in p.reads)]
        lines.append(f"{name} is read {times:.2f} times, in pass {', '.join(map(str, passes))}")
    for name, sweeps in plan.sweeps.items():
        lines.append(f"{name} takes {sweeps} sweep(s)")
    for p in plan.passes:
        lines += ["", *_pass(plan, p)]
    if plan.reasons:
        lines += ["", "why:", *(f"  {r}" for r in plan.reasons)]
    if slow := badly_cut(plan):
        lines += ["", "slow:", *(f"  {reason}" for reason in slow)]
    return "\n".join(lines)


def _pass(plan: Plan, p: Pass) -> list[str]:
    part = p.partition
    slab = " x ".join(map(str, p.grid.step))
    overlap = _OVERLAPS[part.overlap]
    shape = " x ".join(map(str, p.program.shape))
    lines = [
        f"pass {p.index + 1}: {shape} voxels in {len(p.grid)} slab(s) of {slab}, "
        f"windows of {part.window} slice(s), {overlap}",
    ]
    answered = [_surveying(plan, token) for token in p.program.barriers]
    if answered:
        names = ", ".join(f"pass {k + 1}" for k in sorted({k for k, _ in answered}))
        lines.append(f"  slabs and windows are those of {names}, whose answers it takes")
    steps = p.program.steps
    for step in steps:
        lines.append("  " + _step(plan, p, step))
    for f in p.program.folds:
        lines.append(f"  fold {f.reduction.name} of {steps[f.voxels.step].name}")
    for seen in p.program.surveys:
        names = ", ".join(steps[e.step].name for e in seen.edges)
        name, room = seen.survey.name, format_bytes(p.room)
        lines.append(
            f"  survey {name} of {names}, up to {room} a slab; then merge what the slabs found"
        )
        if p.merges[name]:
            most = format_bytes(p.merges[name])
            lines.append(
                f"    a step of the merge holds at most {most}; how much it will is known after this "
                f"sweep, and more than {room} is refused then"
            )
    for o in p.program.outputs:
        unit = " x ".join(map(str, o.sink.unit))
        what = steps[o.edge.step].name
        if o.sink in plan.intermediates:
            lines.append(f"  store {what} for this run ({o.sink.dtype}, units of {unit})")
        else:
            lines.append(f"  write {what} to {o.sink.name} ({o.sink.dtype}, units of {unit})")
    for seen in p.program.surveys:
        for sink in plan.tables.get(seen.token, ()):
            rows = f"the rows of {seen.survey.name}"
            inside = sink in plan.intermediates
            end = "for this run" if inside else f"to {sink.name}"
            lines.append(f"  {'store' if inside else 'write'} {rows} {end} ({sink.format})")
    chunks = f"{p.chunks_read} chunk(s), " if p.chunks_read else ""
    lines.append(
        f"  reads {chunks}{format_bytes(p.bytes_read)} "
        f"({p.read_amplification:.2f}x); writes {p.units_written} unit(s), {format_bytes(p.bytes_written)}"
    )
    lines.append(f"  memory of a slab {format_bytes(p.slab_memory)}:")
    for item in sorted(part.parts, key=lambda item: -item.bytes):
        lines.append(f"    {format_bytes(item.bytes):>10}  {item.name}")
    return lines


def _surveying(plan: Plan, token: str) -> tuple[int, str]:
    """The pass that surveys for a barrier, and what it is called."""
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
        return f"read {step.name} ({step.dtype}, chunks of {chunk}{where})"
    inputs = []
    for edge in step.edges:
        name = p.program.steps[edge.step].name
        if edge.halo != NO_HALO:
            name += (
                " halo " + " ".join(f"{b}+{a}" for b, a in edge.halo) + f" {edge.padding.modes[0]}"
            )
        inputs.append(name)
    text = f"{step.name} ({step.dtype}) of {', '.join(inputs)}"
    if step.completion is not None:
        index, name = _surveying(plan, step.barrier)
        text += f" and what pass {index + 1} found of {name}"
    return text
