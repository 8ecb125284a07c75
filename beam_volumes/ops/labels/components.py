"""Connected components of the whole volume: labels, and masks of selected components.

There are two sweeps over the input: the first finds the components of every slab and their connections, the
second writes. The input is computed twice instead of stored, unless this is more expensive. Voxels never
leave their slab's worker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from beam_volumes.across.merge import Keep
from beam_volumes.base.geometry import check_connectivity, connectivity_structure
from beam_volumes.graph.nodes import AcrossNode, Barrier, Node
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_mask, as_volume
from beam_volumes.ops.labels.relabel import filtered
from beam_volumes.ops.labels.surveys.component_surveys import ComponentSurvey, Relabel
from beam_volumes.ops.morphology.attributes import opened
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.pointwise import where

_UINT32_VOXELS = 1 << 32


@documented
def label(
    mask: Volume,
    connectivity: int | ArrayLike = 1,
    structure: ArrayLike | None = None,
    *,
    by_value: bool = False,
    background: float | bool | None = 0,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Label the connected components of a mask.

    The volume may be larger than memory, and a connected component may span all of it.

    Ids are 1, 2, ... in the raster order of the components' first voxels, independent of slabs and
    tiles.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels of any dtype are foreground.
    connectivity : {1, 2, 3} or array_like, default: 1
        Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
        include shared corners. An array is used as ``structure``, which is scipy's second
        parameter.
    %(neighbours)s
    by_value : bool, default: False
        Whether neighbours are connected only if they are equal, as in `skimage.measure.label`.
    background : number or None, default: 0
        The value to leave unlabelled with ``by_value``; None labels all values.
    dtype : dtype, optional
        Dtype of the labels: uint32 by default, uint64 for volumes of 2**32 or more voxels.

    Returns
    -------
    Volume
        A volume of labels. Its `Volume.num_labels` is the lazy number of components.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, before anything is written, if ``dtype``
        cannot hold the number of components, or they need more memory than is available. The
        message suggests slabs that would work.
    TypeError
        If ``mask`` is neither a volume nor an array.

    See Also
    --------
    regionprops_table : measures each component.
    remove_small_objects, keep_largest : select components.

    Notes
    -----
    The result is identical to `scipy.ndimage.label`.

    %(component_sweeps)s

    References
    ----------
    L. He, Y. Chao, K. Suzuki, "A run-based two-scan labeling algorithm", IEEE Trans. Image
    Processing 17 (2008), for the runs of a slab. Slabs exchange the components of shared planes in a
    tree.

    Examples
    --------
    >>> cells = bv.label(bv.open(np.array([[1, 0, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1]])))
    >>> np.asarray(cells)
    array([[1, 0, 2],
           [1, 0, 2],
           [0, 0, 0],
           [3, 3, 3]], dtype=uint32)
    >>> int(cells.num_labels)
    3
    """
    mask = as_volume(mask)
    wanted = np.dtype(dtype) if dtype is not None else None
    if wanted is None:
        wanted = np.dtype(np.uint32 if mask.size < _UINT32_VOXELS else np.uint64)
    if wanted.kind not in "iu":
        raise TypeError(f"label: dtype={dtype!r}: labels must be integers")
    if not isinstance(connectivity, int) and np.ndim(connectivity):
        if structure is not None:
            raise TypeError(
                "label: give connectivity as a number, or the neighbours once, as structure="
            )
        connectivity, structure = 1, connectivity
    element = neighbours(mask, connectivity, structure, "label")
    below = mask.node
    if (
        not by_value
        and isinstance(below, AcrossNode)
        and isinstance(below.completion, Relabel)
        and below.dtype == bool
        and not below.completion.by_value
        and np.array_equal(below.completion.structure, element)
    ):
        # A survey of selected components: number them in the same survey.
        found = below.barrier.survey
        assert isinstance(found, ComponentSurvey)
        barrier = Barrier.of(replace(found, name="label", dtype=wanted), below.barrier.operands)
        return mask.derive(_relabelled(barrier))
    survey = ComponentSurvey(
        "label", element, by_value, background, border_axes=_axes(mask), dtype=np.dtype(wanted)
    )
    return mask.derive(_relabelled(Barrier.of(survey, (mask.node,))))


