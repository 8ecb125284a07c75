"""Random access to the decoded bytes of one gzip or zlib stream.

Such a stream can only be decoded from its beginning. The first pass keeps at most `MARKS` states of
the decoder. Later reads continue from the nearest state before their position, or from the end of
an earlier read. Threads read in parallel, each with its own decoder.
"""

from __future__ import annotations

import bisect
import os
import threading
import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from beam_volumes.base.text import printable
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.positioned import kept_of, reading

#: Decoder states kept per file, of about 40 KiB each.
MARKS = 256
#: Decoder states kept at the ends of recent reads.
_RECENT = 16
#: Minimum of decoded bytes between two kept states.
SPACING = 1 << 20
#: Bytes read, and decoded, at a time.
_INPUT, _OUTPUT = 256 << 10, 1 << 20
#: Maximal compression ratio of deflate; a file that declares more is invalid.
MAXIMUM = 1032
#: The ``wbits`` argument of `zlib.decompressobj`.
_WBITS = {"gzip": 31, "zlib": 15}


@dataclass
class _State:
    """A decoder after ``position`` bytes of output; ``at`` is the next input byte."""

    position: int
    at: int
    decoder: Any
    ended: bool = False

    def copy(self) -> _State:
        return _State(self.position, self.at, self.decoder.copy(), self.ended)


@dataclass(eq=False)
class Inflated:
    """The decoded bytes of a stream in a local file."""

    path: str
    kind: str  #: ``"gzip"``, possibly of several members, or ``"zlib"``
    start: int  #: Where the stream begins in the file
    #: Decoded bytes that are needed; reading the last of them decodes the rest, and checks its checksum
    nbytes: int
    spacing: int = SPACING  #: Decoded bytes between two kept states
    decoded: int = 0  # used by tests
    _verified: bool = field(default=False, repr=False)
    _marks: list[_State] = field(default_factory=list, repr=False)
    _frontier: _State = field(init=False, repr=False)
    _recent: dict[int, _State] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _going_on: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._marks.append(_State(0, self.start, self._new()))
        self._frontier = self._marks[0].copy()

    def read(self, position: int, size: int) -> bytes:
        """Read decoded bytes; a damaged or truncated stream raises `VolumeError`."""
        with reading(self.path) as handle:
            if position >= self._frontier.position:
                # This part was never decoded: one thread at a time continues and keeps states.
                with self._going_on:
                    if position >= self._frontier.position:
                        return self._from(self._frontier, handle, position, size, marking=True)
            state = self._before(position)
            data = self._from(state, handle, position, size)
            with self._lock:
                self._recent[state.position] = state
                while len(self._recent) > _RECENT:
                    del self._recent[next(iter(self._recent))]
            return data

    def length(self) -> int:
        """Decode the whole stream and return its number of bytes."""
        with reading(self.path) as handle, self._going_on:
            state = self._frontier
            try:
                while self._step(state, handle, min(_OUTPUT, self.spacing)):
                    self._mark(state)
            except zlib.error as error:
                raise self._damaged(state, error, marking=True) from None
            self._check_end(state)
            return state.position

    def _check_end(self, state: _State) -> None:
        """Refuse a stream that ends before its checksum."""
        if not state.ended:
            raise VolumeError(f"{self._name} is cut off: its stream does not end; restore it")

    def _mark(self, state: _State) -> None:
        """Keep a state of the decoder if the last kept one is far enough away."""
        if state.position - self._marks[-1].position >= self.spacing:
            with self._lock:
                self._marks.append(state.copy())

    def _damaged(self, state: _State, error: zlib.error, marking: bool) -> VolumeError:
        if marking:  # do not continue from a damaged state
            self._frontier = self._marks[-1].copy()
        return VolumeError(f"{self._name} is damaged near byte {state.at:,}: {error}; restore it")

    def _before(self, position: int) -> _State:
        """Return a decoder at or before a position, exclusive to the caller."""
        with self._lock:
            at = bisect.bisect_right(self._marks, position, key=lambda m: m.position) - 1
            mark = self._marks[at]
            last = max((p for p in self._recent if p <= position), default=-1)
            return self._recent.pop(last) if last > mark.position else mark.copy()

    def _from(
        self, state: _State, handle: int, position: int, size: int, marking: bool = False
    ) -> bytes:
        parts, left, end = [], size, position + size
        try:
            while left:
                skip = position - state.position
                data = self._step(state, handle, min(_OUTPUT, self.spacing, skip or left))
                if not data:
                    raise VolumeError(
                        f"{self._name} ends after {state.position:,} bytes of voxels and header instead "
                        f"of {end:,}; restore it"
                    )
                if skip <= 0:
                    parts.append(data)
                    left -= len(data)
                    position += len(data)
                if marking:
                    self._mark(state)
            if end >= self.nbytes and not self._verified:
                rest = state.copy()
                while self._step(rest, handle, _OUTPUT):
                    pass
                self._check_end(rest)
                self._verified = True
        except zlib.error as error:
            raise self._damaged(state, error, marking) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _step(self, state: _State, handle: int, maximum: int) -> bytes:
        """Decode up to ``maximum`` more bytes; none at the end of the stream."""
        while not state.ended:
            if state.decoder.eof:
                # Another member may follow; anything else is padding.
                if self.kind != "gzip" or os.pread(handle, 2, state.at) != b"\x1f\x8b":
                    state.ended = True
                    break
                state.decoder = self._new()
            given = os.pread(handle, _INPUT, state.at)
            data = state.decoder.decompress(given, maximum)
            rest = state.decoder.unused_data if state.decoder.eof else state.decoder.unconsumed_tail
            state.at += len(given) - len(rest)
            state.position += len(data)
            if data:
                self.decoded += len(data)
                return bytes(data)
            if not given and not state.decoder.eof:
                break
        return b""

    def _new(self) -> Any:
        return zlib.decompressobj(_WBITS[self.kind])

    @property
    def _name(self) -> str:
        return printable(self.path)


def inflated(path: str, kind: str, start: int, nbytes: int) -> Inflated:
    """Return the stream at a position of a file, shared by the process."""
    spacing = max(SPACING, -(-nbytes // MARKS))
    make = partial(Inflated, path, kind, start, nbytes, spacing)
    return kept_of(f"inflated {kind} {start}", path, make)  # type: ignore[no-any-return]


def beginning(path: str, size: int) -> bytes:
    """Return the first decoded bytes of a gzip file, up to ``size``; none if it is not gzip."""
    try:
        with open(path, "rb") as file:
            given = file.read(_INPUT)
        return zlib.decompressobj(31).decompress(given, size) if given else b""
    except (OSError, zlib.error):
        return b""
