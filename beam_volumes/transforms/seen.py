"""What a pipeline shows of itself: counters, distributions, lineage."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import Lineage

#: Under which all metrics of this package are found.
NAMESPACE = "beam_volumes"

SLABS = Metrics.counter(NAMESPACE, "slabs")
VOXELS = Metrics.counter(NAMESPACE, "voxels")
BYTES_READ = Metrics.counter(NAMESPACE, "bytes_read")
BYTES_WRITTEN = Metrics.counter(NAMESPACE, "bytes_written")
SKIPPED = Metrics.counter(NAMESPACE, "slabs_skipped_by_record")
FAILED = Metrics.counter(NAMESPACE, "failed")
MILLISECONDS = Metrics.distribution(NAMESPACE, "milliseconds_per_slab")
MERGE_INPUTS = Metrics.distribution(NAMESPACE, "merge_inputs")


@contextmanager
def timed(voxels: int) -> Iterator[None]:
    """Count a slab of so many voxels, and the time that it takes; one that fails is not counted."""
    began = time.monotonic()
    yield
    SLABS.inc()
    VOXELS.inc(voxels)
    MILLISECONDS.update(round(1000 * (time.monotonic() - began)))


def reads(names: Iterable[str]) -> None:
    """Say from where a step reads."""
    for name in names:
        Lineage.sources().add_raw(*segments(name))


def writes(names: Iterable[str]) -> None:
    """Say to where a step writes."""
    for name in names:
        Lineage.sinks().add_raw(*segments(name))


@cache
def segments(name: str) -> tuple[str, ...]:
    """A place as lineage has it: the system, and the path segment by segment.

    Examples
    --------
    >>> "".join(segments("s3://bucket/a/em.zarr/")), "".join(segments("/data/em.zarr"))
    ('s3:bucket.a/em.zarr', 'filesystem:/data/em.zarr')
    """
    system, found, path = name.rstrip("/").partition("://")
    if not found or system == "file":
        return ("filesystem:", path if found else system)
    bucket, _, key = path.partition("/")
    known = {"gs": "gcs"}.get(system, system)
    return (f"{known}:", f"{bucket}.", key) if key else (f"{known}:", bucket)