@documented
def remove_small_objects(
    mask: Volume,
    max_size: int | str = 64,
    connectivity: int = 1,
    *,
    min_size: int | str | None = None,
    structure: ArrayLike | None = None,
) -> Volume:
    """Remove small components or labels.

    Parameters
    ----------
    %(mask_or_labels)s
    max_size : int or str, default: 64
        The largest size to remove: a number of voxels, or a physical volume such as ``"0.001
        um^3"``.
    %(connectivity)s
    min_size : int or str, optional
        The smallest size to keep, instead of ``max_size``.
    %(neighbours)s

    Returns
    -------
    Volume
        A volume of the input's dtype in which removed objects are 0.

    Raises
    ------
    %(component_errors)s

    See Also
    --------
    remove_small_holes : does the same for the background.
    keep_largest : keeps a number of components.

    Notes
    -----
    The result is identical to scikit-image's.

    %(component_sweeps)s

    References
    ----------
    `skimage.morphology.remove_small_objects`.

    Examples
    --------
    >>> mask = bv.open(np.array([[1, 0, 1, 1]], bool))
    >>> np.asarray(bv.remove_small_objects(mask, 1)).astype(int)
    array([[0, 0, 1, 1]])
    """
    mask = as_volume(mask)
    minimum = _least_size(mask, max_size, min_size, "remove_small_objects") + 1
    if mask.dtype != bool:
        return filtered(mask, "remove_small_objects", Keep(min_size=minimum))
    element = neighbours(mask, connectivity, structure, "remove_small_objects")
    keep = Keep(min_size=minimum)
    return kept_components(mask, "remove_small_objects", element, measures=("size",), keep=keep)


@documented
def remove_small_holes(
    mask: Volume,
    max_size: int | str = 64,
    connectivity: int = 1,
    *,
    structure: ArrayLike | None = None,
) -> Volume:
    """Fill small components of the background.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    max_size : int or str, default: 64
        The largest size to fill: a number of voxels, or a physical volume such as ``"0.001 um^3"``.
    %(connectivity)s
    %(neighbours)s

    Returns
    -------
    %(bool_result)s

    Raises
    ------
    %(component_errors)s

    See Also
    --------
    binary_fill_holes : fills holes of any size.
    remove_small_objects : does the same for the foreground.

    Notes
    -----
    The result is identical to scikit-image's. Components that touch the border of the volume are
    also filled.

    %(component_sweeps)s

    References
    ----------
    `skimage.morphology.remove_small_holes`.

    Examples
    --------
    >>> mask = bv.open(np.array([[1, 0, 1, 0, 0]], bool))
    >>> np.asarray(bv.remove_small_holes(mask, 1)).astype(int)
    array([[1, 1, 1, 0, 0]])
    """
    mask = as_mask(mask)
    maximum = _least_size(mask, max_size, None, "remove_small_holes")
    element = neighbours(mask, connectivity, structure, "remove_small_holes")
    keep = Keep(max_size=maximum)
    return mask | kept_components(~mask, "small holes", element, measures=("size",), keep=keep)


@documented_like(remove_small_objects)
def area_opening(image: Volume, area_threshold: int | str = 64, connectivity: int = 1) -> Volume:
    """Remove bright components with fewer voxels than a threshold, at each grey level.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume of bool or numbers; NaN counts as the largest.
    area_threshold : int or str, default: 64
        The smallest size to keep: a number of voxels, or a physical volume such as ``"0.001
        um^3"``.

    Returns
    -------
    Volume
        A volume of the input's dtype. Each voxel gets the highest level at which it is in a
        component of this size. If there is no such level, it gets the lowest level of the volume.

    See Also
    --------
    remove_small_objects : does the same for masks, and also selects labels.
    diameter_opening : removes components by their extent.
    area_closing : fills small dark components.

    Notes
    -----
    The result is identical to scikit-image's. Masks need two sweeps, for any threshold. Grey values
    need one sweep, with a halo of the threshold minus 1, because smaller components extend over
    fewer voxels along each axis. Because of the halo, memory and time grow with the cube of the
    threshold. For large thresholds, use a mask, or `h_maxima`.

    References
    ----------
    `skimage.morphology.area_opening`; A. Meijster, M. Wilkinson, "A comparison of algorithms for
    connected set openings and closings", IEEE Transactions on Pattern Analysis and Machine
    Intelligence 24 (2002).

    Examples
    --------
    >>> np.asarray(bv.area_opening(np.array([[7, 2, 5, 5, 2]]), 2))
    array([[2, 2, 5, 5, 2]])
    """
    return _by_area(image, area_threshold, connectivity, "area_opening", closing=False)


