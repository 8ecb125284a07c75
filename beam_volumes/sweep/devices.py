"""The devices of this machine: list them, and open one for a sweep."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from beam_volumes.sweep.device import Device, DeviceInfo, DeviceLost, NoDevice
from beam_volumes.sweep.resources import Arena

_NONE = "this machine has no CUDA device; device='cpu' runs everywhere"
_lock = threading.Lock()
#: The sweeps of this process on each device.
_sweeps: Counter[int] = Counter()


def listed() -> list[DeviceInfo]:
    """The devices of this machine. Raises NoDevice: there are none, or a package is missing."""
    found: list[DeviceInfo] = _cuda().devices()
    if not found:
        raise NoDevice(_NONE)
    return found


@contextmanager
def opened(arena: Arena | None = None, program: Any = None, threads: int = 1) -> Iterator[Device]:
    """Use a device of this machine for a sweep. Raises DeviceLost if there is none.

    The arena keeps streams and memory for its next sweep of the same program.
    """
    try:
        cuda = _cuda()
        number = cuda.number()
    except NoDevice as error:
        raise DeviceLost(f"the plan runs stages on a device: {error}") from None
    if not number:
        raise DeviceLost(f"the plan runs stages on a device: {_NONE}")
    own = arena or Arena()
    with _least_used(number, own.device) as index:
        if own.device is None or own.device.index != index:
            own.release()
            own.device = cuda.open_device(index)
        is_kept = False
        try:
            with own.device.used(program, threads):
                yield own.device
            is_kept = arena is not None
        finally:
            if not is_kept:
                own.release()


@contextmanager
def _least_used(number: int, kept: Device | None) -> Iterator[int]:
    """The device with the fewest sweeps of this process, preferably the one of the sweep before.

    Processes begin with different ones.
    """
    with _lock:
        before = kept.index if kept is not None else -1
        index = min(
            range(number), key=lambda i: (_sweeps[i], i != before, (i - os.getpid()) % number)
        )
        _sweeps[index] += 1
    try:
        yield index
    finally:
        with _lock:
            _sweeps[index] -= 1


def _cuda() -> Any:
    try:
        from beam_volumes.sweep import cuda

        import_module(cuda.PACKAGE)
        return cuda
    except ImportError as error:
        missing = f"the package {error.name}"
    except RuntimeError as error:  # a library of CUDA is missing
        missing = f"CUDA's libraries ({error})".replace("\n", " ")
    raise NoDevice(
        f"device='cuda' needs {missing}; install it with: pip install 'beam-volumes[cuda]'"
    )
