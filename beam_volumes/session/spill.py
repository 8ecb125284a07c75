"""Store values for later steps of a run in this process on disk."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterable
from typing import Any, NamedTuple

from beam_volumes.across.rounds.flow import Key, group_by_key

#: Pickles up to this size stay in memory: a place on disk takes about as much.
_SMALL = 512


class Kept(NamedTuple):
    """The place of a value in the file, its pickle, or the value itself."""

    offset: int
    length: int
    data: bytes | None
    value: Any = None


class Spill:
    """Keeps values of any number and size, pickled, in a temporary file.

    Examples
    --------
    >>> with Spill() as spill:
    ...     some = [spill.keep(value) for value in (1, "ab" * 1000)]
    ...     [value[:4] if isinstance(value, str) else value for value in map(spill.value, some)]
    [1, 'abab']
    """

    def __init__(self) -> None:
        self._file: Any = None
        self._end = 0

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._file is not None:
            self._file.close()

    def hold(self, value: Any) -> Kept:
        """Keep a value in memory, for a step that begins with it."""
        return Kept(0, 0, None, value)

    def keep(self, value: Any) -> Kept:
        data = pickle.dumps(value, protocol=5)
        if len(data) <= _SMALL:
            return Kept(0, len(data), data)
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="beam-volumes-")  # noqa: SIM115
        kept = Kept(self._end, len(data), None)
        written = 0
        while written < len(data):
            written += os.pwrite(
                self._file.fileno(), memoryview(data)[written:], self._end + written
            )
        self._end += len(data)
        return kept

    def value(self, kept: Kept) -> Any:
        if kept.value is not None:
            return kept.value
        if kept.data is not None:
            return pickle.loads(kept.data)
        data = b""
        while len(data) < kept.length:
            at = kept.offset + len(data)
            more = os.pread(self._file.fileno(), kept.length - len(data), at)
            if not more:
                raise OSError("the temporary file of this run was truncated")
            data = data + more if data else more
        return pickle.loads(data)

    def group(self, pairs: list[tuple[Key, Any]]) -> Iterable[tuple[Key, list[Any]]]:
        """Group for `beam_volumes.across.rounds.flow.run`: loads one key's values at a time."""
        for key, values in group_by_key(pairs):
            yield key, [self.value(v) for v in values]
