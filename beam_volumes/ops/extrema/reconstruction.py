"""Morphological reconstruction, and extrema with a minimum height."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.floods import Floods
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.nodes import Barrier, StageNode
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.table import Table
from beam_volumes.graph.traversal import voxels_per_label
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.relabel import relabel
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.saddle_survey import SaddleSurvey
from beam_volumes.ops.labels.tables import extremes_of_labels
from beam_volumes.ops.labels.watershed import basins_of
from beam_volumes.ops.measure.reductions import max as greatest
from beam_volumes.ops.measure.reductions import min as least
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import kernel_input
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.parameters.neighbourhood import touching
from beam_volumes.sweep.stage import Block, Stage


@documented
def reconstruction(
    seed: Volume, mask: Volume, method: str = "dilation", footprint: Any = None
) -> Volume:
    """Grow a seed image under a mask image, or shrink it above the mask, until nothing changes.

    Parameters
    ----------
    seed : Volume or numpy.ndarray
        The initial volume: nowhere above the mask for dilation, nowhere below the mask for erosion.
    mask : Volume or numpy.ndarray
        The limit, with the same shape. The mask must not contain NaN; both volumes may contain
        infinity.
    method : {"dilation", "erosion"}, default: "dilation"
        ``"dilation"`` grows the seed, ``"erosion"`` shrinks it.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre, including all neighbours that share a face. By default, all entries are true.

    Returns
    -------
    Volume
        A volume of the dtype to which numpy promotes both volumes. scikit-image returns the same
        values as floats. A zero that does not come from the mask is 0.0, never -0.0.

    Raises
    ------
    ValueError
        If shapes differ, or ``method`` or ``footprint`` is invalid. On computation, if the seed
        exceeds the mask, a voxel is NaN, or the basins need more memory than is available.
    TypeError
        If an input is neither a volume nor an array, or has integers of 64 bits.

    See Also
    --------
    h_maxima, h_minima : extrema with a minimum height.
    binary_propagation : reconstruction of masks.

    Notes
    -----
    Three sweeps, regardless of how far the seed grows. Each voxel of a basin of the mask has a
    monotonic path to the basin's end. The result is therefore the mask, clipped to one level per
    basin. Two sweeps find the basins, as in `watershed`. A table of the passes between basins
    determines the levels. One worker holds this table, about 150 bytes for each basin and 100 for
    each pair of touching basins; if memory is too small, an error is raised. A noisy volume has a
    basin for every few voxels: smooth it first, or allow more memory.

    References
    ----------
    `skimage.morphology.reconstruction`; L. Vincent, "Morphological grayscale reconstruction in image
    analysis", IEEE Trans. Image Processing 2 (1993).

    Examples
    --------
    >>> mask = np.array([[1, 5, 2, 4, 1]])
    >>> seed = np.array([[1, 5, 1, 1, 1]])
    >>> np.asarray(bv.reconstruction(seed.astype("u1"), mask.astype("u1")))
    array([[1, 5, 2, 2, 1]], dtype=uint8)
    """
    name = "reconstruction"
    if method not in ("dilation", "erosion"):
        raise ValueError(f"{name}: method={method!r}; use dilation or erosion")
    return _reconstructed(name, as_volume(seed), as_volume(mask), method, footprint)


@documented
def h_maxima(image: Volume, h: float, footprint: Any = None) -> Volume:
    """Find maxima that rise at least ``h`` above all paths to higher maxima.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes. The volume must not contain NaN or infinity.
    h : float
        The height of maxima or the depth of minima, above 0. If the height is not an integer,
        integer volumes are converted to floats.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre, including all neighbours that share a face. By default, all entries are true.

    Returns
    -------
    Volume
        A uint8 volume: 1 in the extrema, 0 elsewhere.

    Raises
    ------
    ValueError
        If ``h`` is not above 0 or too large for the dtype, or ``footprint`` is invalid. On
        computation, if a voxel is NaN or infinite, or the basins need more memory than is
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or has integers of 64 bits.

    See Also
    --------
    local_maxima : maxima of any height.
    reconstruction : the underlying operation, with its memory.

    Notes
    -----
    Three sweeps, like `reconstruction`.

    References
    ----------
    `skimage.morphology.h_maxima`; P. Soille, "Morphological Image Analysis" (2003), chapter 6.

    Examples
    --------
    >>> image = np.array([[0, 3, 2, 9, 1, 2, 0]], "u1")
    >>> np.asarray(bv.h_maxima(image, 2))
    array([[0, 0, 0, 1, 0, 0, 0]], dtype=uint8)
    """
    return _h_extrema("h_maxima", image, h, footprint)


@documented_like(h_maxima)
def h_minima(image: Volume, h: float, footprint: Any = None) -> Volume:
    """Find minima that are at least ``h`` below all paths to lower minima.

    See Also
    --------
    local_minima : minima of any depth.
    reconstruction : the underlying operation, with its memory.

    Notes
    -----
    Three sweeps, like `reconstruction`.

    References
    ----------
    `skimage.morphology.h_minima`; P. Soille, "Morphological Image Analysis" (2003), chapter 6.

    Examples
    --------
    >>> image = np.array([[9, 6, 7, 0, 8, 7, 9]], "u1")
    >>> np.asarray(bv.h_minima(image, 2))
    array([[0, 0, 0, 1, 0, 0, 0]], dtype=uint8)
    """
    return _h_extrema("h_minima", image, h, footprint)


def _h_extrema(name: str, image: Any, h: Any, footprint: Any) -> Volume:
    """Compute as scikit-image does, in the volume's dtype."""
    image = one_channel(as_volume(image))
    if image.dtype.kind == "b":
        image = image.astype(np.uint8)
    if not par.is_number(h) or not (math.isfinite(h) and h > 0):
        raise ValueError(
            f"{name}: h={h!r} is not a finite number above 0; use local_maxima or local_minima "
            "without a height"
        )
    dtype = image.dtype
    _refuse_long(name, dtype, f"an image of {dtype}")
    if h > float((np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)).max):
        raise ValueError(f"{name}: h={h!r} is out of range for {dtype}")
    if dtype.kind in "ui" and float(h) % 1:
        image, dtype = image.astype(np.float64), np.dtype(np.float64)
    h = dtype.type(h) if dtype.kind == "f" else int(h)
    up = name == "h_minima"
    wide = image.astype(np.int64) if dtype.kind in "ui" else image
    if not image.size:
        return image.astype(np.uint8)
    # NaN and infinity have no shifted value, and are refused here.
    spread = apply_ufunc("subtract", greatest(wide, nan="omit"), least(wide, nan="omit"))
    if dtype.kind == "f":
        slack = apply_ufunc("multiply", np.abs(image), dtype.type(2 * np.finfo(dtype).resolution))
        shifted = image + h + slack if up else image - h - slack
    else:
        info = np.iinfo(dtype)
        lowest = 0 if dtype.kind == "u" else int(info.min)
        moved = wide + (h if up else -h)
        shifted = np.clip(moved, lowest, int(info.max)).astype(dtype)
    made = _reconstructed(name, shifted, image, "erosion" if up else "dilation", footprint)
    if dtype.kind == "f":
        residue = made - image if up else image - made
    else:
        a, b = (made, image) if up else (image, made)
        residue = apply_ufunc("subtract", a.astype(np.int64), b.astype(np.int64))
    found = apply_ufunc("greater_equal", residue, h)
    return apply_ufunc("logical_and", found, apply_ufunc("greater_equal", spread, h)).astype(
        np.uint8
    )


