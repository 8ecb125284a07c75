"""Three sections of a stored or computed volume, with bounded reading and computation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from beam_volumes.base.geometry import Box
from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import counted, format_bytes
from beam_volumes.drive.compute import plan_run, run
from beam_volumes.graph.indexing import at_points
from beam_volumes.graph.nodes import CropNode, Node, SourceNode
from beam_volumes.graph.traversal import of_part
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.show.sampling import (
    Section,
    TooExpensive,
    along,
    coarser,
    fitting,
    sampled,
    steps_of,
)
from beam_volumes.storage.sources.source import Source

#: Maximal number of channels in a picture.
MAX_CHANNELS = 6
#: Sizes of the parts of planes that are tried if whole planes need too much reading.
SIDES = (None, 1024, 512, 256, 128)

_HERE = RunOptions(runner=None, progress=False)


@dataclass(frozen=True, eq=False)
class Sections:
    """Sections of a volume along its axes."""

    of: Volume  #: The volume, at one time point
    sections: tuple[Section, ...]  #: Normal to z, y and x, as far as they were read
    how: str  #: The resolution and the part that they show


def sections(
    volume: Volume,
    at: Sequence[float] = (0.5, 0.5, 0.5),
    t: int = 0,
    max_size: int = 512,
    max_bytes: int = 512 << 20,
) -> Sections:
    """Read or compute three sections that intersect at ``at``, from 0 to 1 along z, y and x."""
    # At most ``max_size`` rows and columns of a stored volume are read. ``max_bytes`` limits the chunks that
    # are read: for each section of a stored volume, for all of an expression. If every section needs more,
    # this is a ValueError.
    remarks = []
    if volume.space.times:
        if not 0 <= t < volume.space.times:
            raise ValueError(
                f"t={t} is out of range; {volume!r} has the time points 0 to {volume.space.times - 1}"
            )
        remarks.append(f"point {t} of {volume.space.times} in time")
        volume = at_points(volume, t)
    if len(volume.nodes) > MAX_CHANNELS:
        remarks.append(f"the first {MAX_CHANNELS} of {len(volume.nodes)} channels")
        names = volume.space.channels[:MAX_CHANNELS]
        volume = Volume(volume.nodes[:MAX_CHANNELS], replace(volume.space, channels=names))
    if 0 in volume.grid_shape:
        return Sections(volume, (), "it has no voxels")
    nodes = [n for n in volume.nodes if isinstance(n, SourceNode)]
    if len(nodes) == len(volume.nodes):
        found, how = _read([n.source for n in nodes], normals(volume), at, max_size, max_bytes)
    else:
        found, how = _computed(volume, at, max_bytes)
    return Sections(volume, tuple(found), "; ".join([how, *remarks]))


def normals(volume: Volume) -> tuple[int, ...]:
    """Return the axes with sections: one for a plane, three for a volume.

    >>> normals(bv.open(np.zeros((4, 5)))), normals(bv.open(np.zeros((4, 5, 6))))
    ((0,), (0, 1, 2))
    """
    visible = volume.space.visible
    if len(visible) == 3:
        return (0, 1, 2)
    if len(visible) == 2:
        return tuple(a for a in range(3) if a not in visible)
    return (0,)


def _read(
    channels: list[Source],
    axes: tuple[int, ...],
    at: Sequence[float],
    max_size: int,
    max_bytes: int,
) -> tuple[list[Section], str]:
    """Read sections of a stored volume: of a sufficiently fine level of its pyramid, subsampled."""
    of = [[source, *coarser(source)] for source in channels]
    level = fitting(of[0], max_size) if len({len(levels) for levels in of}) == 1 else 0
    sources = [levels[level] for levels in of]
    whole, coarse = channels[0].shape, sources[0].shape
    step: dict[int, int] = {}
    found, left_out = [], []
    for axis in axes:
        rows, columns = along(axis)
        try:
            steps = steps_of(sources[0], (rows, columns), max_size, max_bytes // len(sources))
        except TooExpensive as error:
            left_out.append(str(error))
            continue
        voxels = sampled(sources, axis, at[axis], steps)
        where = min(int(at[axis] * whole[axis]), whole[axis] - 1)
        found.append(Section(axis, where, voxels, ((0, whole[rows]), (0, whole[columns]))))
        for a, s in zip((rows, columns), steps, strict=True):
            step[a] = max(step.get(a, 1), s)
    if not found:
        raise TooExpensive(f"{left_out[0]}, more than {format_bytes(max_bytes)}; show a part of it")
    how = "every voxel" if set(step.values()) <= {1} else _step_text(step)
    if level:
        times = " x ".join(f"{o / m:.3g}" for o, m in zip(whole, coarse, strict=True))
        how += f" of level {level} of its pyramid ({times} times as coarse)"
    return found, "; ".join([how, *(f"left out: {text}" for text in left_out)])


def _step_text(step: dict[int, int]) -> str:
    by: dict[int, list[str]] = {}
    for axis in sorted(step):
        by.setdefault(step[axis], []).append(AXES[axis])
    texts = [
        f"{'all voxels' if s == 1 else f'one voxel in {s}'} along {' and '.join(names)}"
        for s, names in sorted(by.items(), reverse=True)
    ]
    return ", ".join(texts)


def _computed(volume: Volume, at: Sequence[float], max_bytes: int) -> tuple[list[Section], str]:
    """Compute sections exactly, of planes or their middle, else from a part of the inputs."""
    shape, axes = volume.grid_shape, normals(volume)
    for side in SIDES:
        if side is not None and side >= max(shape):
            continue
        boxes = [plane_part(shape, axis, at, side) for axis in axes]
        wanted = parts_of(volume.nodes, boxes)
        if plan_run(wanted, _HERE).bytes_read <= max_bytes:
            how = "computed at full resolution, whole planes"
            if side is not None:
                how = f"computed at full resolution, {side} voxels a side around the middle"
            return as_sections(run(wanted, _HERE).results, boxes, axes), how
    for side in (256, 128, 64):
        nodes = of_part(volume.nodes, box_around(shape, at, side))
        if nodes is None:
            break
        start = box_around(shape, at, side).start
        inside = [0.5] * 3
        boxes = [plane_part(nodes[0].shape, axis, inside, None) for axis in axes]
        wanted = parts_of(nodes, boxes)
        if plan_run(wanted, _HERE).bytes_read <= max_bytes:
            how = (
                f"computed from the middle {side} voxels a side of the inputs only, so that "
                "numbers and labels that depend on the whole volume differ"
            )
            moved = [box.translate(start) for box in boxes]
            return as_sections(run(wanted, _HERE).results, moved, axes), how
    raise TooExpensive(
        f"{volume!r}: even a small part needs more than {format_bytes(max_bytes)} of input; compute it to "
        "a file and show that, or show an input"
    )


def parts_of(nodes: Sequence[Node], boxes: Sequence[Box]) -> list[Volume]:
    """Return boxes of nodes as volumes to compute, in the order of `as_sections`."""
    return [Volume(CropNode.of(n, box), Space()) for box in boxes for n in nodes]


def as_sections(
    planes: Sequence[np.ndarray], boxes: Sequence[Box], axes: Sequence[int]
) -> list[Section]:
    """Return computed planes as sections normal to ``axes``; the boxes are their positions."""
    results = iter(planes)
    many, found = len(planes) // len(boxes), []
    for axis, box in zip(axes, boxes, strict=True):
        rows, columns = along(axis)
        planes = [np.squeeze(next(results), axis) for _ in range(many)]
        voxels = np.stack([p if rows < columns else p.T for p in planes])
        spans = tuple((box.start[a], box.stop[a]) for a in (rows, columns))
        found.append(Section(axis, box.start[axis], voxels, spans))  # type: ignore[arg-type]
    return found


def box_around(shape: Sequence[int], at: Sequence[float], side: int | Sequence[int] | None) -> Box:
    """Return a cube or box of voxels around a position, moved and clipped to be inside the volume."""
    start, stop = [], []
    sides = shape if side is None else [side] * 3 if isinstance(side, int) else side
    for n, f, s in zip(shape, at, sides, strict=True):
        m = min(n, s)
        first = min(max(0, int(f * n) - m // 2), n - m)
        start.append(first)
        stop.append(first + m)
    return Box(tuple(start), tuple(stop))  # type: ignore[arg-type]


def plane_part(shape: Sequence[int], axis: int, at: Sequence[float], side: int | None) -> Box:
    """Return a plane normal to an axis, or its part around a position."""
    box = box_around(shape, at, side)
    k = min(int(at[axis] * shape[axis]), shape[axis] - 1)
    start, stop = list(box.start), list(box.stop)
    start[axis], stop[axis] = k, k + 1
    return Box(tuple(start), tuple(stop))  # type: ignore[arg-type]


def title(found: Sections) -> str:
    """Describe the positions of the sections."""
    places = ", ".join(f"{AXES[s.axis]}={s.at}" for s in found.sections)
    visible = found.of.space.visible
    if len(visible) < 3 or not places:
        return found.how
    return f"{counted(len(found.sections), 'section')} at {places}; {found.how}"
