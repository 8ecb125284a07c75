"""Volumes in files and buckets: formats, metadata and everything that uses TensorStore."""

from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.outputs.overhead import read_overhead_bytes, write_overhead_bytes
from beam_volumes.storage.outputs.sink import Sink, make_sink
from beam_volumes.storage.places.context import configure
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.storage.places.transfer import Transfer, read_into, write_units
from beam_volumes.storage.sources.axes import unit_name
from beam_volumes.storage.sources.chunking import default_chunk
from beam_volumes.storage.sources.source import Source

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
