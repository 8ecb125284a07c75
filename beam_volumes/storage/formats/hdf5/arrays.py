"""Arrays of an HDF5 file: which of its objects hold voxels, and what is known of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.storage.formats.hdf5.files import check_links
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.outside import OutsideError
from beam_volumes.storage.sources.source import DTYPES


@dataclass(frozen=True)
class Paths:
    """The paths of datasets that lie side by side, which differ in numbers alone.

    Examples
    --------
    >>> paths = Paths(("/t", "/s", "/cells"), (("00", "01"), ("0", "1", "2")))
    >>> len(paths), paths[4], paths.taken({0: 1})[2]
    (6, '/t01/s1/cells', '/t01/s2/cells')
    """

    texts: tuple[str, ...]  #: What is before, between and behind the numbers
    #: For each axis along which they lie, the slowest first
    numbers: tuple[tuple[str, ...], ...] = ()

    def __len__(self) -> int:
        return math.prod(self.sizes)

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.numbers))

    def __getitem__(self, which: int) -> str:
        at = np.unravel_index(which, self.sizes) if self.numbers else ()
        chosen = [n[int(k)] for n, k in zip(self.numbers, at, strict=True)]
        return self.texts[0] + "".join(n + t for n, t in zip(chosen, self.texts[1:], strict=True))

    def taken(self, fixed: Mapping[int, int]) -> Paths:
        """Those at one place along some of the axes."""
        texts, numbers = [self.texts[0]], []
        for axis, (all_of_them, text) in enumerate(zip(self.numbers, self.texts[1:], strict=True)):
            if axis in fixed:
                texts[-1] += all_of_them[fixed[axis]] + text
            else:
                numbers.append(all_of_them)
                texts.append(text)
        return Paths(tuple(texts), tuple(numbers))


@dataclass(frozen=True)
class Array:
    """What a file says of an array."""

    node: Any  #: It, or the first one of several
    paths: Paths | None = None  #: Those of all, where points and channels have each their own
    apart: tuple[str, ...] = ()  #: The axes along which they lie, the slowest first
    axes: tuple[str, ...] | None = None  #: Names of a dataset's dimensions
    #: Of a dataset's dimensions, where it is larger than what it holds
    sizes: tuple[int, ...] | None = None
    #: For each of z, y, x
    voxel_size: tuple[float, float, float] | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    #: Which of z, y, x run backwards in space
    back: tuple[bool, bool, bool] = (False, False, False)
    unit: str | None = None
    channels: tuple[str, ...] = ()
    dtype: str | None = None  #: As which voxels are meant, where that is not what the file says
    is_mask: bool = False
    #: Voxels are ``stored * slope + intercept``: arrays, whose dimensions are the first ones of the
    #: dataset
    scaling: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)


def is_volume(node: Any) -> bool:
    """Whether something is a dataset of voxels."""
    return is_dataset(node) and 2 <= len(node.shape or ()) <= 5 and dtype_of(node) is not None


def dtype_of(dataset: Any) -> np.dtype | None:
    """The dtype of voxels; None if they are nothing that is read."""
    try:
        dtype = np.dtype(dataset.dtype)
    except Exception:  # h5py knows no dtype for it
        return None
    native = np.dtype(dtype.str).newbyteorder("=") if dtype.kind in "buif" else dtype
    return native if native in DTYPES else None


def is_dataset(node: Any) -> bool:
    return hasattr(node, "chunks") and hasattr(node, "fillvalue")


def got(group: Any, path: str, check: bool = True) -> Any:
    """What is at a path of an open file; where that leads to a file elsewhere, it is refused."""
    try:
        if check:
            check_links(group, path)
        return group.get(path)
    except OutsideError:
        raise
    except Exception:  # a link to nowhere, or a damaged object
        return None


def present(file: Any, path: str, name: str) -> Any:
    node = got(file, path)
    if not is_volume(node):
        raise VolumeError(f"{name} is damaged: there are no voxels at {path}; restore it")
    return node
