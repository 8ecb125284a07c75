"""Memory that reading and writing need in addition to the arrays."""

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
    """Estimate the maximal bytes for reading sources, in addition to the arrays that are filled.

    ``stacks`` has one source of each stack of channels, which are decoded into an additional array.
    """
    # Sweeps share one lane for local and one for remote sources. Chunks in flight exist decoded and, if
    # compressed, encoded (equally large in the worst case); the allocator keeps some more. Measured with
    # incompressible voxels on two threads: 25 to 36 MB for chunks of 4 MiB, 129 MB for chunks of 64 MiB.
    total = KEPT if sources else 0
    for remote in (False, True):
        lane = [s for s in sources if s.reader.remote == remote]
        maximum = touched = decoding = 0
        for source in lane:
            flying = in_flight(source.chunk_bytes, threads, remote)
            copies = 1
            if source.decode_bytes:
                # In addition to the encoded file, there are the decoded slice and a buffer of one chunk with
                # all its channels. The measured memory is twice that.
                several = min(WAITING, flying // source.chunk_bytes) if remote else threads
                others = (source.channels_per_chunk - 1) * source.chunk_bytes
                buffers = 2 * source.decode_bytes + 2 * others
                decoding = max(decoding, max(1, several) * buffers)
            elif source.encoded:
                copies = 2
            maximum = max(maximum, copies * flying)
            touched += copies * _touched_bytes(source)
        # Small volumes have fewer bytes in flight than the limit.
        total += min(maximum, touched) + decoding
    return total + max((_of_all_channels(source, threads) for source in stacks), default=0)


def _of_all_channels(source: Source, threads: int) -> int:
    """Return the bytes in flight of units with all their channels."""
    unit = source.chunk_bytes * source.channels_per_chunk
    flying = in_flight(unit, threads, source.reader.remote)
    return min(flying, _touched_bytes(source) * source.channels_per_chunk)


def _touched_bytes(source: Source) -> int:
    whole = [-(-n // c) * c for n, c in zip(source.shape, source.chunk, strict=True)]
    return max(math.prod(whole) * source.dtype.itemsize, source.chunk_bytes)


def write_overhead_bytes(
    written: Sequence[tuple[Sink, Sequence[int]]], threads: int = 1, sweeps: int = 1
) -> int:
    """Estimate the maximal bytes for writing, in addition to the arrays that are written.

    Each of the ``sweeps`` writes a box of a shape to each sink.
    """
    # Sweeps share one lane for local and one for remote sinks. Units in flight exist copied and encoded
    # (equally large in the worst case), and once more while blosc runs; one is being assembled. Measured with
    # incompressible voxels on two threads: 24 to 61 MB for chunks of 4 MiB, 130 to 193 MB for chunks and
    # shards of 64 MiB.
    total = KEPT if written else 0
    for remote in (False, True):
        maximum = boxes = unit = 0
        for sink, shape in written:
            if remote != sink.remote:
                continue
            copies = sink.writer.copies(sink)
            units = math.prod(-(-n // u) for n, u in zip(shape, sink.unit, strict=True))
            maximum = max(maximum, copies * in_flight(sink.unit_bytes, threads, remote))
            boxes += sweeps * copies * units * sink.unit_bytes
            unit = max(unit, sink.unit_bytes)
        total += min(maximum, boxes) + unit
    return total
