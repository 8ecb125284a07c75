"""Tables as files: written shard by shard, each whole or not at all; and Parquet read in parts.

Parquet tables are directories of one file for each shard, anywhere that arrays can be too. CSV and
JSON lines are one local file, put together of its shards at the end.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.storage import kvstore
from beam_volumes.storage.claims import ANY, Document, Superseded, Watched, lost, prepare
from beam_volumes.storage.durable import flush
from beam_volumes.storage.extent import Extent
from beam_volumes.storage.formats.zarr import OURS
from beam_volumes.storage.place import Place, list_keys, read_key, write_key
from beam_volumes.storage.remove import clear
from beam_volumes.storage.sink import OutputExistsError, check_replaces
from beam_volumes.storage.source import digest

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

#: Formats by what paths end with.
SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl"}
#: What says whose shards are beside it; other programs pass over names that begin so.
_RUN = f"_{OURS}.json"

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class TableSink:
    """An output table.

    Attributes
    ----------
    name : str
        How messages name it: its path or URL.
    format : {"parquet", "csv", "jsonl"}
    kvstore : dict
        Its place: of a directory for Parquet, else of a file.
    """

    name: str
    format: str
    kvstore: dict[str, Any]

    @classmethod
    def of(cls, path: Any, format: str | None = None) -> TableSink:
        """Describe an output table; nothing is made yet.

        Examples
        --------
        >>> TableSink.of("s3://bucket/neurons.csv")
        Traceback (most recent call last):
        ...
        ValueError: s3://bucket/neurons.csv: csv is one file, for local disks; write .parquet there
        """
        spec = kvstore.kvstore_spec(path)
        name = kvstore.url(spec).rstrip("/")
        spec = {**spec, "path": str(spec.get("path", "")).rstrip("/")}
        if format is None:
            suffix = os.path.splitext(name)[1]
            if suffix not in SUFFIXES:
                raise ValueError(
                    f"{name}: cannot tell the format of a table from the name; end it with "
                    f"{', '.join(SUFFIXES)}, or pass format="
                )
            format = SUFFIXES[suffix]
        if format not in SUFFIXES.values():
            raise ValueError(f"format={format!r}; use one of {', '.join(SUFFIXES.values())}")
        if format != "parquet" and spec.get("driver") != "file":
            raise ValueError(f"{name}: {format} is one file, for local disks; write .parquet there")
        return cls(name, format, spec)

    @property
    def portable(self) -> bool:
        """Whether other processes can open it."""
        return self.kvstore.get("driver") != "memory"

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where it is stored, and its parts until it is whole: all of it is cleared before."""
        return Extent(self.kvstore), Extent(self._shards)

    def to_dict(self) -> dict[str, Any]:
        """Everything about it as plain data; `from_dict` takes it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TableSink:
        return cls(*(data[f.name] for f in fields(cls)))

    def token(self) -> str:
        """The sink's identity for fingerprints."""
        return digest(self.kvstore, self.format)

    # what is there

    @property
    def _shards(self) -> dict[str, Any]:
        """The directory of the shards."""
        if self.format == "parquet":
            return kvstore.join(self.kvstore, directory=True)
        folder, base = os.path.split(self.kvstore["path"])
        return kvstore.join({**self.kvstore, "path": folder}, f".{base}.parts", directory=True)

    def _state(self) -> dict[str, Any]:
        """What was noted of the run that made the table."""
        if self._shards.get("driver") == "file" and not os.path.isdir(self._shards["path"]):
            return {}
        return Place.of(self._shards).json(_RUN) or {}

    def exists(self) -> bool:
        """Whether something is at the output's place."""
        if self.format == "parquet":
            return any(True for _ in self._keys()) or self._is_file()
        return os.path.lexists(self.kvstore["path"]) or self.existing_run() is not None

    def _is_file(self) -> bool:
        local = self.kvstore.get("driver") == "file"
        return local and os.path.lexists(self.kvstore["path"]) and not self._is_directory()

    def _is_directory(self) -> bool:
        return os.path.isdir(self.kvstore["path"])

    def _keys(self) -> list[str]:
        if self._shards.get("driver") == "file":
            path = self._shards["path"]
            return sorted(os.listdir(path)) if os.path.isdir(path) else []
        return list_keys(self._shards)

    def existing_run(self) -> str | None:
        """The id of the run that created what is there, if one of ours did."""
        state = self._state()
        return None if "preparing" in state or self._is_gone(state) else state.get("run")

    def begun_run(self) -> str | None:
        """The same, or of the run that is creating it."""
        state = self._state()
        return None if self._is_gone(state) else state.get("run")

    def _is_gone(self, state: Mapping[str, Any]) -> bool:
        """Whether the file that was put together is no longer there."""
        file = self.format == "parquet" or os.path.lexists(self.kvstore["path"])
        return bool(state.get("finished")) and not file

    @property
    def _document(self) -> Document:
        """The one that says which run's the table is."""
        return Document(self._shards, _RUN)

    def watched(self, run_id: str) -> Watched | None:
        """By what is seen whether the table is still that of the run which writes it."""
        return Watched.of(self._document, run_id, _ready_run)

    def _check(self, run_id: str | None) -> None:
        watched = None if run_id is None else self.watched(run_id)
        if watched is not None and lost([watched]):
            raise Superseded(f"{self.name} is gone, or is that of another run than {run_id} now")

    # making it

    def create(self, run_id: str, overwrite: bool = False, replaces: str | None = ANY) -> None:
        """Make the output ready to be written, once per run.

        Called again by the same run (a retry), also at the same time, it changes nothing. What another run
        left is cleared only with ``overwrite``.

        Parameters
        ----------
        run_id : str
        overwrite : bool
        replaces : str, optional
            The run, or None, that was there when the run was asked for.

        Raises
        ------
        OutputExistsError
            If something else is there.
        Superseded
            If another run is there than ``replaces``.
        """

        def refuse(run: str | None) -> None:
            now = run or self.begun_run()
            if now == run_id or not self.exists():  # a twin of this attempt was quicker
                return
            check_replaces(self.name, replaces, now)
            if not overwrite:
                raise OutputExistsError(
                    f"the output {self.name} exists: pass overwrite=True to replace it, resume=True to "
                    "continue the run that began it, or choose another path"
                )
            self._refuse_others()

        def begun(data: bytes | None) -> tuple[str | None, bool]:
            state = _state(data)
            run = state.get("run")
            return run, "preparing" not in state and not self._is_gone(state)

        def written(attempt: str | None) -> bytes:
            state = {"run": run_id} if attempt is None else {"run": run_id, "preparing": attempt}
            return json.dumps(state).encode()

        def make(is_ours: Callable[[], bool]) -> bool:
            if self.format != "parquet" and is_ours() and os.path.lexists(self.kvstore["path"]):
                os.remove(self.kvstore["path"])
            return clear(self._shards, _RUN, is_ours)

        prepare(self._document, run_id, begun=begun, written=written, refuse=refuse, make=make)

    def _refuse_others(self) -> None:
        """Delete nothing that is not a table."""
        if self.format == "parquet":
            parts = (k == _RUN or k.endswith(".parquet") for k in self._keys())
            other = self._is_file() or not all(parts)
        else:
            other = self._is_directory()
        if other:
            raise OutputExistsError(
                f"the output {self.name} exists and is not such a table, so overwrite=True does not "
                "delete it; remove it yourself or choose another path"
            )

    def _part(self, shard: int) -> str:
        return f"part-{shard:05d}.{self.format}"

    def write(self, shard: int, columns: Columns, run_id: str | None = None) -> None:
        """Write a shard, whole or not at all; again gives the same.

        Raises
        ------
        Superseded
            The table is no longer that of the run ``run_id``.
        """
        self._check(run_id)
        if self._state().get("finished"):
            return
        if self.format == "parquet":
            import pyarrow as pa  # where it is used: it takes memory and time to load
            import pyarrow.parquet as pq

            buffer = io.BytesIO()
            pq.write_table(
                pa.table(dict(columns)), buffer, compression="zstd", write_page_checksum=True
            )
            data = buffer.getvalue()
        else:
            write = _csv_rows if self.format == "csv" else _json_rows
            data = write(columns).encode()
            if shard == 0:
                dtypes = {name: column.dtype.str for name, column in columns.items()}
                write_key(self._shards, "columns.json", json.dumps(dtypes).encode())
        write_key(self._shards, self._part(shard), data)

    def finish(self, shards: int, run_id: str | None = None, durable: bool = False) -> None:
        """Make the table whole, of shards 0 to ``shards - 1``; once is enough.

        If ``durable``, a disk holds it before it is said to be whole.
        """
        self._check(run_id)
        data, generation = self._document.read()
        state = _state(data)
        if state.get("finished"):
            return
        have = set(self._keys())
        missing = [i for i in range(shards) if self._part(i) not in have]
        if missing or not shards:
            raise OSError(
                f"{self.name}: {len(missing)} of {shards} shards were not written, the first {missing[:1]}"
            )
        state |= {"finished": True, "shards": shards}
        if self.format != "parquet":
            try:
                state["columns"] = Place.of(self._shards).json("columns.json")
                names = list(state["columns"] or {})
                state["crc32"], state["rows"] = self._join(shards, names, generation)
            except FileNotFoundError:
                self._check(run_id)
                if not self._state().get("finished"):
                    raise
                return  # by another attempt, which removed the parts
        if durable:
            flush([self.kvstore, self._shards])
        if self._document.replace(json.dumps(state).encode(), generation) is None:
            return self.finish(
                shards, run_id, durable
            )  # another attempt, or another run, was quicker
        for key in have - {_RUN}:  # parts are no longer needed
            if self.format != "parquet":
                with suppress(FileNotFoundError):
                    os.remove(os.path.join(self._shards["path"], key))

    def _join(self, shards: int, names: list[str], generation: bytes) -> tuple[int, int]:
        """Put the shards together; returns the checksum of the file, and how many rows it has.

        In a file of this attempt alone: another one may be at it.
        """
        folder = self._shards["path"]
        head = _csv_lines([names]).encode() if self.format == "csv" else b""
        whole = os.path.join(folder, f"whole-{uuid.uuid4().hex}")
        with open(whole, "xb") as out:
            out.write(head)
            crc32, rows = zlib.crc32(head), 0
            for i in range(shards):
                for data in _pieces(os.path.join(folder, self._part(i))):
                    out.write(data)
                    crc32, rows = zlib.crc32(data, crc32), rows + data.count(b"\n")
        if not self._document.is_still(generation):
            os.remove(whole)
            raise FileNotFoundError(f"{self.name}: another run has taken its place")
        os.replace(whole, self.kvstore["path"])
        return crc32, rows

    def problems(self, run_id: str, checksums: bool = False) -> Iterator[str]:
        """What is wrong with the table that a run should have written, all of which is read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        state = self._state()
        if self.existing_run() != run_id:
            yield f"{self.name} is gone or was written by another run"
        elif not state.get("finished"):
            yield f"{self.name} is not finished"
        elif self.format != "parquet":
            yield from self._problems_of_file(state, checksums)
        else:
            for i in range(state["shards"]):
                part = self._part(i)
                try:
                    data = read_key(self._shards, part)
                    if data is None:
                        yield f"{self.name}: shard {part} is missing"
                        continue
                    file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=checksums)
                    for group in range(file.num_row_groups):
                        file.read_row_group(group)
                except (OSError, pa.ArrowException) as error:
                    reason = " ".join(str(error).split())
                    yield f"{self.name}: shard {part} cannot be read: {reason}"

    def _problems_of_file(self, state: Mapping[str, Any], checksums: bool) -> Iterator[str]:
        head = _csv_lines([list(state["columns"] or {})]) if self.format == "csv" else ""
        crc32, lines = 0, -head.count("\n")
        try:
            for data in _pieces(self.kvstore["path"]):
                crc32, lines = zlib.crc32(data, crc32), lines + data.count(b"\n")
        except OSError as error:
            yield f"{self.name} cannot be read: {error.strerror}"
            return
        rows = state.get("rows", lines)
        if lines != rows:
            yield f"{self.name} has {max(lines, 0)} rows, and {rows} were written"
        elif checksums and crc32 != state.get("crc32"):
            yield f"{self.name} is not what was written (checksum)"

    # using it

    def read(self) -> pa.Table:
        """The whole table, of the dtypes that were written."""
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.json
        import pyarrow.parquet as pq

        state = self._state()
        if not state.get("finished"):
            raise OSError(f"{self.name} is not finished")
        if self.format == "parquet":
            parts = [read_key(self._shards, self._part(i)) for i in range(state["shards"])]
            lost = [i for i, part in enumerate(parts) if part is None]
            if lost:
                raise FileNotFoundError(f"{self.name}: the shards {lost} are missing")
            return pa.concat_tables([pq.read_table(io.BytesIO(p)) for p in parts if p is not None])
        fields = [(name, pa.from_numpy_dtype(np.dtype(d))) for name, d in state["columns"].items()]
        path = self.kvstore["path"]
        if self.format == "csv":
            convert = pa.csv.ConvertOptions(column_types=dict(fields))
            return pa.csv.read_csv(path, convert_options=convert)
        if os.path.getsize(path) == 0:
            return pa.schema(fields).empty_table()
        return pa.json.read_json(
            path, parse_options=pa.json.ParseOptions(explicit_schema=pa.schema(fields))
        )


def _state(data: bytes | None) -> dict[str, Any]:
    """What a table's document notes."""
    state = {} if data is None else json.loads(data)
    return state if isinstance(state, dict) else {}


