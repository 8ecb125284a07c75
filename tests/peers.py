"""The large packages that few tests need, most of them of file formats: the extra ``test-formats``."""

import os
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import pytest

#: By the name that is imported; together they are a gigabyte.
PEERS = ("SimpleITK", "hdf5plugin", "pylibCZIrw.czi", "numba_cuda")


def in_ci() -> bool:
    """Whether a continuous integration runs the tests, where nothing may be skipped."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def missing_peers() -> list[str]:
    """The packages that are not installed."""
    packages = [name.partition(".")[0] for name in PEERS]
    return [package for package in packages if find_spec(package) is None]


def peer(name: str) -> ModuleType:
    """Import one of these packages; without it skip the test, or fail it in CI."""
    if name not in PEERS:
        raise ValueError(f"{name} is none of {PEERS}")
    return import_module(name) if in_ci() else pytest.importorskip(name)
