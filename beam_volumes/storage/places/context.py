"""Resources shared within a process: one TensorStore context and the opened handles.

Handles are opened where they are used and never pickled. TensorStore's threads do not survive a
fork, so a forked child is refused with the remedy instead of hanging.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

import tensorstore as ts

#: Handles kept open per process; the least recently used is dropped.
MAX_HANDLES = 64
#: Retries of a request that a bucket's server has refused temporarily (busy, broken, unreachable):
#: for about a minute. TensorStore's default is a quarter of an hour. A run that fails after it can
#: be resumed.
RETRIES = {"max_retries": 9, "initial_delay": "250ms", "max_delay": "16s"}
#: Timeouts in seconds for servers that do not answer or do not accept a connection; TensorStore's
#: default is to wait for ever.
_PATIENCE = {
    "TENSORSTORE_CURL_LOW_SPEED_TIME_SECONDS": "60",
    "TENSORSTORE_CURL_LOW_SPEED_LIMIT_BYTES": "1",
    "TENSORSTORE_CURL_CONNECT_TIMEOUT_SECONDS": "20",
}

_lock = threading.RLock()
_handles: OrderedDict[str, Any] = OrderedDict()
_root: ts.Context | None = None
_context: ts.Context | None = None
_pid = os.getpid()
_threads = os.cpu_count() or 1
#: Callbacks that may wait for a bucket at a time.
WAITING = 16


def configure(threads: int) -> None:
    """Set the number of TensorStore's threads in this process (default: all cores).

    It does not change open handles.
    """
    global _threads, _context
    if threads < 1:
        raise ValueError(f"threads={threads} is too small; give at least 1")
    with _lock:
        if threads != _threads:
            _threads, _context = threads, None
            _handles.clear()


def threads() -> int:
    """Return the number of TensorStore's threads in this process."""
    return _threads


def context() -> ts.Context:
    """Return the process's TensorStore context."""
    # Nothing is cached: a sweep reads each chunk once and writes each unit once. Local files are not
    # synchronised to the disk one by one, which would be seven times slower; they are written atomically.
    global _context, _root, _pid
    with _lock:
        if _root is not None and _pid != os.getpid():
            raise RuntimeError(
                "TensorStore is not fork-safe and was used before this process was forked; "
                "start worker processes with multiprocessing's 'spawn' method"
            )
        if _root is None:
            _pid = os.getpid()
            _few_arenas()
            for name, value in _PATIENCE.items():
                os.environ.setdefault(name, value)
            _root = ts.Context({"memory_key_value_store": {}})
            # The store is made on first use; everything opened later shares it.
            ts.KvStore.open({"driver": "memory"}, context=_root).result()
        if _context is None:
            spec: dict[str, Any] = {
                "cache_pool": {"total_bytes_limit": 0},
                "data_copy_concurrency": {"limit": _threads},
                "file_io_concurrency": {"limit": max(4, 2 * _threads)},
                "file_io_sync": False,
                "http_request_retries": RETRIES,
                "s3_request_retries": RETRIES,
                "gcs_request_retries": RETRIES,
            }
            if "AWS_ACCESS_KEY_ID" in os.environ:
                # Otherwise every possible source of keys is tried, and missing ones are logged.
                spec["aws_credentials"] = {"type": "environment"}
            _context = ts.Context(spec, parent=_root)
        return _context


def waiting_context(many: int = WAITING) -> ts.Context:
    """Return a context with its own threads, for arrays with callbacks that wait for a bucket."""
    # Requests need threads of `context` to complete. If all of these waited, no request would. Callbacks that
    # read from a disk are slower with more threads than cores.
    return ts.Context({"data_copy_concurrency": {"limit": many}}, parent=context())


def _few_arenas() -> None:
    """Let TensorStore's threads share two malloc arenas, if the C library is glibc."""
    # By default each thread keeps the freed chunks in its own arena: on two cores a write used 70 MB instead
    # of 40 and was no faster.
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(-8, 2)  # M_ARENA_MAX


def forget_opened() -> None:
    """Drop the shared handles of this process; they are opened again when needed.

    The handle of an array that was replaced by one of another dtype cannot read the new array.
    """
    with _lock:
        _handles.clear()


def opened(key: str, open_it: Callable[[], Any]) -> Any:
    """Return the handle with this key, opened by ``open_it`` on first use in this process."""
    context()
    with _lock:
        if key in _handles:
            _handles.move_to_end(key)
            return _handles[key]
    handle = open_it()
    with _lock:
        handle = _handles.setdefault(key, handle)
        _handles.move_to_end(key)
        while len(_handles) > MAX_HANDLES:
            _handles.popitem(last=False)
        return handle


def callback(read: Callable[..., None]) -> Callable[..., Any]:
    """Wrap a function that fills a chunk for TensorStore; the wrapper returns the time of the read."""
    # Without the time, TensorStore returns a chunk that a thread still holds to other readers, even after its
    # file was replaced.
    #
    # Exceptions are raised without their causes and tracebacks. TensorStore pickles exceptions, and some
    # libraries, such as dask, make Python pickle causes and tracebacks, too. Some of these cannot be
    # unpickled.

    @wraps(read)
    def called(*args: Any) -> Any:
        begun = time.time()
        try:
            read(*args)
            return ts.KvStore.TimestampedStorageGeneration(b"read", begun)
        except Exception as error:
            error.__cause__ = error.__context__ = None
            raise error.with_traceback(None) from None

    return called
