"""The record of a finished slab."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box
from beam_volumes.base.text import parsed_json

#: Maximum size of a record; larger data is stored as a payload.
LIMIT = 64_000

#: Sorted, disjoint, half-open ranges of indices.
Ranges = tuple[tuple[int, int], ...]


def ranges(indices: Iterable[int]) -> Ranges:
    """Indices as ranges.

    >>> ranges([7, 0, 1, 2, 8])
    ((0, 3), (7, 9))
    """
    found: list[list[int]] = []
    for i in sorted(set(map(int, indices))):
        if found and found[-1][1] == i:
            found[-1][1] = i + 1
        else:
            found.append([i, i + 1])
    return tuple((a, b) for a, b in found)


def indices(spans: Ranges) -> chain[int]:
    """The indices in ranges."""
    return chain.from_iterable(range(a, b) for a, b in spans)


def count(spans: Ranges) -> int:
    """The number of indices in ranges."""
    return sum(b - a for a, b in spans)


def packed(sums: Iterable[int]) -> bytes:
    """Checksums as bytes, four each.

    >>> list(unpacked(packed([7, 1 << 31])))
    [7, 2147483648]
    """
    return np.fromiter(sums, "<u4").tobytes()


def unpacked(data: bytes) -> list[int]:
    """The checksums in bytes."""
    return np.frombuffer(data, "<u4").tolist()


@dataclass(frozen=True)
class Record:
    """A finished slab: its voxels are written, and these are its results."""

    slab: int  #: Index in the pass's slab grid.
    box: Box  #: The voxels of the slab.
    attempt: str = ""  #: The attempt that finished, from `Journal.start`.
    #: Start in seconds since the epoch, and duration.
    started: float = 0.0
    seconds: float = 0.0
    #: Bytes read and written, and the peak memory of the whole process.
    bytes_read: int = 0
    bytes_written: int = 0
    peak_memory: int = 0
    #: For each output, ranges of the written write units, and in ``empty`` of units with only the
    #: fill value, which are not stored.
    written: Mapping[str, Ranges] = field(default_factory=dict)
    empty: Mapping[str, Ranges] = field(default_factory=dict)
    emission: bytes = b""  #: Its results, apart from voxels.
    #: For each output, the `packed` checksums of the written units.
    sums: Mapping[str, bytes] = field(default_factory=dict)
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)

    @property
    def ended(self) -> float:
        return self.started + self.seconds


def new_attempt() -> str:
    """A name for an attempt; later names sort after earlier ones."""
    return f"{time.time_ns() // 1_000_000:011x}{os.urandom(4).hex()}"


def encode(record: Record, run_id: str, payload: str) -> tuple[bytes, bytes | None]:
    """A record as bytes, and the content of the key ``payload`` to be written before, if any."""
    units = zlib.compress(
        json.dumps([_steps(record.written), _steps(record.empty)], separators=(",", ":")).encode()
    )
    sums = b"".join(record.sums.values())
    body = units + sums + record.emission
    head = {
        "run": run_id,
        "slab": record.slab,
        "box": [record.box.start, record.box.stop],
        "attempt": record.attempt,
        "started": record.started,
        "seconds": record.seconds,
        "bytes_read": record.bytes_read,
        "bytes_written": record.bytes_written,
        "peak_memory": record.peak_memory,
        "host": record.host,
        "pid": record.pid,
        "units": len(units),
        "sums": {name: len(data) for name, data in record.sums.items()},
        "length": len(body),
        "digest": _digest(body),
        "payload": None,
    }
    line = _line(head)
    if len(line) + len(body) <= LIMIT:
        return line + body, None
    return _line({**head, "payload": payload}), body


def seal(body: bytes, run_id: str) -> bytes:
    """Add a line with the run and a digest to bytes."""
    return _line({"run": run_id, "digest": _digest(body)}) + body


def unseal(data: bytes, run_id: str) -> bytes:
    """The inverse of `seal`; raises ValueError if run or digest differ."""
    head, body = split(data)
    if head.get("run") != run_id:
        raise ValueError("it belongs to a different run")
    if head.get("digest") != _digest(body):
        raise ValueError("its contents do not match their digest")
    return body


def split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """A stored record's head and inline body; raises ValueError if it is damaged."""
    line, newline, body = data.partition(b"\n")
    if not newline:
        raise ValueError("it is truncated")
    head = parsed_json(line)
    if not isinstance(head, dict):
        raise ValueError("it is not a record")
    return head, body


def decode(head: dict[str, Any], body: bytes | None) -> Record:
    """The record of a head and its body; without units and emission if the body is None."""
    written: dict[str, Ranges] = {}
    empty: dict[str, Ranges] = {}
    sums: dict[str, bytes] = {}
    emission = b""
    try:
        if body is not None:
            if len(body) != head["length"] or _digest(body) != head["digest"]:
                raise ValueError("its contents do not match their digest")
            steps = parsed_json(zlib.decompress(body[: head["units"]]))
            written, empty = map(_spans, steps)
            at = head["units"]
            for name, length in head.get("sums", {}).items():
                sums[name] = body[at : at + length]
                at += length
            emission = body[at:]
        start, stop = (tuple(map(int, corner)) for corner in head["box"])
        names = ("slab", "attempt", "started", "seconds", "bytes_read", "bytes_written")
        kept = {name: head[name] for name in (*names, "peak_memory", "host", "pid")}
    except (KeyError, TypeError, zlib.error) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    box = Box(start, stop)  # type: ignore[arg-type]
    return Record(box=box, written=written, empty=empty, emission=emission, sums=sums, **kept)


def _line(head: dict[str, Any]) -> bytes:
    return json.dumps(head, default=int).encode() + b"\n"  # default: numpy's integers


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _steps(units: Mapping[str, Ranges]) -> dict[str, list[int]]:
    # Gaps and lengths compress well, because the units of a tile repeat.
    found = {}
    for output, spans in units.items():
        last, steps = 0, []
        for a, b in spans:
            steps += [int(a) - last, int(b) - int(a)]
            last = int(b)
        found[output] = steps
    return found


def _spans(packed: dict[str, list[int]]) -> dict[str, Ranges]:
    units = {}
    for output, steps in packed.items():
        last, spans = 0, []
        for gap, length in zip(steps[::2], steps[1::2], strict=True):
            spans.append((last + gap, last + gap + length))
            last += gap + length
        units[output] = tuple(spans)
    return units