@documented_like(area_opening)
def area_closing(image: Volume, area_threshold: int | str = 64, connectivity: int = 1) -> Volume:
    """Fill dark components with fewer voxels than a threshold, at each grey level.

    Returns
    -------
    Volume
        A volume of the input's dtype. Each voxel gets the lowest level at which it is in a dark
        component of this size. If there is no such level, it gets the highest level of the volume.

    See Also
    --------
    remove_small_holes : does the same for masks, also with a structure.
    area_opening : removes small bright components.

    References
    ----------
    `skimage.morphology.area_closing`.

    Examples
    --------
    >>> np.asarray(bv.area_closing(np.array([[7, 2, 5, 1, 1]]), 2))
    array([[7, 5, 5, 1, 1]])
    """
    return _by_area(image, area_threshold, connectivity, "area_closing", closing=True)


def _by_area(
    image: Any, area_threshold: int | str, connectivity: int, name: str, *, closing: bool
) -> Volume:
    image = as_volume(image)
    minimum = _least_size(image, 64, area_threshold, name, "area_threshold") + 1
    element = neighbours(image, connectivity, None, name)
    if image.dtype != bool:
        return opened(image, minimum, element, name, by_extent=False, closing=closing)
    mask = ~image if closing else image
    kept = kept_components(mask, name, element, measures=("size",), keep=Keep(min_size=minimum))
    return ~kept if closing else kept


@documented_like(area_opening)
def diameter_opening(image: Volume, diameter_threshold: int = 8, connectivity: int = 1) -> Volume:
    """Remove bright components with an extent below a threshold, at each grey level.

    Parameters
    ----------
    diameter_threshold : int, default: 8
        The smallest extent to keep, in voxels. The extent is the longest side of a component's
        bounding box.

    Returns
    -------
    Volume
        A volume of the input's dtype. Each voxel gets the highest level at which it is in a
        component of this extent. If there is no such level, it gets the lowest level of the volume.

    See Also
    --------
    area_opening : removes components by their number of voxels.
    grey_opening : removes what a footprint does not fit into.
    diameter_closing : fills dark components.

    Notes
    -----
    The result is identical to scikit-image's, except for volumes that are smaller than the
    threshold along all axes. Such volumes are set to their lowest level, whereas scikit-image sets
    them to 0. One sweep, with a halo of ``diameter_threshold - 1`` voxels.

    References
    ----------
    `skimage.morphology.diameter_opening`; T. Walter, J.-C. Klein, "Automatic detection of
    microaneurysms in color fundus images of the human retina by means of the bounding box closing",
    ISMDA 2002.

    Examples
    --------
    >>> np.asarray(bv.diameter_opening(np.array([[7, 2, 5, 5, 2]]), 2))
    array([[2, 2, 5, 5, 2]])
    """
    return _by_extent(image, diameter_threshold, connectivity, "diameter_opening", closing=False)


@documented_like(diameter_opening)
def diameter_closing(image: Volume, diameter_threshold: int = 8, connectivity: int = 1) -> Volume:
    """Fill dark components with an extent below a threshold, at each grey level.

    Returns
    -------
    Volume
        A volume of the input's dtype. Each voxel gets the lowest level at which it is in a dark
        component of this extent. If there is no such level, it gets the highest level of the
        volume.

    See Also
    --------
    area_closing : fills components by their number of voxels.
    grey_closing : fills what a footprint does not fit into.
    diameter_opening : removes bright components.

    Notes
    -----
    The result is identical to scikit-image's, except for volumes that are smaller than the
    threshold along all axes. Such volumes are set to their highest level. One sweep, with a halo of
    ``diameter_threshold - 1`` voxels.

    References
    ----------
    `skimage.morphology.diameter_closing`.

    Examples
    --------
    >>> np.asarray(bv.diameter_closing(np.array([[7, 2, 5, 1, 1]]), 2))
    array([[7, 5, 5, 1, 1]])
    """
    return _by_extent(image, diameter_threshold, connectivity, "diameter_closing", closing=True)


def _by_extent(
    image: Any, diameter_threshold: int, connectivity: int, name: str, *, closing: bool
) -> Volume:
    image = as_volume(image)
    minimum = par.whole_number(diameter_threshold, "diameter_threshold", name, 0)
    element = neighbours(image, connectivity, None, name)
    return opened(image, minimum, element, name, by_extent=True, closing=closing)


