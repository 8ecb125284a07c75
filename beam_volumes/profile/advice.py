"""Suggestions for a run, based on measurements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from beam_volumes.base.text import counted, format_bytes
from beam_volumes.ops.filters.kernel_choice import cheaper
from beam_volumes.plan.fit.planned_pass import Pass, swept
from beam_volumes.plan.plan import Plan
from beam_volumes.profile.measure import COMPUTING, READING, WRITING, Item, Measured, needed

#: Minimum shares of the time for suggestions.
_MUCH, _HALF, _SOME = 0.3, 0.5, 0.1
#: Below this size in bytes, the overhead per chunk exceeds the cost of its data.
_SMALL = 256 << 10


@dataclass(frozen=True)
class Setting:
    """The machine for which a run is tuned."""

    #: The same plan with more memory, if available.
    roomier: Plan | None
    #: Number of cores that the process may use.
    cores: int
    #: The load average: number of processes that request a core.
    load: float

    @property
    def is_shared(self) -> bool:
        """Whether other processes use so many cores that they may cause waiting."""
        return self.load > 1.5 * self.cores


def advise(measured: Measured, setting: Setting) -> list[str]:
    """Return suggestions, each with the measurement behind it; empty if nothing can be gained."""
    return [
        *_reading(measured, setting),
        *_writing(measured, setting),
        *_stage(measured),
        *_halos(measured, setting),
        *_cores(measured, setting),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _speed(nbytes: float, seconds: float) -> str:
    return f"{nbytes / seconds / 1e6:,.0f} MB/s of a core" if seconds > 0 else "no time"


def _box(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _reading(m: Measured, setting: Setting) -> Iterator[str]:
    roomier = setting.roomier
    for p in m.plan.passes:
        share, name = m.share(*READING, index=p.index), f"pass {p.index + 1}"
        if p.read_amplification < 1.3 or max(share, m.waits["read"]) < _SOME:
            continue
        chunks = ", ".join(_box(s.source.chunk) for s in p.program.steps if s.source is not None)
        text = (
            f"{name} reads {p.read_amplification:.1f} times the data that it needs, and reading is "
            f"{_percent(share)} of the CPU time: its slabs of {_box(p.grid.step)}, with halos, cut through "
            f"chunks of {chunks}; "
        )
        better = _same(p, roomier)
        if roomier and better and better.read_amplification < 0.8 * p.read_amplification:
            yield text + (
                f"with memory {format_bytes(roomier.memory)} slabs of {_box(better.grid.step)} would read "
                f"{better.read_amplification:.1f} times"
            )
        else:
            yield text + "store a copy of the input with smaller chunks"
    share = m.share(*READING)
    sources = [s.source for p in m.plan.passes for s in p.program.steps if s.source is not None]
    if share >= _MUCH:
        cpu = sum(i.cpu for i in m.items if i.activity.kind in READING)
        smallest = min(sources, key=lambda s: s.chunk_bytes)
        text = (
            f"reading takes {_percent(share)} of the CPU time, {_speed(m.plan.bytes_read, cpu)}: "
        )
        if smallest.chunk_bytes < _SMALL:
            yield text + (
                f"its chunks of {_box(smallest.chunk)} are only {format_bytes(smallest.chunk_bytes)}; "
                "chunks of a few MiB have less overhead"
            )
        elif any(s.encoded for s in sources):
            yield text + (
                "if you read it often, store a copy as .zarr with a codec that decodes faster (blosc, zstd, "
                "or none)"
            )
        else:
            yield text + "it is not compressed, so the disk and copying set the limit"
    slow = [i for i in m.items if i.activity.kind == "read" and i.cpu < 0.5 * i.wall]
    if m.waits["read"] >= _MUCH and slow and not setting.is_shared:
        busy = sum(i.cpu for i in slow) / sum(i.wall for i in slow)
        yield (
            f"slabs wait {_percent(m.waits['read'])} of their time for their input, while reading uses "
            f"{busy:.1f} cores: the storage is the bottleneck; workers {2 * m.plan.workers} would keep more "
            "requests in flight"
        )


def _writing(m: Measured, setting: Setting) -> Iterator[str]:
    share = m.share(*WRITING)
    sinks = [o.sink for p in m.plan.passes for o in p.program.outputs]
    if share >= _MUCH and sinks:
        cpu = sum(i.cpu for i in m.items if i.activity.kind in WRITING)
        text = f"writing takes {_percent(share)} of the CPU time, {_speed(m.plan.bytes_written, cpu)}: "
        small = min(sinks, key=lambda s: s.unit_bytes)
        name, level = max((s.codec for s in sinks), key=lambda c: c[1] or 0)
        if small.unit_bytes < _SMALL:
            yield text + (
                f"its files hold {_box(small.unit)} voxels, {format_bytes(small.unit_bytes)}; larger "
                "chunks or shards have less overhead"
            )
        elif name == "none":
            yield text + "it is not compressed, so the disk sets the limit"
        elif name == "blosc":
            yield text + "codec: none avoids compression, if there is enough space"
        else:
            faster = "" if name == "zstd" and level == 1 else "zstd (level 1) or "
            yield text + (
                f"codec: {faster}blosc is faster than {name} (level {level}), and none avoids "
                "compression, if there is enough space"
            )
    if m.waits["write"] >= _MUCH and share < _MUCH and not setting.is_shared:
        yield (
            f"slabs wait {_percent(m.waits['write'])} of their time for writing, which takes "
            f"{_percent(share)} of the CPU time: the storage is the bottleneck"
        )


def _stage(m: Measured) -> Iterator[str]:
    computing = [i for i in m.items if i.activity.kind in COMPUTING]
    top = max(computing, key=lambda i: i.cpu, default=None)
    if top is None or top.cpu < _HALF * m.whole:
        return
    p = m.plan.passes[top.index]
    stage = p.program.steps[top.activity.index].stage if _is_stage_of(top, p) else None
    if stage is not None and (better := cheaper(stage)):
        yield (
            f"{top.activity.name} takes {_percent(top.cpu / m.whole)} of the CPU time, "
            f"{p.voxels / top.cpu / 1e6:,.1f} Mvoxel/s of a core: if the task allows, {better}"
        )


def _halos(m: Measured, setting: Setting) -> Iterator[str]:
    for p in m.plan.passes:
        again = _again(m, p)
        if again < _SOME:
            continue
        text = (
            f"the halos of slabs of {_box(p.grid.step)} add {_percent(again)} to the work of the stages of "
            f"pass {p.index + 1}; "
        )
        roomier = setting.roomier
        better = _same(p, roomier)
        if roomier and better and _again(m, better) < 0.7 * again:
            yield text + (
                f"with memory {format_bytes(roomier.memory)}, slabs of {_box(better.grid.step)}, "
                f"{_percent(_again(m, better))}"
            )


def _again(m: Measured, p: Pass) -> float:
    """The share of repeated work in the slabs of a pass, weighted by the times of stages."""
    cpu = {i.activity.index: i.cpu for i in m.items if _is_stage_of(i, p)}
    steps = range(len(p.program.steps))
    total = sum(cpu.get(i, 0.0) for i in steps)
    ratios = [a / (b or 1) for a, b in zip(swept(p), needed(p), strict=True)]
    return sum(cpu.get(i, 0.0) * ratios[i] for i in steps) / total - 1 if total else 0.0


def _is_stage_of(item: Item, p: Pass) -> bool:
    return item.index == p.index and item.activity.kind == "stage"


def _same(p: Pass, other: Plan | None) -> Pass | None:
    """The corresponding pass of another plan, if it exists."""
    return other.passes[p.index] if other and p.index < len(other.passes) else None


def _cores(m: Measured, setting: Setting) -> Iterator[str]:
    if setting.is_shared:
        yield (
            f"other processes use this machine, with a load of {setting.load:.1f} on "
            f"{counted(setting.cores, 'core')}: measured wall times are too long"
        )
        return
    used = m.busy / m.seconds if m.seconds else 0.0
    # A run of less than a second is mostly overhead.
    if max(m.waits.values()) < _MUCH and used < 0.6 * setting.cores and m.seconds > 1:
        yield (
            f"{used:.1f} of {setting.cores} cores were busy: workers {m.plan.workers + 1} would use "
            f"more, and {format_bytes(m.plan.slab_memory)} more memory"
        )
