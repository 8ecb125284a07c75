"""What a format of tables is: all that the package knows of how tables are written and read whole."""

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

#: The modules that hold formats of tables. This is the only list.
MODULES = [
    "beam_volumes.storage.formats.tables.parquet",
    "beam_volumes.storage.formats.tables.text",
    "beam_volumes.storage.formats.tables.geojson",
]


class TableFormat:
    """A format of tables: a shard is an object of its own, and in the end all of them are the table."""

    name = ""  #: What ``format=`` takes; a dot and the name is what paths end with
    #: Whether a table is one file, on a disk. Shards, and what is noted of the run, are in a folder
    #: beside it until they are put together.
    is_file = False

    def check(self, name: str, columns: Mapping[str, Any]) -> None:
        """Refuse, by ValueError, a table whose columns it cannot hold."""

    def encode(self, columns: Columns) -> bytes:
        """A shard as it is stored."""
        raise NotImplementedError

    def side_files(self, columns: Columns) -> dict[str, bytes]:
        """What is stored beside the first shard, by name."""
        return {}

    def assemble(
        self, place: str, home: str, shards: list[str], is_ours: Callable[[], bool]
    ) -> Mapping[str, Any]:
        """Put the shards of a file together; what is given back is noted.

        - ``place``, ``home``: the file, and the folder of its shards, which ends with a separator.
        - ``shards``: their names, in order.
        - ``is_ours``: says whether it is still this run's to be made; to be asked before others see
          the file.
        """
        return {}

    def problems(
        self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any], checksums: bool
    ) -> Iterator[str]:
        """What is wrong with a finished table, all of which is read."""
        raise NotImplementedError

    def read(self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any]) -> pa.Table:
        """A finished table, of the dtypes that were written."""
        raise NotImplementedError


class OneFile(TableFormat):
    """A table in one file of text, with a line for each of its items."""

    is_file = True
    items = "rows"

    def other_lines(self, noted: Mapping[str, Any]) -> int:
        """How many lines have no item."""
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
            yield f"{name} is not what was written (checksum)"


@dataclass
class Sums:
    """The checksum and the lines of what has passed."""

    crc32: int = 0
    lines: int = 0

    def of(self, content: Iterable[bytes]) -> Iterator[bytes]:
        for data in content:
            self.crc32, self.lines = zlib.crc32(data, self.crc32), self.lines + data.count(b"\n")
            yield data


def table_formats() -> dict[str, TableFormat]:
    """Formats of tables by their names."""
    return {f.name: f for module in MODULES for f in import_module(module).FORMATS}
