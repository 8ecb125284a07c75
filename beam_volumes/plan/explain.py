"""A plan as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam_volumes.geometry import NO_HALO
from beam_volumes.graph.volume import format_bytes
from beam_volumes.sweep.program import Edge, Step

if TYPE_CHECKING:
    from beam_volumes.plan.plan import Pass, Plan


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
    for name, sweeps in plan.sweeps.items():
        lines.append(f"{name} takes {sweeps} sweep(s)")
    for p in plan.passes:
        lines += ["", *_pass(p)]
    if plan.reasons:
        lines += ["", "why:", *(f"  {r}" for r in plan.reasons)]
    return "\n".join(lines)


def _pass(p: Pass) -> list[str]:
    part = p.partition
    slab = " x ".join(map(str, p.grid.step))
    overlap = "reading ahead and writing behind" if part.overlap else "no room to read ahead"
    shape = " x ".join(map(str, p.program.shape))
    lines = [
        f"pass {p.index + 1}: {shape} voxels in {len(p.grid)} slab(s) of {slab}, "
        f"windows of {part.window} slice(s), {overlap}",
    ]
    for step in p.program.steps:
        lines.append("  " + _step(p, step))
    for f in p.program.folds:
        lines.append(f"  fold {f.reduction.name} of {p.program.steps[f.voxels.step].name}")
    for b in p.program.surveys:
        lines.append(f"  survey for {b.survey.name}: {_steps(p, b.edges)}")
        if p.merges[b.survey.name]:
            lines.append(
                f"    merging slabs takes at most {format_bytes(p.merges[b.survey.name])} at once, known "
                f"after this pass; more than {format_bytes(p.room)} is refused then"
            )
    for o in p.program.outputs:
        unit = " x ".join(map(str, o.sink.unit))
        lines.append(
            f"  write {p.program.steps[o.edge.step].name} to {o.sink.name} ({o.sink.dtype}, units of {unit})"
        )
    lines.append(
        f"  reads {p.chunks_read} chunk(s), {format_bytes(p.bytes_read)} "
        f"({p.read_amplification:.2f}x); writes {p.units_written} unit(s), {format_bytes(p.bytes_written)}"
    )
    lines.append(f"  memory of a slab {format_bytes(p.slab_memory)}:")
    for item in sorted(part.parts, key=lambda item: -item.bytes):
        lines.append(f"    {format_bytes(item.bytes):>10}  {item.name}")
    return lines


def _steps(p: Pass, edges: Sequence[Edge]) -> str:
    return ", ".join(p.program.steps[e.step].name for e in edges)


def _step(p: Pass, step: Step) -> str:
    if step.source is not None:
        return (
            f"read {step.name} ({step.dtype}, chunks of {' x '.join(map(str, step.source.chunk))})"
        )
    inputs = []
    for edge in step.edges:
        name = p.program.steps[edge.step].name
        if edge.halo != NO_HALO:
            name += (
                " halo " + " ".join(f"{b}+{a}" for b, a in edge.halo) + f" {edge.padding.modes[0]}"
            )
        inputs.append(name)
    answered = ", and what came back to the slab" if step.completion is not None else ""
    return f"{step.name} ({step.dtype}) of {', '.join(inputs)}{answered}"
