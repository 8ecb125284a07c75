"""What a format of tables is: all that the package knows of how tables are written and read whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.storage.places.place import Spec

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

    def beside(self, columns: Columns) -> dict[str, bytes]:
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
        self,
        name: str,
        place: Spec,
        shards: list[str],
        noted: Mapping[str, Any],
        checksums: bool,
    ) -> Iterator[str]:
        """What is wrong with a finished table, all of which is read."""
        raise NotImplementedError

    def read(self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any]) -> pa.Table:
        """A finished table, of the dtypes that were written."""
        raise NotImplementedError


def table_formats() -> dict[str, TableFormat]:
    """Formats of tables by their names."""
    return {f.name: f for module in MODULES for f in import_module(module).FORMATS}
