"""The machines that a plan needs: their memory, number and hours, and accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_volumes.base.text import counted, format_bytes
from beam_volumes.plan.cost import memory
from beam_volumes.plan.fit.seconds import core_seconds
from beam_volumes.sweep.device import DEVICE

if TYPE_CHECKING:
    from beam_volumes.plan.plan import Plan

GIB = 1 << 30
#: The accelerator of machines for ``device="cuda"``, as a Beam resource hint.
DEFAULT = "type:nvidia-tesla-t4;count:1;install-nvidia-driver"
#: Memory of a machine's system and the runner's processes: an upper limit for Dataflow workers.
SYSTEM = GIB


def needed(plan: Plan, index: int) -> int:
    """GiB that a machine needs for a pass.

    Surveys and their merges may use the memory that the plan leaves.
    """
    p = plan.passes[index]
    slab = p.slab_memory
    if p.program.surveys:
        part = p.partition
        in_sweep = part.sweep_memory - part.reserved + p.limit_bytes
        slab = max(in_sweep, part.kept + p.merge_limit_bytes)
    return of_process(memory.of_machine(plan.base, slab, plan.concurrency))


def of_process(budget: int) -> int:
    """GiB that a machine needs for processes of ``budget`` bytes in total.

    >>> of_process(6 << 30)
    7
    """
    return -(-(budget + SYSTEM) // GIB)


def is_accelerated(plan: Plan, index: int) -> bool:
    """Whether a pass has a stage that can compute on an accelerator."""
    p = plan.passes[index]
    passes = (p,) if p.point is None else p.point.passes
    steps = [step for some in passes for step in some.program.steps]
    return any(s.place == DEVICE or (s.stage is not None and s.stage.accelerated) for s in steps)


def check_accelerator(plan: Plan, accelerator: str | None) -> None:
    """Refuse an accelerator that no stage of a plan uses."""
    if accelerator is not None and not any(is_accelerated(plan, p.index) for p in plan.passes):
        raise ValueError(
            f"accelerator={accelerator!r}: no pass of this run uses one; it is for "
            'bv.predict(..., device="auto") or "cuda", and for runs with device="cuda". Leave '
            "accelerator= out"
        )


def core_hours(plan: Plan) -> float:
    """Hours that one core would take, by measured speeds or rough costs; merges not included."""
    return sum(map(core_seconds, plan.passes)) / 3600


def advice(plan: Plan) -> str:
    """Describe the machines for a plan: cores, memory, number and hours.

    >>> v = bv.open(np.zeros((64, 256, 256), "u1"))
    >>> plan = bv.plan(bv.median_filter(v, 3).to("out.zarr"), memory="4GiB", workers=1, threads=4)
    >>> print(advice(plan))
    machines: 4 cores and 2 GiB each (1.0 GiB of them for the system); more than 1 would be idle
    about 0.0 core-hours and 0.0 GiB-hours; reads 4.0 MiB and writes 4.0 MiB before compression
    """
    gib = max((needed(plan, p.index) for p in plan.passes), default=1)
    cores = plan.threads * plan.processes
    maximum = max((-(-len(p.grid) // plan.workers) for p in plan.passes), default=1)
    hours = core_hours(plan)
    return (
        f"machines: {counted(cores, 'core')} and {gib} GiB each ({format_bytes(SYSTEM)} of them for the "
        f"system); more than {maximum:,} would be idle\n"
        f"about {hours:,.1f} core-hours and {hours * gib / cores:,.1f} GiB-hours; reads "
        f"{format_bytes(plan.bytes_read)} and writes {format_bytes(plan.bytes_written)} before compression"
    )
