"""Settings of the package in this process."""

from __future__ import annotations

from dataclasses import dataclass

from beam_volumes.storage.places import outside


@dataclass
class Options:
    """Settings of this process, as `beam_volumes.options`.

    Attributes
    ----------
    max_inmemory : int
        Size in bytes of the largest result that `compute` and ``np.asarray`` return as an
        array, 1 GiB by default.
    durable : bool
        Whether runs that begin in this process wait for the disk: before a slab is recorded as
        finished, its voxels would survive a power cut. False by default.
    outside : bool
        Whether files may name others that lie neither in their folder nor below it: a header its file of
        voxels, HDF5 and OME-TIFF the other files of a set, OME-Zarr its arrays. False by default: such a
        file is refused, as it could name any file of the machine.

    Examples
    --------
    >>> bv.options.max_inmemory
    1073741824
    """

    max_inmemory: int = 1 << 30
    durable: bool = False

    @property
    def outside(self) -> bool:
        return outside.allowed

    @outside.setter
    def outside(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"options.outside={value!r}: use True or False")
        outside.allowed = value


options = Options()