def _ready_run(data: bytes | None) -> str | None:
    state = _state(data)
    return None if "preparing" in state else state.get("run")


def _pieces(path: str) -> Iterator[bytes]:
    """A file's content, some of it at a time."""
    with open(path, "rb") as file:
        while data := file.read(1 << 20):
            yield data


def _texts(column: np.ndarray, null: str, infinite: str) -> list[str]:
    """The values so that they are read back exactly; NaN is ``null``."""
    if column.dtype.kind == "b":
        return ["true" if v else "false" for v in column.tolist()]
    if column.dtype.kind in "ui":
        return list(map(str, column.tolist()))
    if column.dtype == np.float64:
        texts = list(map(repr, column.tolist()))
    else:
        texts = column.astype(str).tolist()
    for i in np.flatnonzero(~np.isfinite(column)).tolist():
        v = float(column[i])
        texts[i] = null if math.isnan(v) else infinite if v > 0 else "-" + infinite
    return texts


def _rows(columns: Columns, null: str, infinite: str) -> Iterator[tuple[str, ...]]:
    return zip(*(_texts(np.asarray(c), null, infinite) for c in columns.values()), strict=True)


def _csv_lines(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def csv_text(columns: Columns) -> str:
    """A whole table as CSV, as tables are written.

    Examples
    --------
    >>> print(csv_text({"label": np.array([1, 2]), "mean": np.array([0.5, np.nan])}), end="")
    label,mean
    1,0.5
    2,
    """
    return _csv_lines([list(columns)]) + _csv_rows(columns)


def _csv_rows(columns: Columns) -> str:
    return _csv_lines(_rows(columns, "", "inf"))


def _json_rows(columns: Columns) -> str:
    names = [json.dumps(name) for name in columns]
    # JSON has no infinity, but numbers that every reader takes for it
    return "".join(
        "{" + ", ".join(f"{n}: {v}" for n, v in zip(names, row, strict=True)) + "}\n"
        for row in _rows(columns, "null", "1e999")
    )


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """Parquet files to be read in parts; a description that travels.

    Attributes
    ----------
    name : str
    files : tuple of dict
        Their places.
    sizes : tuple of int
        Rows of each file's row groups, one after the other.
    counts : tuple of int
        Row groups of each file.
    schema : dict
        Dtypes by name of the columns, None for what is no number.
    identity : str
        Of the content, as far as the files' metadata tell.
    """

    name: str
    files: tuple[dict[str, Any], ...]
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    schema: dict[str, np.dtype | None]
    identity: str

    @classmethod
    def of(cls, place: Any) -> ParquetTable:
        """A file, or a directory of files; their metadata are read."""
        spec = kvstore.kvstore_spec(place)
        name = kvstore.url(spec).rstrip("/")
        if spec.get("driver") == "file" and os.path.isfile(spec["path"]):
            files = [spec]
        else:
            sink = TableSink(name, "parquet", spec)
            keys = [k for k in sink._keys() if k.endswith(".parquet") and k[0] not in "._"]
            files = [kvstore.join(spec, k) for k in keys] or [spec]
        sizes, counts, marks, schema = [], [], [], None
        for file in files:
            opened = _open(file)
            meta, of = opened.metadata, opened.schema_arrow
            counts.append(meta.num_row_groups)
            for i in range(meta.num_row_groups):
                group = meta.row_group(i)
                sizes.append(group.num_rows)
                marks.append((group.num_rows, group.total_byte_size))
                for k in range(group.num_columns):
                    c = group.column(k)
                    marks.append((c.total_compressed_size, str(c.statistics)))
            if schema is not None and of != schema:
                raise ValueError(f"{name}: its files differ in their columns")
            schema = of
        assert schema is not None
        dtypes = {field.name: _dtype(field.type) for field in schema}
        return cls(name, tuple(files), tuple(sizes), tuple(counts), dtypes, digest(marks))

    @property
    def rows(self) -> int:
        return sum(self.sizes)

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where it lies: a file, or the directory of its files."""
        first = self.files[0]
        if kvstore.url(first) == self.name:
            return (Extent(first),)
        return (Extent({**first, "path": str(first["path"]).rpartition("/")[0]}),)

    def groups(self) -> list[tuple[int, int]]:
        """File and row group of each part."""
        return [(i, k) for i, n in enumerate(self.counts) for k in range(n)]

    def read(self, group: Sequence[int], columns: Sequence[str]) -> dict[str, np.ndarray]:
        """Some columns of a part."""
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


def _open(file: kvstore.Spec) -> pq.ParquetFile:
    """A Parquet file; of another place than the local disk all of it is read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    name = kvstore.url(file)
    try:
        if file.get("driver") == "file":
            return pq.ParquetFile(file["path"])
        folder, _, key = str(file["path"]).rpartition("/")
        data = read_key({**file, "path": folder + "/" if folder else ""}, key)
        if data is None:
            raise FileNotFoundError(f"reading {name}: there is no such file")
        return pq.ParquetFile(io.BytesIO(data))
    except pa.ArrowInvalid as error:
        raise OSError(f"reading {name}: it is not Parquet, or damaged ({error})") from None


def _dtype(kind: pa.DataType) -> np.dtype | None:
    import pyarrow as pa

    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        floats = {"halffloat": "float16", "float": "float32", "double": "float64"}
        return np.dtype(floats.get(str(kind), str(kind)))
    return None