@documented_like(remove_small_holes)
def binary_fill_holes(mask: Volume, structure: Any = None) -> Volume:
    """Fill the background that is not connected to the outside.

    Parameters
    ----------
    structure : array_like, optional
        The neighbours of a background voxel: an array with 3 entries along each axis, symmetric
        about the centre; by default all neighbours that share a face.

    See Also
    --------
    remove_small_holes : fills holes up to a size.

    Notes
    -----
    The result is identical to scipy's.

    %(component_sweeps)s

    References
    ----------
    `scipy.ndimage.binary_fill_holes`.

    Examples
    --------
    >>> ring = bv.open(np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]]))
    >>> bool(np.asarray(bv.binary_fill_holes(ring)).all())
    True
    """
    mask = as_mask(mask)
    element = neighbours(mask, 1, structure, "binary_fill_holes")
    # The outside is a neighbour only along axes of the structure.
    steps = np.argwhere(element) - 1
    open_axes = tuple(a for a in _axes(mask) if steps[:, a].any())
    keep = Keep(touches_border=True)
    return ~kept_components(
        ~mask, "outside", element, measures=("touches_border",), keep=keep, border_axes=open_axes
    )


@documented_like(remove_small_objects)
def keep_largest(
    mask: Volume, k: int = 1, connectivity: int = 1, *, structure: Any = None
) -> Volume:
    """Keep the components or labels with the most voxels.

    Parameters
    ----------
    k : int, default: 1
        The number to keep. If sizes are equal, the lowest ids are kept.

    See Also
    --------
    remove_small_objects : keeps all from a size.

    Notes
    -----
    %(component_sweeps)s

    Examples
    --------
    >>> mask = bv.open(np.array([[1, 0, 1, 1, 0, 1, 1]], bool))
    >>> np.asarray(bv.keep_largest(mask)).astype(int)
    array([[0, 0, 1, 1, 0, 0, 0]])
    """
    mask = as_volume(mask)
    k = par.whole_number(k, "k", "keep_largest")
    if mask.dtype != bool:
        return filtered(mask, "keep_largest", None, k)
    element = neighbours(mask, connectivity, structure, "keep_largest")
    return kept_components(mask, "keep_largest", element, measures=("size",), k_largest=k)


@documented_like(remove_small_objects)
def clear_border(volume: Volume, buffer_size: int = 0) -> Volume:
    """Remove objects that touch the border of the volume.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A mask or labels. Connected voxels with the same value form one object.
    buffer_size : int, default: 0
        Number of voxels to add to the border, which is one voxel wide.

    Notes
    -----
    The result is identical to scikit-image's.

    %(component_sweeps)s

    References
    ----------
    `skimage.segmentation.clear_border`.

    Examples
    --------
    >>> labels = np.array([[1, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 0]])
    >>> np.asarray(bv.clear_border(bv.open(labels)))
    array([[0, 0, 0, 0],
           [0, 0, 2, 0],
           [0, 0, 0, 0]])
    """
    volume = as_volume(volume)
    if not par.is_whole(buffer_size):
        raise TypeError(f"clear_border: buffer_size={buffer_size!r} is not a whole number")
    if buffer_size < 0 or (volume.size and any(buffer_size >= n for n in volume.shape)):
        raise ValueError(
            f"clear_border: buffer_size={buffer_size} for a volume of shape {volume.shape}: "
            "it must be at least 0 and smaller than each extent"
        )
    element = connectivity_structure(3)
    inside = kept_components(
        volume,
        "clear_border",
        element,
        measures=("touches_border",),
        keep=Keep(touches_border=False),
        by_value=volume.dtype != bool,
        border=int(buffer_size) + 1,
    )
    return inside if volume.dtype == bool else where(inside, volume, volume.dtype.type(0))


@documented_like(remove_small_holes)
def binary_propagation(seed: Volume, structure: Any = None, mask: Volume | None = None) -> Volume:
    """Grow seeds within a mask.

    Parameters
    ----------
    seed : Volume or numpy.ndarray
        Nonzero voxels are seeds, which are kept even outside of the mask.
    structure : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre; by default all neighbours that share a face.
    mask : Volume or numpy.ndarray, optional
        Seeds grow where the mask is nonzero; everywhere by default.

    See Also
    --------
    apply_hysteresis_threshold : uses seeds and mask from two thresholds.
    binary_dilation : grows by a number of steps.

    Notes
    -----
    The result is identical to scipy's.

    %(component_sweeps)s

    References
    ----------
    `scipy.ndimage.binary_propagation`.

    Examples
    --------
    >>> seed, mask = np.array([[1, 0, 0, 0, 0]]), np.array([[1, 1, 0, 1, 1]])
    >>> np.asarray(bv.binary_propagation(bv.open(seed), mask=bv.open(mask))).astype(int)
    array([[1, 1, 0, 0, 0]])
    """
    seed = as_mask(seed)
    reach = seed | True if mask is None else seed | as_mask(mask)
    element = neighbours(seed, 1, structure, "binary_propagation")
    return kept_components(reach, "binary_propagation", element, keep=Keep(marked=True), seeds=seed)


