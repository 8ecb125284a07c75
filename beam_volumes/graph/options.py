"""Settings of the package in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from beam_volumes.storage.places.outside import trusted


@dataclass
class Options:
    """Settings of this process, as `beam_volumes.options`.

    Attributes
    ----------
    max_inmemory : int
        Size in bytes of the largest result that `compute` and ``np.asarray`` return as an
        array, 1 GiB by default.
    durable : bool
        Whether runs wait for the disk before they record a slab as finished, so its voxels survive a
        power cut. False by default.
    outside : bool
        Whether files may refer to files outside their own folder: a header to its voxels, HDF5 and
        OME-TIFF to other files of a set, OME-Zarr to its arrays. False by default: such a file is
        refused, because it could name any file of the machine.
    trust_models : bool
        Whether networks may be opened that are programs: files of PyTorch, which can read and
        write any file. False by default: such a file is refused.

    Examples
    --------
    >>> bv.options.max_inmemory
    1073741824
    """

    max_inmemory: int = 1 << 30
    durable: bool = False

    @property
    def outside(self) -> bool:
        return "outside" in trusted

    @outside.setter
    def outside(self, value: bool) -> None:
        _trust("outside", value)

    @property
    def trust_models(self) -> bool:
        return "trust_models" in trusted

    @trust_models.setter
    def trust_models(self, value: bool) -> None:
        _trust("trust_models", value)


def _trust(name: str, value: bool) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"options.{name}={value!r}: use True or False")
    (trusted.add if value else trusted.discard)(name)


options = Options()


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes of this process that computations inside a function may use."""

    total: int
    base: int  #: Of the process itself


#: The limit of a recipe for the registrations before its plan; None if there is no such limit.
memory_limit: ContextVar[MemoryLimit | None] = ContextVar("memory_limit", default=None)


@contextmanager
def limited(limit: MemoryLimit | None) -> Iterator[None]:
    """Let computations in the block have a limit."""
    token = memory_limit.set(limit)
    try:
        yield
    finally:
        memory_limit.reset(token)


@contextmanager
def reserved(occupied: int) -> Iterator[None]:
    """Let computations in the block leave a number of bytes for other arrays."""
    limit = memory_limit.get()
    with limited(limit and replace(limit, total=max(limit.total - occupied, 0))):
        yield
