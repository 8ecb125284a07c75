"""Parquet: tables as a directory with one file for each shard, and files that are read in parts."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.base.text import check_columns
from beam_volumes.storage.formats import unfinished
from beam_volumes.storage.formats.tables.format import Columns, TableFormat
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Place, Spec, is_local, join, kvstore_spec, url
from beam_volumes.storage.sources.source import digest

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


class Parquet(TableFormat):
    """A directory of files, one for each shard, on a disk or in a bucket."""

    name = "parquet"

    def encode(self, columns: Columns) -> bytes:
        import pyarrow as pa  # imported on use: it takes memory and time to load
        import pyarrow.parquet as pq

        table, buffer = pa.table(dict(columns)), io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
        return buffer.getvalue()

    def problems(
        self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any], checksums: bool
    ) -> Iterator[str]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for shard in shards:
            try:
                data = Place.of(place).read(shard)
                if data is None:
                    yield f"{name}: shard {shard} is missing"
                    continue
                file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=checksums)
                for group in range(file.num_row_groups):
                    file.read_row_group(group)
            except (OSError, pa.ArrowException) as error:
                reason = " ".join(str(error).split())
                yield f"{name}: shard {shard} cannot be read: {reason}"

    def read(self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any]) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        parts = [Place.of(place).read(shard) for shard in shards]
        missing = [i for i, part in enumerate(parts) if part is None]
        if missing:
            raise FileNotFoundError(f"{name}: the shards {missing} are missing; write it again")
        return pa.concat_tables([pq.read_table(io.BytesIO(p)) for p in parts if p is not None])


FORMATS = (Parquet(),)

#: Files up to this size are identified by their content.
SMALL = 16 << 20


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """A description of Parquet files, which are read in parts."""

    name: str
    files: tuple[dict[str, Any], ...]  #: The places of the files
    sizes: tuple[int, ...]  #: Rows of all row groups, file by file
    counts: tuple[int, ...]  #: Row groups of each file
    schema: dict[str, np.dtype | None]  #: Dtypes by column; None for columns without numbers
    identity: str  #: Digest of the content, or of the modification time of large files

    @classmethod
    def of(cls, place: Any) -> ParquetTable:
        """Describe a file, or a directory of files, from their metadata."""
        spec = kvstore_spec(place)
        name = url(spec).rstrip("/")
        unfinished.warn(unfinished.of_extents([Extent(spec)]))
        if spec.get("driver") == "file" and os.path.isfile(spec["path"]):
            files = [spec]
        else:
            names = Place.of(spec).names()
            if is_local(spec):
                names = [name for name in names if "/" not in name]
            keys = [k for k in names if k.endswith(".parquet") and k[0] not in "._"]
            files = [join(spec, k) for k in keys] or [spec]
        sizes, counts, marks, schema = [], [], [], None
        for file in files:
            data = None if file.get("driver") == "file" else _read(file)
            opened = _open(file, data)
            meta, of = opened.metadata, opened.schema_arrow
            counts.append(meta.num_row_groups)
            marks.append(_mark(file, data))
            for i in range(meta.num_row_groups):
                group = meta.row_group(i)
                sizes.append(group.num_rows)
                marks.append((group.num_rows, group.total_byte_size))
            if schema is not None and of != schema:
                raise ValueError(f"{name}: its files differ in their columns")
            schema = of
        assert schema is not None
        check_columns(schema.names, name)
        dtypes = {field.name: _dtype(field.type) for field in schema}
        return cls(name, tuple(files), tuple(sizes), tuple(counts), dtypes, digest(marks))

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The file, or the directory of the files."""
        first = self.files[0]
        if url(first) == self.name:
            return (Extent(first),)
        return (Extent({**first, "path": str(first["path"]).rpartition("/")[0]}),)

    def groups(self) -> list[tuple[int, int]]:
        return [(i, k) for i, n in enumerate(self.counts) for k in range(n)]

    def read(self, group: Sequence[int], columns: Sequence[str]) -> dict[str, np.ndarray]:
        """Read some columns of a row group."""
        file, k = group
        part = _open(self.files[file]).read_row_group(k, columns=list(columns))
        found = {}
        for name in columns:
            column = part[name]
            if column.null_count:
                raise ValueError(f"{self.name}: column {name} has rows without a value")
            found[name] = column.to_numpy()
        return found

    def token(self) -> str:
        return digest(self.files, self.identity)

    def check_unchanged(self) -> None:
        """Refuse files that have changed."""
        if ParquetTable.of(self.name).token() != self.token():
            raise ValueError(f"{self.name} has changed since it was opened; open it again")


def _mark(file: Spec, data: bytes | None) -> Any:
    """Return the identity of a file: a digest, or size and time of a large local file."""
    if data is None:
        about = os.stat(file["path"])
        if about.st_size > SMALL:
            return about.st_size, about.st_mtime_ns
        data = Path(file["path"]).read_bytes()
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _read(file: Spec) -> bytes:
    folder, _, key = str(file["path"]).rpartition("/")
    data: bytes | None = Place.of({**file, "path": folder}).read(key)
    if data is None:
        raise FileNotFoundError(f"reading {url(file)}: there is no such file")
    return data


def _open(file: Spec, data: bytes | None = None) -> pq.ParquetFile:
    """Open a Parquet file; remote ones are read completely."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = url(file)
    try:
        if file.get("driver") == "file":
            return pq.ParquetFile(file["path"])
        return pq.ParquetFile(io.BytesIO(_read(file) if data is None else data))
    except pa.ArrowInvalid as error:
        raise VolumeError(
            f"reading {name}: it is not Parquet, or it is damaged ({error})"
        ) from None


def _dtype(kind: pa.DataType) -> np.dtype | None:
    import pyarrow as pa

    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        floats = {"halffloat": "float16", "float": "float32", "double": "float64"}
        return np.dtype(floats.get(str(kind), str(kind)))
    return None
