"""The interface of table formats."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.storage.places.place import Spec
from beam_volumes.storage.places.single_file import pieces

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, np.ndarray]

#: The modules of table formats. This is the only list.
MODULES = [
    "beam_volumes.storage.formats.tables.parquet",
    "beam_volumes.storage.formats.tables.text",
    "beam_volumes.storage.formats.tables.geojson",
]


class TableFormat:
    """A format of tables: shards are separate objects, assembled at the end."""

    name = ""  #: The value of ``format=``, and the suffix of paths after a dot
    #: Whether a table is one local file. Shards and the note of the run are in a folder next to it
    #: until they are assembled.
    is_file = False

    def check(self, name: str, columns: Mapping[str, Any]) -> None:
        """Raise ValueError for columns that the format cannot store."""

    def encode(self, columns: Columns) -> bytes:
        raise NotImplementedError

    def side_files(self, columns: Columns) -> dict[str, bytes]:
        """Return files that are stored next to the first shard, by name."""
        return {}

    def assemble(
        self, place: str, home: str, shards: list[str], is_ours: Callable[[], bool]
    ) -> Mapping[str, Any]:
        """Assemble a file from its shards, in order, in the folder ``home``; return entries for the note.

        ``is_ours``: whether the run still owns the table; checked before the file is visible.
        """
        return {}

    def problems(
        self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any], checksums: bool
    ) -> Iterator[str]:
        """Yield problems of a finished table, reading it completely."""
        raise NotImplementedError

    def read(self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any]) -> pa.Table:
        """Return a finished table with the dtypes that were written."""
        raise NotImplementedError


class OneFile(TableFormat):
    """A table in one text file, with a line for each item."""

    is_file = True
    items = "rows"

    def other_lines(self, noted: Mapping[str, Any]) -> int:
        """Return the number of lines without an item."""
        return 0

    def problems(
        self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any], checksums: bool
    ) -> Iterator[str]:
        sums = Sums()
        try:
            for _ in sums.of(pieces(place["path"])):
                pass
        except OSError as error:
            yield f"{name} cannot be read: {error.strerror}"
            return
        found = sums.lines - self.other_lines(noted)
        written = noted.get(self.items, found)
        if found != written:
            yield f"{name} has {max(found, 0)} {self.items}, and {written} were written"
        elif checksums and sums.crc32 != noted.get("crc32"):
            yield f"{name} differs from the written table (checksum)"


@dataclass
class Sums:
    """The checksum and the number of lines of a stream."""

    crc32: int = 0
    lines: int = 0

    def of(self, content: Iterable[bytes]) -> Iterator[bytes]:
        for data in content:
            self.crc32, self.lines = zlib.crc32(data, self.crc32), self.lines + data.count(b"\n")
            yield data


def table_formats() -> dict[str, TableFormat]:
    return {f.name: f for module in MODULES for f in import_module(module).FORMATS}
