"""Objects shared by all steps of a pipeline: pickled once, and unpickled once in each process."""

from __future__ import annotations

import bz2
import hashlib
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import cloudpickle

from beam_volumes.storage.places.context import forget_opened

#: Objects in use in this process, by the digest of their pickles.
_LIVE: WeakValueDictionary[bytes, OncePerProcess] = WeakValueDictionary()
_LOADING = threading.Lock()
_PACKED = "_packed"


class OncePerProcess:
    """An immutable object that is unpickled only once in a process; its bytes are compressed on first use.

    A runner pickles each step separately, and unpickles it for each thread.

    Examples
    --------
    >>> import pickle
    >>> from beam_volumes.session.process_cache import OncePerProcess
    >>> class Setting(OncePerProcess):
    ...     def __init__(self, value):
    ...         self.value = value
    >>> data = cloudpickle.dumps([Setting(7)])
    >>> a, b = pickle.loads(data), pickle.loads(data)
    >>> a[0].value, a[0] is b[0]
    (7, True)
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        state = self.__dict__
        if _PACKED not in state:
            state[_PACKED] = bz2.compress(cloudpickle.dumps((type(self), dict(state))))
        return _unpickled, (state[_PACKED],)


def _unpickled(packed: bytes) -> OncePerProcess:
    name = hashlib.blake2b(packed, digest_size=16).digest()
    with _LOADING:  # concurrent threads wait for the first
        found = _LIVE.get(name)
        if found is None:
            # Arrays may have been replaced since the last run of this process.
            forget_opened()
            kind, state = cloudpickle.loads(bz2.decompress(packed))
            found = kind.__new__(kind)
            found.__dict__.update(state, **{_PACKED: packed})
            _LIVE[name] = found
        return found
