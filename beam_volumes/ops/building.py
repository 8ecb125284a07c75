"""What the families of filters share when they build a stage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_volumes.geometry import Triple
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.volume import Volume
from beam_volumes.ops import parameters as par
from beam_volumes.sweep.stage import Padding, Stage


def kernel_input(volume: Volume) -> Volume:
    """The volume in a dtype that kernels take: half precision becomes single."""
    return volume.astype(np.float32) if volume.dtype == np.float16 else volume


def stage_of(volume: Volume, stage: Stage) -> Volume:
    return volume.derive(StageNode.of(stage, (volume.node,)))


def edges_of(volume: Volume, modes: tuple[str, str, str], cval: float, name: str) -> Padding:
    """The padding of a filter that computes in the volume's own dtype."""
    if any(m in ("constant", "grid-constant") for m in modes) and not representable(
        cval, volume.dtype
    ):
        raise ValueError(
            f"{name}: cval={cval!r} is not a {volume.dtype} number; cast the volume with astype first"
        )
    return Padding(modes, exact(cval, volume.dtype))


def representable(number: float, dtype: np.dtype) -> bool:
    if np.issubdtype(dtype, np.floating):
        return True
    if dtype.kind == "b":
        return number in (0, 1)
    info = np.iinfo(dtype)
    return float(number).is_integer() and info.min <= int(number) <= info.max


def exact(number: float, dtype: np.dtype) -> float:
    """A number of a dtype as a float, or as an int if a float would round it.

    Examples
    --------
    >>> exact(7, np.dtype("i8")), exact(2**53 + 1, np.dtype("i8"))
    (7.0, 9007199254740993)
    """
    whole = int(number) if dtype.kind in "iu" and float(number).is_integer() else 0
    return whole if whole != float(whole) else float(number)


def holds(dtype: np.dtype, number: float) -> bool:
    """Whether a dtype has the very number, which a wider one may be computed with.

    Examples
    --------
    >>> holds(np.dtype("f4"), 0.5), holds(np.dtype("f4"), 0.1), holds(np.dtype("u1"), 255)
    (True, False, True)
    """
    if dtype.kind != "f":
        return representable(number, dtype)
    with np.errstate(over="ignore"):
        return bool(float(dtype.type(number)) == number or np.isnan(number))


def taps_of(footprint: np.ndarray, name: str) -> np.ndarray:
    """The positions of a footprint's true voxels, in raster order."""
    count = int(np.count_nonzero(footprint))
    if count > par.MOST_TAPS:
        raise ValueError(
            f"{name}: a footprint of {count:,} voxels is too large: it has up to {par.MOST_TAPS:,}"
        )
    taps = np.argwhere(footprint).astype(np.int64, order="C").reshape(-1, 3)
    if not len(taps):
        raise ValueError(f"{name}: the footprint is all false")
    return taps


def triple(numbers: Sequence[int]) -> Triple:
    z, y, x = numbers
    return (int(z), int(y), int(x))
