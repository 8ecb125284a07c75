"""Reading in two stages what one sweep would read many times, since slabs cut through its chunks.

Slabs are made of whole write units. If they are made of whole chunks too, each chunk is read once. Where both
together do not fit the memory, as for columns of voxels that are to become planes, a source is first stored
in chunks between the two: each of two sweeps then moves it once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.plan.fit.more_slabs import Fit
from beam_volumes.plan.fit.partitioning import write_grid
from beam_volumes.storage.sources.chunking import no_larger
from beam_volumes.storage.sources.source import Source

#: A source is looked at where it is read so many times; two stages are taken where they move so much less.
_TIMES, _LESS = 2.0, 1.5
#: Where sweeps read no more than that of what they need, other chunks are not tried.
_ONCE = 1.1
#: Bytes of a chunk between two stages.
_MINIMUM, _MAXIMUM = 1 << 18, 32 << 20
#: How many of the chunks that look best are planned.
_TRIED = 4

#: Makes the passes anew: by token of a source, the chunks that it is first stored in.
Refit = Callable[[Mapping[str, Triple]], Fit]


def in_two_stages(found: Fit, refit: Refit) -> Fit:
    """The passes of a plan, with sources stored in other chunks first where that moves less."""
    chosen: dict[str, Triple] = {}
    for alike, unit in _read_often(found):
        source = alike[0]
        tokens = [SourceNode.of(s).token for s in alike]
        best: Fit | None = None
        chunks: dict[str, Triple] = {}
        for chunk in between(source.shape, source.dtype.itemsize, source.chunk, unit, found.budget):
            asked = {**chosen, **dict.fromkeys(tokens, chunk)}
            fit = refit(asked)
            if fit.is_within_budget and (best is None or _moved(fit) < _moved(best)):
                best, chunks = fit, asked
                if all(p.read_amplification < _ONCE for p in fit.passes):
                    break
        if best is not None and (
            not found.is_within_budget or _LESS * _moved(best) <= _moved(found)
        ):
            minimum = min(found.smallest, best.smallest, key=lambda part: part.memory)
            found, chosen = replace(best, smallest=minimum), chunks
    return found


def _read_often(fit: Fit) -> list[tuple[list[Source], Triple]]:
    """Sources that passes read again and again, with the units in which the passes write.

    Those of one shape and one chunk, such as the channels of a volume, are stored alike.
    """
    written = {o.sink.name for p in fit.passes for o in p.program.outputs}
    found: dict[tuple[Triple, Triple, Triple], dict[str, Source]] = {}
    for p in fit.passes:
        read = {r.name: r for r in p.reads}
        for step in p.program.steps:
            source = step.source
            if (
                source is None
                or source.in_memory
                or source.name in written
                or not p.program.outputs
            ):
                continue
            r = read.get(source.name)
            if r is None:  # a channel that is decoded with others
                continue
            if r.bytes > _TIMES * r.bytes_once and r.bytes - r.bytes_once > 2 * source.nbytes:
                unit = write_grid([p.program])
                alike = found.setdefault((source.shape, source.chunk, unit), {})
                alike[source.token()] = source
    return [(list(alike.values()), unit) for (_, _, unit), alike in found.items()]


def _moved(fit: Fit) -> int:
    return sum(p.bytes_read + p.bytes_written for p in fit.passes)


def between(shape: Triple, itemsize: int, chunk: Triple, unit: Triple, budget: int) -> list[Triple]:
    """Chunks to store a source in between two sweeps, those that look best first.

    The first sweep holds whole chunks of the source and of these, the second of these and whole units.
    Of those that leave room, the largest are the fewest files.

    ``shape``, ``itemsize``, ``chunk``: of the source.

    >>> between((4096, 8192, 8192), 1, (4096, 64, 64), (1, 8192, 8192), 1 << 30)[0]
    (4, 64, 1024)
    """
    first, last = no_larger(chunk, shape), no_larger(unit, shape)
    maximum = max(_MINIMUM, min(_MAXIMUM, budget // 16))
    minimum = min(_MINIMUM, math.prod(shape) * itemsize)

    def cost(c: Triple) -> tuple[int, int]:
        held = max(_both(first, c), _both(c, last)) * itemsize
        # Sweeps that fit are alike: they move as much.
        return (max(held, budget // 2).bit_length(), -math.prod(c))

    able = [
        (z, y, x)
        for z, y, x in product(*map(_ladder, first, last))
        if minimum <= z * y * x * itemsize <= maximum
    ]
    return sorted(able, key=cost)[:_TRIED]


def _both(a: Triple, b: Triple) -> int:
    """Voxels of the least box of whole chunks of two kinds, roughly."""
    return math.prod(map(max, a, b))


def _ladder(a: int, b: int) -> list[int]:
    """From one extent to another in steps of four."""
    low, high = min(a, b), max(a, b)
    found = [low]
    while found[-1] * 4 < high:
        found.append(found[-1] * 4)
    return [*found, high] if high > low else found
