"""Settings of the package in this process."""

from __future__ import annotations

from dataclasses import dataclass


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

    Examples
    --------
    >>> bv.options.max_inmemory
    1073741824
    """

    max_inmemory: int = 1 << 30
    durable: bool = False


options = Options()
