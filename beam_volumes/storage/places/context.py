"""What a process shares: one TensorStore context and the handles it has opened.

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

#: Handles kept open per process; the least recently used is let go.
MAX_HANDLES = 64
#: How often, and after what pauses, a request is made again that a bucket's server has refused for now
#: (busy, broken, out of reach): for about a minute, where TensorStore by itself goes on for a quarter of an
#: hour. A run that ends by it can be resumed.
RETRIES = {"max_retries": 9, "initial_delay": "250ms", "max_delay": "16s"}
#: Servers that take a request and send nothing, or do not take it, are given up after so many seconds;
#: TensorStore by itself waits for ever.
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
#: How many callbacks may wait for a bucket at a time.
WAITING = 16


def configure(threads: int) -> None:
    """Say how many threads TensorStore may use in this process (default: all cores).

    Handles that are open already keep what they were opened with; later ones follow.
    """
    global _threads, _context
    if threads < 1:
        raise ValueError(f"threads={threads}: at least one is needed")
    with _lock:
        if threads != _threads:
            _threads, _context = threads, None
            _handles.clear()


def threads() -> int:
    """How many threads TensorStore uses in this process."""
    return _threads


def context() -> ts.Context:
    """The process's TensorStore context, made at the first call.

    Nothing is cached: a sweep reads each chunk once and writes each unit once. Local files are not
    synchronised to the disk one by one (seven times slower); they appear whole or not at all.
    """
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
            # the resource is made when first used; everything opened later shares it
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
                # Otherwise every place that may hold keys is asked, and what is missing is printed.
                spec["aws_credentials"] = {"type": "environment"}
            _context = ts.Context(spec, parent=_root)
        return _context


def waiting_context(many: int = WAITING) -> ts.Context:
    """A context for arrays whose callbacks wait for requests to a bucket: with threads of its own.

    Requests need some of the threads of `context` to end; if all of those waited for them, none would.
    What waits for a disk is slower with more threads than there are cores.
    """
    return ts.Context({"data_copy_concurrency": {"limit": many}}, parent=context())


def _few_arenas() -> None:
    """Let TensorStore's threads share two malloc arenas, where glibc is the C library.

    By default each thread keeps the chunks it freed in an arena of its own: on two cores a write
    held 70 MB instead of 40, and was no faster.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(-8, 2)  # M_ARENA_MAX


def forget_opened() -> None:
    """Drop the shared handles of this process; each is opened again when it is needed.

    A handle of an array that was replaced by one of another dtype refuses to read what is there now.
    """
    with _lock:
        _handles.clear()


def opened(key: str, open_it: Callable[[], Any]) -> Any:
    """The handle known by ``key`` in this process, opened by ``open_it`` the first time."""
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
    """Wrap a function that TensorStore calls to fill a chunk.

    It is told when that was. Without, whoever asks while a thread still has the chunk gets what it held
    before, also once its file has been replaced.

    What the function raises comes without the errors that led to it. TensorStore pickles errors. A library
    that teaches Python to pickle tracebacks and causes, as dask does, makes it pickle those too, and some
    of them cannot be read back.
    """

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
