"""Metrics and lineage of pipelines: counters, distributions, sources and sinks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import Lineage

from beam_volumes.plan.cost.machine import peak_memory
from beam_volumes.sweep.writing import SlabResult

#: Namespace of all metrics of this package.
NAMESPACE = "beam_volumes"

SLABS = Metrics.counter(NAMESPACE, "slabs")
VOXELS = Metrics.counter(NAMESPACE, "voxels")
BYTES_READ = Metrics.counter(NAMESPACE, "bytes_read")
BYTES_WRITTEN = Metrics.counter(NAMESPACE, "bytes_written")
SKIPPED = Metrics.counter(NAMESPACE, "slabs_skipped_by_record")
RETRIES = Metrics.counter(NAMESPACE, "retries")
FAILED = Metrics.counter(NAMESPACE, "failed")
MILLISECONDS = Metrics.distribution(NAMESPACE, "milliseconds_per_slab")
BYTES_READ_EACH = Metrics.distribution(NAMESPACE, "bytes_read_per_slab")
BYTES_WRITTEN_EACH = Metrics.distribution(NAMESPACE, "bytes_written_per_slab")
PEAK = Metrics.distribution(NAMESPACE, "peak_memory_bytes")
MERGE_INPUTS = Metrics.distribution(NAMESPACE, "merge_inputs")


@contextmanager
def timed(voxels: int) -> Iterator[None]:
    """Count a slab and the duration of its sweep; failed slabs are not counted."""
    began = time.monotonic()
    yield
    VOXELS.inc(voxels)
    took(time.monotonic() - began)


def took(seconds: float) -> None:
    """Count a slab, its duration, and the peak memory of its process."""
    SLABS.inc()
    MILLISECONDS.update(round(1000 * seconds))
    PEAK.update(peak_memory())


def swept(result: SlabResult) -> None:
    """Count a slab of a plan, its duration, and the bytes that were read and written."""
    took(result.seconds)
    read(result.bytes_read)
    wrote(result.bytes_written)


def read(count: int) -> None:
    """Count the bytes that were read for a slab."""
    BYTES_READ.inc(count)
    BYTES_READ_EACH.update(count)


def wrote(count: int) -> None:
    """Count the bytes that a slab has written, before compression."""
    BYTES_WRITTEN.inc(count)
    BYTES_WRITTEN_EACH.update(count)


def reads(names: Iterable[str]) -> None:
    """Report the sources of a step as lineage."""
    for name in names:
        Lineage.sources().add_raw(*segments(name))


def writes(names: Iterable[str]) -> None:
    """Report the outputs of a step as lineage."""
    for name in names:
        Lineage.sinks().add_raw(*segments(name))


@cache
def segments(name: str) -> tuple[str, ...]:
    """Split a place into the parts of Beam's lineage: the system, and the path segment by segment.

    >>> "".join(segments("s3://bucket/a/em.zarr/")), "".join(segments("/data/em.zarr"))
    ('s3:bucket.a/em.zarr', 'filesystem:/data/em.zarr')
    """
    system, found, path = name.rstrip("/").partition("://")
    if not found or system == "file":
        return ("filesystem:", path if found else system)
    bucket, _, key = path.partition("/")
    known = {"gs": "gcs"}.get(system, system)
    return (f"{known}:", f"{bucket}.", key) if key else (f"{known}:", bucket)
