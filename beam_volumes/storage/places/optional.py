"""Libraries that only some formats need."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def needed(module: str, extra: str, why: str) -> Any:
    """Import a library that an extra of this package installs.

    - ``extra``: the extra that has it.
    - ``why``: what needs it, for the message.

    Raises `ValueError`: it is not installed; the message says how to install it.

    Examples
    --------
    >>> needed("no_such_library", "hdf5", "a.h5 is HDF5")
    Traceback (most recent call last):
    ValueError: a.h5 is HDF5, which needs no_such_library: pip install 'beam-volumes[hdf5]'
    """
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(
            f"{why}, which needs {module}: pip install 'beam-volumes[{extra}]'"
        ) from None
