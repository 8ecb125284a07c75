"""Volumes in files and buckets: everything that touches TensorStore, formats and metadata."""

from beam_volumes.storage.axes import unit_name
from beam_volumes.storage.chunking import default_chunk
from beam_volumes.storage.context import configure
from beam_volumes.storage.opening import open_source
from beam_volumes.storage.overhead import read_overhead_bytes, write_overhead_bytes
from beam_volumes.storage.ownership import OutputExistsError
from beam_volumes.storage.sink import Sink, make_sink
from beam_volumes.storage.source import Source
from beam_volumes.storage.transfer import Transfer, read_into, write_units

__all__ = [
    "OutputExistsError",
    "Sink",
    "Source",
    "Transfer",
    "configure",
    "default_chunk",
    "make_sink",
    "open_source",
    "read_into",
    "read_overhead_bytes",
    "unit_name",
    "write_overhead_bytes",
    "write_units",
]
