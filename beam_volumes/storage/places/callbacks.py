"""Functions that TensorStore calls to fill chunks of files that it does not know."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import tensorstore as ts


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
