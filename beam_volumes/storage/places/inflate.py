"""Random access to what one stream of gzip or zlib holds.

Such a stream can only be decoded from its beginning. While that is done for the first time, states of the
decoder are kept, at most `MARKS` of them; later reads go on from the one before what they need, or from
where a read before them ended. They do so on as many threads as there are, for each has a decoder of its
own.
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

#: States of a decoder that are kept for a file: of about 40 KiB each.
MARKS = 256
#: States that are kept at the ends of the last reads, for what comes next.
_RECENT = 16
#: At least so many decoded bytes lie between two of them.
SPACING = 1 << 20
#: What is read of a file, and decoded, at a time.
_INPUT, _OUTPUT = 256 << 10, 1 << 20
#: A byte of deflate stands for no more than this many: a file that claims more lies.
MAXIMUM = 1032
#: What decides how a stream begins, as `zlib.decompressobj` counts.
_WBITS = {"gzip": 31, "zlib": 15}


@dataclass
class _State:
    """A decoder after ``position`` bytes of output; the next byte of input is that at ``at``."""

    position: int
    at: int
    decoder: Any
    ended: bool = False

    def copy(self) -> _State:
        return _State(self.position, self.at, self.decoder.copy(), self.ended)


@dataclass(eq=False)
class Inflated:
    """A stream in a local file, as the bytes that it holds."""

    path: str
    kind: str  #: ``"gzip"``, also of several members, or ``"zlib"``
    start: int  #: Where the stream begins in the file
    #: How many bytes of it are needed: whoever reads the last of them sees whether the checksum is
    #: right
    nbytes: int
    spacing: int = SPACING  #: Decoded bytes between two states that are kept
    decoded: int = 0  # tests look at it
    _marks: list[_State] = field(default_factory=list, repr=False)
    _frontier: _State = field(init=False, repr=False)
    _recent: dict[int, _State] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _going_on: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._marks.append(_State(0, self.start, self._new()))
        self._frontier = self._marks[0].copy()

    def read(self, position: int, size: int) -> bytes:
        """Read decoded bytes; a stream that is cut off or damaged is a `VolumeError`."""
        with reading(self.path) as handle:
            if position >= self._frontier.position:
                # Nobody has been here: one thread at a time goes on, and leaves marks.
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
        """How many bytes the stream holds: it is decoded to its end, once."""
        with reading(self.path) as handle, self._going_on:
            state = self._frontier
            try:
                while self._step(state, handle, min(_OUTPUT, self.spacing)):
                    self._mark(state)
            except zlib.error as error:
                raise self._damaged(state, error, marking=True) from None
            if not state.ended:
                raise VolumeError(f"{self._name} is cut off: its stream does not end; restore it")
            return state.position

    def _mark(self, state: _State) -> None:
        """Keep a state of the decoder, if the last one that was kept is far behind."""
        if state.position - self._marks[-1].position >= self.spacing:
            with self._lock:
                self._marks.append(state.copy())

    def _damaged(self, state: _State, error: zlib.error, marking: bool) -> VolumeError:
        if marking:  # what is damaged is not gone on with
            self._frontier = self._marks[-1].copy()
        return VolumeError(f"{self._name} is damaged near byte {state.at:,}: {error}; restore it")

    def _before(self, position: int) -> _State:
        """A decoder that is not beyond a position, and for its caller alone."""
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
                        f"{self._name} ends after {state.position:,} bytes of voxels and header, and "
                        f"{end:,} are said to be there; restore it"
                    )
                if skip <= 0:
                    parts.append(data)
                    left -= len(data)
                    position += len(data)
                if marking:
                    self._mark(state)
            if state.position == self.nbytes:
                rest = state.copy()
                self._step(rest, handle, _OUTPUT)
                self._step(rest, handle, _OUTPUT)
        except zlib.error as error:
            raise self._damaged(state, error, marking) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _step(self, state: _State, handle: int, most: int) -> bytes:
        """Some bytes more, no more than ``most``; none at the end of the stream."""
        while not state.ended:
            if state.decoder.eof:
                # Another member may follow; what else follows is padding.
                if self.kind != "gzip" or os.pread(handle, 2, state.at) != b"\x1f\x8b":
                    state.ended = True
                    break
                state.decoder = self._new()
            given = os.pread(handle, _INPUT, state.at)
            data = state.decoder.decompress(given, most)
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
    """The stream at a position of a file; the process keeps states of its decoder."""
    spacing = max(SPACING, -(-nbytes // MARKS))
    make = partial(Inflated, path, kind, start, nbytes, spacing)
    return kept_of(f"inflated {kind} {start}", path, make)  # type: ignore[no-any-return]


def beginning(path: str, size: int) -> bytes:
    """What a gzip file holds first, up to ``size`` bytes; none if it is no such file."""
    try:
        with open(path, "rb") as file:
            given = file.read(_INPUT)
        return zlib.decompressobj(31).decompress(given, size) if given else b""
    except (OSError, zlib.error):
        return b""
