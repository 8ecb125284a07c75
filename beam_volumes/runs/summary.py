"""The cost of a run, from its records."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from beam_volumes.runs.journal import Journal, Tally


@dataclass(frozen=True)
class Summary:
    """The cost of a run, from its records."""

    #: Finished slabs, and the number of them that were started more than once.
    slabs: int
    redone: int
    seconds: float  #: Time with at least one running slab; without pauses before a resume.
    slab_seconds: float  #: Sum of the durations of slabs.
    voxels: int  #: Sum over all passes.
    bytes_read: int
    bytes_written: int
    peak_memory: int  #: Maximum of all processes.

    @property
    def voxels_per_second(self) -> float:
        return self.voxels / self.seconds if self.seconds > 0 else 0.0


class Costs:
    """Adds up new records of tallies, each once: there may be millions."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._slabs = self._redone = self._voxels = self._read = self._written = self._peak = 0
        self._spans = array("d")

    def add(self, pass_index: int, tally: Tally, maximum: int) -> None:
        """Add up to ``maximum`` new records of a tally.

        Raises ValueError: a record is damaged; it is read again the next time.
        """
        new = tally.new[-maximum:]
        records = []
        for _, r in self._journal.read_records(pass_index, new, bodies=False):
            if isinstance(r, ValueError):
                raise r
            if r is not None:
                records.append(r)
        self._redone += self._done_again(pass_index, tally.filled)
        del tally.new[len(tally.new) - len(new) :]
        tally.filled.clear()
        for r in records:
            self._slabs += 1
            self._voxels += r.box.size
            self._read += r.bytes_read
            self._written += r.bytes_written
            self._peak = max(self._peak, r.peak_memory)
            self._spans.extend((r.started, r.ended))

    def _done_again(self, pass_index: int, folders: Iterable[range]) -> int:
        """The number of slabs in folders that were started more than once."""
        among = (self._journal.attempts_among(pass_index, folder) for folder in folders)
        return sum(n > 1 for attempts in among for n in attempts.values())

    def summary(self, tallies: Sequence[Tally]) -> Summary:
        """The sums so far, and the repeated slabs of tallies."""
        times = np.frombuffer(self._spans).reshape(-1, 2)
        return Summary(
            slabs=self._slabs,
            redone=self._redone
            + sum(self._done_again(k, tally.unfilled) for k, tally in enumerate(tallies)),
            seconds=_covered(times),
            slab_seconds=float((times[:, 1] - times[:, 0]).sum()),
            voxels=self._voxels,
            bytes_read=self._read,
            bytes_written=self._written,
            peak_memory=self._peak,
        )


def _covered(spans: np.ndarray) -> float:
    """The length of a union of intervals."""
    if not len(spans):
        return 0.0
    spans = spans[np.argsort(spans[:, 0])]
    before = np.maximum.accumulate(spans[:-1, 1])
    gaps = np.maximum(0.0, spans[1:, 0] - before)
    return float(spans[:, 1].max() - spans[0, 0] - gaps.sum())