@documented_like(remove_small_holes)
def apply_hysteresis_threshold(image: Volume, low: Any, high: Any) -> Volume:
    """Select voxels above ``low`` that are connected to voxels above ``high``.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes.
    low : number or Scalar
        The lower threshold, a number or a lazy number such as from `threshold_otsu`.
    high : number or Scalar
        The higher threshold.

    See Also
    --------
    binary_propagation : uses any seeds and mask.

    Notes
    -----
    The result is identical to scikit-image's. Voxels that share a face are connected.

    %(component_sweeps)s

    References
    ----------
    `skimage.filters.apply_hysteresis_threshold`.

    Examples
    --------
    >>> image = bv.open(np.array([[1, 2, 3, 2, 1, 2, 1]]))
    >>> np.asarray(bv.apply_hysteresis_threshold(image, 1, 2)).astype(int)
    array([[0, 1, 1, 1, 0, 0, 0]])
    """
    image = as_volume(image)
    for which, limit in (("low", low), ("high", high)):
        if not isinstance(limit, int | float | np.number | Scalar):
            raise TypeError(f"apply_hysteresis_threshold: {which}={limit!r} is not a number")
    # Like scikit-image, limit `low` by `high`, which gives it a dtype. Integers are compared exactly in any
    # dtype, and fastest in the image's.
    if not isinstance(low, Scalar) and not (image.dtype.kind in "bui" and par.is_whole(low)):
        low = np.asarray(low)[()]
    lazy = isinstance(low, Scalar) or isinstance(high, Scalar)
    low = np.minimum(low, high) if lazy or not par.is_whole(low) else min(low, high)
    element = connectivity_structure(1)
    return connected_to("apply_hysteresis_threshold", image > low, image > high, element)


def connected_to(name: str, mask: Volume, seeds: Volume, element: np.ndarray) -> Volume:
    """Return the components of a mask that contain a seed; ``element`` are neighbours, 3x3x3."""
    return kept_components(mask, name, element, keep=Keep(marked=True), seeds=seeds)


def kept_components(
    mask: Volume, name: str, element: np.ndarray, *, seeds: Volume | None = None, **how: Any
) -> Volume:
    """Return the mask of the components to keep; ``how`` are fields of `ComponentSurvey`."""
    survey = ComponentSurvey(name, element, **({"border_axes": _axes(mask)} | how))
    operands: tuple[Node, ...] = (mask.node,) if seeds is None else (mask.node, seeds.node)
    space = shared_space(name, mask, *(() if seeds is None else (seeds,)))
    return Volume(_relabelled(Barrier.of(survey, operands)), space)


def _relabelled(barrier: Barrier) -> Node:
    survey = barrier.survey
    assert isinstance(survey, ComponentSurvey)
    how = Relabel(survey.name, survey.dtype, survey.structure, survey.by_value, survey.background)
    return AcrossNode.of(barrier, how, barrier.operands[:1])


def _axes(volume: Volume) -> tuple[int, ...]:
    """Return the visible axes, which have ends."""
    return tuple(volume.space.visible)


def neighbours(
    volume: Volume, connectivity: Any, structure: Any, name: str, what: str = "structure"
) -> np.ndarray:
    """Return the neighbours of a voxel, 3x3x3."""
    axes = _axes(volume)
    if structure is None:
        check_connectivity(connectivity, len(axes), name)
        return connectivity_structure(connectivity)
    element = par.element(structure, what, name) != 0
    if (
        element.shape != (3,) * len(axes)
        or (element != element[(slice(None, None, -1),) * element.ndim]).any()
    ):
        raise ValueError(
            f"{name}: {what} of shape {element.shape} is not valid; it must have 3 entries along "
            f"each of {len(axes)} axes and be symmetric about its centre"
        )
    whole = np.zeros((3, 3, 3), bool)
    at: list[Any] = [slice(None) if a in axes else 1 for a in range(3)]
    whole[tuple(at)] = element
    return whole


def _least_size(
    volume: Volume, max_size: Any, min_size: Any, name: str, smallest: str = "min_size"
) -> int:
    """Return the largest size to remove."""
    if min_size is not None and max_size != 64:
        raise TypeError(f"{name}: give max_size= or min_size=, not both")
    size = max_size if min_size is None else min_size
    which = "max_size" if min_size is None else smallest
    voxels = par.extent_in_voxels(volume, size, f"{name}: {which}")
    if not par.is_number(voxels) or voxels < 0:
        raise ValueError(f"{name}: {which}={size!r} is not a number of voxels")
    return int(np.floor(voxels)) if min_size is None else int(np.ceil(voxels)) - 1
