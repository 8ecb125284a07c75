"""Objects that all steps of a pipeline hold: pickled once, and unpickled once in each process."""

from __future__ import annotations

import bz2
import hashlib
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import cloudpickle

from beam_volumes.storage.places.context import forget_opened

#: By the digest of their pickles, those that something in this process holds.
_HELD: WeakValueDictionary[bytes, OncePerProcess] = WeakValueDictionary()
_LOADING = threading.Lock()
_PACKED = "_packed"


class OncePerProcess:
    """An object that never changes, of which a process has one however often it is unpickled.

    A runner pickles each step by itself, and unpickles it again for each thread. The bytes are compressed,
    and made on first use.

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
        return _held, (state[_PACKED],)


def _held(packed: bytes) -> OncePerProcess:
    name = hashlib.blake2b(packed, digest_size=16).digest()
    with _LOADING:  # threads that begin together wait for the first
        held = _HELD.get(name)
        if held is None:
            # Since the last run of this process, arrays may have been replaced by others.
            forget_opened()
            kind, state = cloudpickle.loads(bz2.decompress(packed))
            held = kind.__new__(kind)
            held.__dict__.update(state, **{_PACKED: packed})
            _HELD[name] = held
        return held
