"""Verify that a run is complete: compare its journal with its outputs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from typing import Any

from beam_volumes.base.geometry import Box
from beam_volumes.base.text import counted
from beam_volumes.runs.journal import ENDED, Journal, find_run
from beam_volumes.runs.manifest import Manifest
from beam_volumes.runs.record import Ranges, Record, count, indices, ranges, unpacked
from beam_volumes.storage.outputs import provenance
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.outputs.units import Listing, Reading
from beam_volumes.storage.places.ownership import OwnedOutput

#: Outputs, and parts of outputs, with cached listings.
_LISTED = 64


def verify(
    run: str | os.PathLike[str] | dict[str, Any], *, checksums: bool = False, max_problems: int = 1000
) -> list[str]:
    """Check that a run is complete and that its outputs can be read.

    Use it after a run, or after copying its outputs. Every slab of every pass must have its record.
    Every write unit in a record must exist and decode, and units recorded as empty must not exist.
    Tables must have all their shards.

    Parameters
    ----------
    run : str, os.PathLike or dict
        The first output of the run, its folder ``.run``, or the place of the journal; on a disk or
        in a bucket.
    checksums : bool, default: False
        Whether to compare voxels with the checksums from when they were written.
    max_problems : int, default: 1000
        Stop after this many problems.

    Returns
    -------
    list of str
        One line for each problem; empty if there is none.

    Raises
    ------
    FileNotFoundError
        If there is no run at that place.

    Notes
    -----
    All voxels are read. Nothing is unpickled, so untrusted runs can be verified.

    Examples
    --------
    >>> import os
    >>> _ = bv.compute(bv.open(np.ones((4, 5, 6), "u1")).to("out.zarr"), runner=None)
    >>> bv.verify("out.zarr")
    []
    >>> os.remove("out.zarr/c/0/0/0")
    >>> print(*bv.verify("out.zarr"))  # doctest: +ELLIPSIS
    pass 1, slab 0 [0:4, 0:5, 0:6]: unit 0 [0:4, 0:5, 0:6] of ...out.zarr is missing
    """
    return list(islice(Check.of(run, checksums).problems(), max_problems))


@dataclass
class Check:
    """A verification in progress, with counts."""

    journal: Journal
    manifest: Manifest
    checksums: bool = False
    slabs: int = 0
    written: int = 0
    empty: int = 0
    tables: int = 0
    #: Outputs with provenance.
    with_provenance: int = 0
    #: Units without a checksum, from older versions.
    unsummed: int = 0
    _sinks: dict[str, Sink] = field(default_factory=dict)
    _listings: dict[str, Listing] = field(default_factory=dict)
    _recorded: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Any, checksums: bool = False) -> Check:
        """Return the run at a place, see `verify`."""
        journal = find_run(run)
        manifest = Journal.load(journal.spec)
        assert manifest is not None
        return cls(journal, manifest, checksums)

    def problems(self) -> Iterator[str]:
        """Find problems one by one."""
        yield from self._outputs()
        for k, p in enumerate(self.manifest.passes):
            yield from self._pass(k, p)

    def summary(self) -> str:
        """Describe a successful verification."""
        parts = [counted(len(self.manifest.passes), "pass"), counted(self.slabs, "slab")]
        read = "read and compared with checksums" if self.checksums else "read"
        parts.append(f"{counted(self.written, 'unit')} {read}, {self.empty:,} empty")
        if self.unsummed:
            parts.append(f"{self.unsummed:,} of them without a checksum")
        if self.tables:
            parts.append(counted(self.tables, "table"))
        if self.with_provenance:
            parts.append(f"{counted(self.with_provenance, 'output')} with provenance")
        return f"{self.journal.url.rstrip('/')}: complete: {', '.join(parts)}"

    def _outputs(self) -> Iterator[str]:
        ended = self.journal.marked(ENDED)
        for output in self.manifest.outputs:
            if not isinstance(output, dict):
                raise ValueError(
                    f"{self.journal.url} was written by beam_volumes {self.manifest.package}, "
                    "before there was `verify`; its outputs are not described"
                )
            if ended and output["internal"]:  # removed when a run ends
                continue
            if "shape" not in output:
                self.tables += 1
                table = TableSink.from_dict(output)
                yield from table.problems(self.manifest.run_id, self.checksums)
                yield from self._provenance(table, ended)
                continue
            sink = Sink.from_dict(output)
            if sink.existing_run() == self.manifest.run_id:
                self._sinks[sink.name] = sink
                self._recorded[sink.name] = 0
                yield from self._provenance(sink, ended)
            else:
                yield f"{sink.name} is gone or was written by another run"

    def _provenance(self, sink: OwnedOutput, ended: bool) -> Iterator[str]:
        """Check the provenance of an output after the end of its run."""
        if not ended or not self.manifest.about:
            return
        found = provenance.written(sink)
        if found is None:
            yield f"{sink.name}: its provenance, {sink.provenance_key}, is missing or damaged"
        elif found["run"] != self.manifest.run_id:
            yield f"{sink.name}: {sink.provenance_key} belongs to another run, {found['run']}"
        else:
            self.with_provenance += 1

    def _pass(self, k: int, p: dict[str, Any]) -> Iterator[str]:
        missing = self.journal.missing(k, p["slabs"])
        for a, b in missing:
            slabs = f"slab {a}" if b == a + 1 else f"slabs {a} to {b - 1}"
            yield f"pass {k + 1}: {slabs} not finished"
        reading, lost = Reading(), count(missing)
        for slab, record in self.journal.read_records(k, _others(missing, p["slabs"])):
            if isinstance(record, Record):
                self.slabs += 1
                where = f"pass {k + 1}, slab {slab} {record.box}"
                yield from self._units(where, record, reading, p.get("lattices", {}))
            else:
                lost += 1
                yield f"pass {k + 1}, slab {slab}: {record or 'its record belongs to another run'}"
        yield from reading.rest()
        if lost:
            return
        if p["folds"] or p["surveys"]:
            yield from self._scalars(k)
        for name in {*p["outputs"]} & {*self._sinks}:
            units = self._sinks[name].unit_count
            if self._recorded[name] != units:
                yield f"{name}: {units - self._recorded[name]} of {units} units are in no record"

    def _scalars(self, k: int) -> Iterator[str]:
        try:
            if not self.journal.has_scalars(k):
                yield f"pass {k + 1}: its slabs are finished, but their results are not merged"
        except ValueError as error:
            yield f"pass {k + 1}: {error}"

    def _units(
        self, where: str, record: Record, reading: Reading, lattices: dict[str, Any]
    ) -> Iterator[str]:
        for name in {*record.written, *record.empty} & {*self._sinks}:
            sink = self._sinks[name]
            written, empty = record.written.get(name, ()), record.empty.get(name, ())
            self._recorded[name] += count(ranges(chain(indices(written), indices(empty))))
            self.written += count(written)
            self.empty += count(empty)
            sums = record.sums.get(name) if self.checksums else None
            if self.checksums and sums is None:
                self.unsummed += count(written)
            expected = repeat(None) if sums is None else unpacked(sums)
            for unit, checksum in zip(indices(written), expected, strict=False):
                part, own = sink.located(unit)
                box = part.grid.box(own)
                called = f"{where}: unit {own} {box} of {part.name}"
                if not _is_of(record, sink, part, box, lattices.get(name)):
                    yield f"{called} is not of that slab"
                elif self._listing(part).has(own):
                    yield from reading.read(called, part, own, checksum)
                else:
                    yield f"{called} is missing"
            for unit in indices(empty):
                part, own = sink.located(unit)
                box = part.grid.box(own)
                called = f"{where}: unit {own} {box} of {part.name}"
                if not _is_of(record, sink, part, box, lattices.get(name)):
                    yield f"{called} is not of that slab"
                elif self._listing(part).has(own):
                    yield f"{called} exists, but was recorded as empty"

    def _listing(self, part: Sink) -> Listing:
        """List the units of an output, or of a part of it; cached for a few."""
        if part.name not in self._listings:
            while len(self._listings) > _LISTED:
                del self._listings[next(iter(self._listings))]
            self._listings[part.name] = Listing(part)
        return self._listings[part.name]


def _is_of(record: Record, sink: Sink, part: Sink, box: Box, lattice: Any) -> bool:
    """Whether a unit belongs to the slab, or point in time, of a record."""
    if part is sink and lattice is not None:
        begins = [a + v * f for v, a, f in zip(box.start, *lattice, strict=True)]
        spans = zip(record.box.start, begins, record.box.stop, strict=True)
        return all(a <= v < b for a, v, b in spans)
    if part is sink:
        return record.box.contains(box)
    return part.at is not None and part.at[0] == record.box.start[0]


def _others(missing: Ranges, total: int) -> Iterator[int]:
    """Return the slabs that are not missing."""
    at = 0
    for a, b in (*missing, (total, total)):
        yield from range(at, a)
        at = b
