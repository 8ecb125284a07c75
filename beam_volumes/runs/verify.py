"""Verify that a run is complete: compare its journal with its outputs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, repeat
from typing import Any

from beam_volumes.base.geometry import Box
from beam_volumes.base.text import counted, parsed_json
from beam_volumes.runs.failure import as_data, may_pass, revived
from beam_volumes.runs.journal import ENDED, Journal, find_run
from beam_volumes.runs.manifest import Manifest, compare
from beam_volumes.runs.record import Ranges, Record, count, indices, ranges, unpacked
from beam_volumes.storage.outputs import provenance
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.outputs.units import Listing, Reading
from beam_volumes.storage.places.ownership import OutputExistsError, OwnedOutput
from beam_volumes.storage.places.place import Spec, join, kvstore_spec

#: Outputs, and parts of outputs, with cached listings.
_LISTED = 64
#: Maximum number of items; more slabs are checked in ranges.
_ITEMS = 20_000
#: Shards of a table in an item.
_SHARDS = 64

#: The field of a verification's fingerprint that names the run.
_VERIFIES = "verified run"


@dataclass
class Findings:
    """The result of checking a part of a run; counts add up."""

    slabs: int = 0
    written: int = 0
    empty: int = 0
    tables: int = 0
    #: Outputs with provenance.
    with_provenance: int = 0
    #: Units without a checksum, from older versions.
    unsummed: int = 0
    #: Slabs without a record, and the number of these and of damaged records.
    missing: Ranges = ()
    lost: int = 0
    #: The number of recorded units of each output.
    recorded: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Add the counts of another part."""
        for name in ("slabs", "written", "empty", "tables", "with_provenance", "unsummed", "lost"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name, units in other.recorded.items():
            self.recorded[name] = self.recorded.get(name, 0) + units

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Findings:
        found = parsed_json(data)
        return cls(**{**found, "missing": tuple((a, b) for a, b in found["missing"])})


@dataclass(frozen=True)
class Check:
    """A verification of a run, divided into items: parts of outputs, and ranges of slabs.

    Items are checked independently, in any process. `report` takes their findings in order.
    """

    journal: Journal
    manifest: Manifest
    checksums: bool
    #: Parts of outputs: index of the output, part, and number of its parts.
    parts: tuple[tuple[int, int, int], ...]
    #: Maximum number of problems of an item.
    max_problems: int = 1000
    total: Findings = field(default_factory=Findings, init=False, compare=False)
    _sinks: dict[str, Sink | None] = field(default_factory=dict, init=False, compare=False)
    _listings: dict[str, Listing] = field(default_factory=dict, init=False, compare=False)

    @classmethod
    def of(cls, run: Any, checksums: bool = False, max_problems: int = 1000) -> Check:
        """Return the check of the run at a place, see `drive.verify.verify`."""
        journal = find_run(run)
        manifest = Journal.load(journal.spec)
        assert manifest is not None
        parts: list[tuple[int, int, int]] = []
        for i, output in enumerate(manifest.outputs):
            if not isinstance(output, dict):
                raise ValueError(
                    f"{journal.url} was written by beam_volumes {manifest.package}, which did not "
                    "yet describe outputs for `verify`; run it again with this version"
                )
            is_table = "shape" not in output
            shards = TableSink.from_dict(output).shard_count() if is_table else 1
            of = max(1, -(-shards // _SHARDS))
            parts += [(i, part, of) for part in range(of)]
        return cls(journal, manifest, checksums, tuple(parts), max_problems)

    def alike(self) -> Check:
        """Return a check of the same run for another thread."""
        return replace(self)

    # items

    @property
    def _width(self) -> int:
        """The number of slabs in an item."""
        return max(1, -(-sum(p["slabs"] for p in self.manifest.passes) // _ITEMS))

    @property
    def items_of_passes(self) -> list[int]:
        """The number of items of each pass."""
        return [-(-p["slabs"] // self._width) for p in self.manifest.passes]

    def __len__(self) -> int:
        return len(self.parts) + sum(self.items_of_passes)

    def item(self, index: int) -> Findings:
        """Check an item: a part of an output, or a range of slabs of a pass."""
        found = Findings()
        for problem in self._item(index, found):
            if len(found.problems) >= self.max_problems:
                break
            found.problems.append(problem)
        return found

    def _item(self, index: int, found: Findings) -> Iterator[str]:
        if index < len(self.parts):
            yield from self._output(*self.parts[index], found)
            return
        index -= len(self.parts)
        for k, items in enumerate(self.items_of_passes):
            if index < items:
                first = index * self._width
                last = min(first + self._width, self.manifest.passes[k]["slabs"])
                yield from self._slabs(k, range(first, last), found)
                return
            index -= items

    # the whole

    def report(self, items: Iterable[Findings]) -> Iterator[str]:
        """Yield the problems in order, given the findings of all items in order."""
        left = iter(items)
        for _ in self.parts:
            found = next(left)
            self.total.add(found)
            yield from found.problems
        for k, count_ in enumerate(self.items_of_passes):
            of_pass, open_ = Findings(), (0, 0)
            for _ in range(count_):
                found = next(left)
                of_pass.add(found)
                for a, b in found.missing:
                    if a != open_[1]:
                        yield from _unfinished(k, open_)
                    open_ = (open_[0] if a == open_[1] and open_[0] < open_[1] else a, b)
                yield from found.problems
            yield from _unfinished(k, open_)
            self.total.add(of_pass)
            if not of_pass.lost:
                yield from self._end_of_pass(k, of_pass.recorded)

    def summary(self) -> str:
        """Describe a successful verification."""
        total = self.total
        parts = [counted(len(self.manifest.passes), "pass"), counted(total.slabs, "slab")]
        read = "read and compared with checksums" if self.checksums else "read"
        parts.append(f"{counted(total.written, 'unit')} {read}, {total.empty:,} empty")
        if total.unsummed:
            parts.append(f"{total.unsummed:,} of them without a checksum")
        if total.tables:
            parts.append(counted(total.tables, "table"))
        if total.with_provenance:
            parts.append(f"{counted(total.with_provenance, 'output')} with provenance")
        return f"{self.journal.url.rstrip('/')}: complete: {', '.join(parts)}"

    def _end_of_pass(self, k: int, recorded: dict[str, int]) -> Iterator[str]:
        """Check the results of a pass with all records."""
        p = self.manifest.passes[k]
        if p["folds"] or p["surveys"]:
            yield from self._scalars(k)
        for name in dict.fromkeys(p["outputs"]):
            sink = self._sink(name)
            if sink is not None and recorded.get(name, 0) != sink.unit_count:
                lacking = sink.unit_count - recorded.get(name, 0)
                yield f"{name}: {lacking} of {sink.unit_count} units have no record"

    def _scalars(self, k: int) -> Iterator[str]:
        try:
            if not self.journal.has_scalars(k):
                yield f"pass {k + 1}: its slabs are finished, but their results are not merged"
        except ValueError as error:
            yield f"pass {k + 1}: {error}"

    # outputs

    def _ended(self) -> bool:
        return self.journal.marked(ENDED)

    def _output(self, index: int, part: int, of: int, found: Findings) -> Iterator[str]:
        output, ended = self.manifest.outputs[index], self._ended()
        if ended and output["internal"]:  # removed when a run ends
            return
        if "shape" not in output:
            table = TableSink.from_dict(output)
            yield from table.problems(self.manifest.run_id, self.checksums, part, of)
            if not part:
                found.tables += 1
                yield from self._provenance(table, ended, found)
            return
        sink = self._sink(output["name"])
        if sink is None:
            yield f"{output['name']} is missing or was written by another run"
        else:
            yield from self._provenance(sink, ended, found)

    def _sink(self, name: str) -> Sink | None:
        """Return an output of the run by its name; None if there is none that can be checked."""
        if name not in self._sinks:
            sinks = (o for o in self.manifest.outputs if o["name"] == name and "shape" in o)
            output = next(sinks, None)
            sink = None if output is None else Sink.from_dict(output)
            is_removed = output is not None and output["internal"] and self._ended()
            if is_removed or (sink and sink.existing_run() != self.manifest.run_id):
                sink = None
            self._sinks[name] = sink
        return self._sinks[name]

    def _provenance(self, sink: OwnedOutput, ended: bool, found: Findings) -> Iterator[str]:
        """Check the provenance of an output after the end of its run."""
        if not ended or not self.manifest.about:
            return
        written = provenance.written(sink)
        if written is None:
            yield f"{sink.name}: its provenance, {sink.provenance_key}, is missing or damaged"
        elif written["run"] != self.manifest.run_id:
            yield f"{sink.name}: {sink.provenance_key} belongs to another run, {written['run']}"
        else:
            found.with_provenance += 1

    # slabs

    def _slabs(self, k: int, slabs: range, found: Findings) -> Iterator[str]:
        reading, missing = Reading(), []
        lattices = self.manifest.passes[k].get("lattices", {})
        for slab, record in self.journal.read_records(k, slabs):
            if isinstance(record, Record):
                found.slabs += 1
                where = f"pass {k + 1}, slab {slab} {record.box}"
                yield from self._units(where, record, reading, lattices, found)
                continue
            found.lost += 1
            if record is None and not self.journal.is_recorded(k, slab):
                missing.append(slab)
                found.missing = ranges(missing)
            else:
                yield f"pass {k + 1}, slab {slab}: {record or 'its record belongs to another run'}"
        yield from reading.rest()

    def _units(
        self,
        where: str,
        record: Record,
        reading: Reading,
        lattices: dict[str, Any],
        found: Findings,
    ) -> Iterator[str]:
        for name in dict.fromkeys([*record.written, *record.empty]):
            sink = self._sink(name)
            if sink is None:
                continue
            written, empty = record.written.get(name, ()), record.empty.get(name, ())
            units = count(ranges(chain(indices(written), indices(empty))))
            found.recorded[name] = found.recorded.get(name, 0) + units
            found.written += count(written)
            found.empty += count(empty)
            sums = record.sums.get(name) if self.checksums else None
            if self.checksums and sums is None:
                found.unsummed += count(written)
            expected = repeat(None) if sums is None else unpacked(sums)
            stored = zip(indices(written), expected, repeat(True), strict=False)
            left_out = zip(indices(empty), repeat(None), repeat(False), strict=False)
            for unit, checksum, is_stored in chain(stored, left_out):
                part, own = sink.located(unit)
                box = part.grid.box(own)
                called = f"{where}: unit {own} {box} of {part.name}"
                if not _is_of(record, sink, part, box, lattices.get(name)):
                    yield f"{called} does not belong to that slab"
                elif not self._listing(part).has(own):
                    if is_stored:
                        yield f"{called} is missing"
                elif is_stored:
                    yield from reading.read(called, part, own, checksum)
                else:
                    yield f"{called} exists, but was recorded as empty"

    def _listing(self, part: Sink) -> Listing:
        """List the units of an output, or of a part of it; cached for a few."""
        if part.name not in self._listings:
            while len(self._listings) > _LISTED:
                del self._listings[next(iter(self._listings))]
            self._listings[part.name] = Listing(part)
        return self._listings[part.name]


def _unfinished(k: int, slabs: tuple[int, int]) -> Iterator[str]:
    a, b = slabs
    if a < b:
        named = f"slab {a}" if b == a + 1 else f"slabs {a} to {b - 1}"
        yield f"pass {k + 1}: {named} not finished"


def _is_of(record: Record, sink: Sink, part: Sink, box: Box, lattice: Any) -> bool:
    """Whether a unit belongs to the slab, or time point, of a record."""
    if part is sink and lattice is not None:
        begins = [a + v * f for v, a, f in zip(box.start, *lattice, strict=True)]
        spans = zip(record.box.start, begins, record.box.stop, strict=True)
        return all(a <= v < b for a, v, b in spans)
    if part is sink:
        return record.box.contains(box)
    return part.at is not None and part.at[0] == record.box.start[0]


@dataclass(frozen=True)
class Verification:
    """A check with a journal of its own: a record for each item, with its findings as JSON."""

    check: Check
    journal: Journal
    #: Differs between the attempts of a continued verification.
    launch: str = field(default_factory=lambda: uuid.uuid4().hex)
    #: Marks errors in a runner's messages.
    secret: str = field(default="", repr=False)

    @classmethod
    def of(cls, check: Check, place: Spec | None, resume: bool) -> Verification:
        """Return a verification, or one that continues ``resume``; nothing is written yet.

        ``place`` is its folder, by default in the folder of the run.
        """
        spec = join(check.journal.own, "verify") if place is None else kvstore_spec(place)
        spec, run_id = join(spec, directory=True), uuid.uuid4().hex
        made = cls(check, Journal(spec, run_id))
        existing = Journal.load(spec)
        if existing is None:
            return made
        if _VERIFIES not in existing.fingerprint:
            raise OutputExistsError(
                f"{made.journal.url} is the journal of a run; give the verification a different "
                "journal="
            )
        if not resume:
            return made
        if different := compare(existing, made._manifest()):
            raise ValueError(
                f"cannot resume {made.journal.url}: the verification differs in {different[0]}; "
                "start anew with resume=False"
            )
        return replace(made, journal=Journal(spec, existing.run_id))

    def _manifest(self) -> Manifest:
        run = self.check.journal
        asked = {_VERIFIES: run.run_id, "journal": run.url, "checksums": self.check.checksums}
        return Manifest(
            self.journal.run_id,
            {**asked, "items": len(self.check), "max_problems": self.check.max_problems},
        )

    def prepare(self) -> None:
        """Create the journal; may be repeated."""
        if self.journal.now() != self.journal.run_id:
            Journal.create(self.journal.spec, self._manifest(), overwrite=True)

    def verify(self, index: int, check: Check | None = None) -> Findings:
        """Check an item and record it, or read its record.

        ``check``: of this thread.
        """
        record, failure = self.journal.look(0, index, self.launch)
        if record is not None:
            return Findings.from_json(record.emission)
        if failure is not None:
            raise revived(failure)
        attempt = self.journal.start(0, index)
        try:
            found = (check or self.check).item(index)
        except Exception as error:
            if not may_pass(error):
                self.journal.note_failure(f"item-{index}", self.launch, as_data(error))
            raise
        self.journal.check()
        box = Box((index, 0, 0), (index + 1, 1, 1))
        self.journal.write_record(0, index, Record(index, box, attempt, emission=found.to_json()))
        return found

    def found(self) -> Generator[Findings, None, None]:
        """Return the findings of all items in order, from their records.

        Raises OSError: a record is missing.
        """
        self.journal.check()
        for index, record in self.journal.read_records(0, range(len(self.check))):
            if not isinstance(record, Record):
                raise OSError(
                    f"{self.journal.url}: item {index} of the verification has no record"
                    f"{'' if record is None else f' ({record})'}; verify again with resume=True"
                )
            yield Findings.from_json(record.emission)