def _refuse_long(name: str, dtype: np.dtype, what: str) -> None:
    if dtype.kind not in "buif" or (dtype.kind in "ui" and dtype.itemsize > 4):
        raise TypeError(
            f"{name}: {what} is not available, because passes are compared as float64; use "
            "integers of up to 32 bits, or cast with astype"
        )


def _reconstructed(name: str, seed: Volume, mask: Volume, method: str, footprint: Any) -> Volume:
    seed, mask = one_channel(seed), one_channel(mask)
    if seed.shape != mask.shape or seed.axes != mask.axes:
        raise ValueError(
            f"{name}: a seed of shape {seed.shape} ({' '.join(seed.axes)}) and a mask of shape "
            f"{mask.shape} ({' '.join(mask.axes)}) do not match; crop them to one shape first"
        )
    dtype = np.result_type(seed.dtype, mask.dtype)
    _refuse_long(name, dtype, f"a seed of {seed.dtype} and a mask of {mask.dtype}")
    structure = touching(mask, footprint, name)
    work = np.dtype({"?": "u1", "e": "f4"}.get(dtype.char, dtype))
    turned = method == "dilation"
    nan = "voxels that are NaN" + (" or infinite" if name != "reconstruction" else "")
    checked = StageNode.of(
        Within(name, work, turned, nan), (seed.astype(work).node, mask.astype(work).node)
    )
    space = shared_space(name, seed, mask)
    # For dilation, the order is inverted: floods start where the seed is lowest.
    low = _turned(Volume(checked, space), turned)
    heights = kernel_input(_turned(Volume(mask.astype(work).node, space), turned))
    basins = Volume(basins_of(name, heights), space)
    each = voxels_per_label(basins.node)
    how = heights.dtype, "max", 0, None, "raise", structure
    survey = SaddleSurvey(name, *how, voxels_per_label=each)
    passes = Table(Barrier.of(survey, (basins.node, heights.node)))
    levels = extremes_of_labels(basins, low, "intensity_min")
    step = Floods(name, work, ("label", "intensity_min"), -0.0 if turned else 0.0)
    table = Table(then(step, [passes, levels], name))
    flooded = apply_ufunc("maximum", heights, relabel(basins, table, dtype=work))
    return _turned(flooded, turned).astype(dtype)


def _turned(volume: Volume, turned: bool) -> Volume:
    """Invert the order of values without loss."""
    if not turned:
        return volume
    return apply_ufunc("negative" if volume.dtype.kind == "f" else "invert", volume)


@dataclass(frozen=True, eq=False)
class Within(Stage):
    """Check that a seed is nowhere above its mask (the second input), or nowhere below it."""

    below: bool
    #: The kind of invalid voxels, for the message about NaN.
    unknown: str

    cost = 0.5

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return rows * cols

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            seed, mask = (b.slice(k, y0, y1) for b in inputs)
            if not ((seed <= mask) if self.below else (seed >= mask)).all():
                if (seed != seed).any() or (mask != mask).any():
                    raise ValueError(f"{self.name}: {self.unknown}: replace them")
                side, way = ("above", "dilation") if self.below else ("below", "erosion")
                raise ValueError(
                    f"{self.name}: the seed is {side} the mask in slice {out.start[0] + k}, which "
                    f"{way} does not allow; use the minimum or maximum of the two as seed"
                )
            out.slice(k, y0, y1)[...] = seed
