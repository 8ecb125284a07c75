"""What a run has cost, from its records."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from beam_volumes.runs.journal import Journal, Tally


@dataclass(frozen=True)
class Summary:
    """What a run has cost, from its records."""

    #: `slabs`, `redone`: Finished ones, and how many of them were started more than once.
    slabs: int
    redone: int
    seconds: (
        float  #: In which at least one slab was under way; pauses before a resume do not count.
    )
    slab_seconds: float  #: The sum over slabs.
    voxels: int  #: Of the slabs of all passes.
    bytes_read: int
    bytes_written: int
    peak_memory: int  #: Of any process.

    @property
    def voxels_per_second(self) -> float:
        return self.voxels / self.seconds if self.seconds > 0 else 0.0


class Costs:
    """Adds up records, each once, as tallies come to know of them: there may be millions."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._slabs = self._redone = self._voxels = self._read = self._written = self._peak = 0
        self._spans = array("d")

    def add(self, pass_index: int, tally: Tally, most: int) -> None:
        """Add what is new in a tally, of so many records at most.

        Raises ValueError: A record is damaged; it is asked for again the next time.
        """
        new = tally.new[-most:]
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
        """How many slabs of folders were started more than once."""
        among = (self._journal.attempts_among(pass_index, folder) for folder in folders)
        return sum(n > 1 for attempts in among for n in attempts.values())

    def summary(self, tallies: Sequence[Tally]) -> Summary:
        """What has been added so far, and of the slabs of tallies those done more than once."""
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
