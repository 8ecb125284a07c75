"""What reading and writing take of memory, beside the arrays that are filled and written."""

from __future__ import annotations

import math
from collections.abc import Sequence

from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.context import WAITING
from beam_volumes.storage.places.transfer import KEPT, in_flight
from beam_volumes.storage.sources.source import Source


def read_overhead_bytes(
    sources: Sequence[Source], threads: int = 1, stacks: Sequence[Source] = ()
) -> int:
    """About how many bytes a process takes to read sources, beside the arrays it fills, at most.

    Its sweeps share a lane for what is local and one for what is not. The chunks in flight are held
    decoded and, if a codec compresses, encoded too (as large as decoded when they do not compress);
    the allocator keeps some more. With incompressible voxels on two threads 25 to 36 MB were measured
    for chunks of 4 MiB, 129 MB for chunks of 64 MiB.

    ``stacks`` are those, one of each, whose units hold channels that are read together: what is decoded
    for all of them is copied to each from one array more.
    """
    total = KEPT if sources else 0
    for remote in (False, True):
        lane = [s for s in sources if s.reader.remote == remote]
        most = touched = decoding = 0
        for source in lane:
            flying = in_flight(source.chunk_bytes, threads, remote)
            copies = 1
            if source.decode_bytes:
                # A slice is decoded beside the buffer it is copied to, its file in memory. The buffer is
                # one of a chunk: of all channels that lie in it. Measured is once more as much.
                several = min(WAITING, flying // source.chunk_bytes) if remote else threads
                others = (source.channels_per_chunk - 1) * source.chunk_bytes
                held = 2 * source.decode_bytes + 2 * others
                decoding = max(decoding, max(1, several) * held)
            elif source.encoded:
                copies = 2
            most = max(most, copies * flying)
            touched += copies * _touched_bytes(source)
        # Volumes smaller than what may fly do not fill it.
        total += min(most, touched) + decoding
    return total + max((_of_all_channels(source, threads) for source in stacks), default=0)


def _of_all_channels(source: Source, threads: int) -> int:
    """Bytes of units with all their channels, as they wait to be shared out."""
    unit = source.chunk_bytes * source.channels_per_chunk
    flying = in_flight(unit, threads, source.reader.remote)
    return min(flying, _touched_bytes(source) * source.channels_per_chunk)


def _touched_bytes(source: Source) -> int:
    """Bytes of all the source's chunks."""
    whole = [-(-n // c) * c for n, c in zip(source.shape, source.chunk, strict=True)]
    return max(math.prod(whole) * source.dtype.itemsize, source.chunk_bytes)


def write_overhead_bytes(
    written: Sequence[tuple[Sink, Sequence[int]]], threads: int = 1, sweeps: int = 1
) -> int:
    """About how many bytes a process takes to write, beside the arrays it writes from, at most.

    Each of its ``sweeps`` writes a box of a shape to each sink; they share a lane for what is local and
    one for what is not. The units in flight are held copied and encoded (as large again when they do
    not compress), and once more while blosc works; one is being put together. With incompressible
    voxels on two threads 24 to 61 MB were measured for chunks of 4 MiB, 130 to 193 MB for chunks and
    shards of 64 MiB.
    """
    total = KEPT if written else 0
    for remote in (False, True):
        most = boxes = unit = 0
        for sink, shape in written:
            if remote != sink.remote:
                continue
            copies = sink.writer.copies(sink)
            units = math.prod(-(-n // u) for n, u in zip(shape, sink.unit, strict=True))
            most = max(most, copies * in_flight(sink.unit_bytes, threads, remote))
            boxes += sweeps * copies * units * sink.unit_bytes
            unit = max(unit, sink.unit_bytes)
        total += min(most, boxes) + unit
    return total
