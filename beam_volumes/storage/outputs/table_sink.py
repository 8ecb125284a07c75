"""Output tables, written atomically shard by shard."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from beam_volumes.storage.formats.format import PROVENANCE, RUN
from beam_volumes.storage.formats.tables.format import Columns, TableFormat, table_formats
from beam_volumes.storage.places.credentials import refuse_variables
from beam_volumes.storage.places.ownership import OwnedOutput
from beam_volumes.storage.places.place import Place, output_spec, url
from beam_volumes.storage.sources.source import digest

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class TableSink(OwnedOutput):
    """An output table."""

    name: str  #: The path or URL, for messages
    format: str  #: The name of a `TableFormat`
    kvstore: dict[str, Any]  #: The place of a file or a directory

    kind = "such a table"
    _key = RUN
    provenance_key = PROVENANCE

    @classmethod
    def of(cls, path: Any, format: str | None = None) -> TableSink:
        """Describe an output table; nothing is created.

        >>> TableSink.of("s3://bucket/neurons.csv")
        Traceback (most recent call last):
        ...
        ValueError: s3://bucket/neurons.csv: csv is a single file, for local disks; write .parquet there
        """
        spec, known = output_spec(path), table_formats()
        name = url(spec).rstrip("/")
        spec = {**spec, "path": str(spec.get("path", "")).rstrip("/")}
        if format is None:
            format = os.path.splitext(name)[1].removeprefix(".")
            if format not in known:
                raise ValueError(
                    f"{name}: a table's format cannot be inferred from this name; end it with "
                    f"{', '.join('.' + f for f in known)}, or pass format="
                )
        if format not in known:
            raise ValueError(f"format={format!r}; use one of {', '.join(known)}")
        if known[format].is_file and spec.get("driver") != "file":
            raise ValueError(
                f"{name}: {format} is a single file, for local disks; write .parquet there"
            )
        return cls(name, format, spec)

    @property
    def writer(self) -> TableFormat:
        return table_formats()[self.format]

    @property
    def is_file(self) -> bool:
        return self.writer.is_file

    @property
    def portable(self) -> bool:
        return self.kvstore.get("driver") != "memory"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TableSink:
        refuse_variables(data["kvstore"], str(data["name"]))
        return cls(*(data[f.name] for f in fields(cls)))

    def token(self) -> str:
        return digest(self.kvstore, self.format)

    # ownership

    def _is_in_bucket(self) -> bool:
        return bool(Place(self.home).names())

    def _is_replaceable(self) -> bool:
        local = self.kvstore.get("driver") == "file"
        is_directory = local and os.path.isdir(self.kvstore["path"])
        if self.is_file:
            return not is_directory
        return is_directory or not local

    def _owned(self) -> Callable[[str], bool] | None:
        if self.is_file:
            return None
        part = re.compile(rf"part-\d+(-\d+)?\.{re.escape(self.format)}")
        return lambda name: name in (RUN, PROVENANCE) or part.fullmatch(name) is not None

    # writing

    def _part(self, shard: int | str) -> str:
        name = f"{shard:05d}" if isinstance(shard, int) else shard
        return f"part-{name}.{self.format}"

    def _parts(self, shards: int | Sequence[str]) -> list[str]:
        return [self._part(i) for i in (range(shards) if isinstance(shards, int) else shards)]

    def write(self, shard: int | str, columns: Columns, run_id: str | None = None) -> None:
        """Write a shard atomically, if the run still owns the table."""
        self.check(run_id)
        if self.state().get("finished"):
            return
        home = Place(self.home)
        first = shard in (0, "0000000-00000")
        for key, data in self.writer.side_files(columns).items() if first else ():
            home.write(key, data)
        home.write(self._part(shard), self.writer.encode(columns))

    def finish(
        self, shards: int | Sequence[str], run_id: str | None = None, durable: bool = False
    ) -> None:
        """Assemble the table from its shards. It can be repeated."""

        def assemble(is_ours: Callable[[], bool]) -> Mapping[str, Any]:
            have = set(Place(self.home).names())
            parts = self._parts(shards)
            missing = [part for part in parts if part not in have]
            if missing or not parts:
                raise OSError(
                    f"{self.name}: {len(missing)} of {len(parts)} shards were not written, the first "
                    f"{missing[:1]}"
                )
            found: Mapping[str, Any] = {}
            if self.is_file:
                found = self.writer.assemble(
                    self.kvstore["path"], self.home["path"], parts, is_ours
                )
            return {"shards": shards, **found}

        self.assemble_with(run_id, durable, assemble)

    # reading

    def shard_count(self) -> int:
        """Return the number of files of a finished table; 0 if it is not finished."""
        noted = self.state()
        shards = noted["shards"] if noted.get("finished") and not self.is_file else 0
        return shards if isinstance(shards, int) else len(shards)

    def problems(
        self, run_id: str, checksums: bool = False, part: int = 0, of: int = 1
    ) -> Iterator[str]:
        """Yield the problems of a part of the table of a run, reading it completely."""
        noted, problem = self.state(), None
        if self.existing_run() != run_id:
            problem = f"{self.name} is missing or was written by another run"
        elif not noted.get("finished"):
            problem = f"{self.name} is not finished"
        if problem is None:
            parts = self._parts(noted["shards"])[part::of]
            yield from self.writer.problems(self.name, self.kvstore, parts, noted, checksums)
        elif not part:
            yield problem

    def read(self) -> pa.Table:
        """Return the whole table with the dtypes that were written."""
        noted = self.state()
        if not noted.get("finished"):
            raise OSError(f"{self.name} is not finished")
        return self.writer.read(self.name, self.kvstore, self._parts(noted["shards"]), noted)
