"""What the parameters that many operations share mean, each written once, and the decorator that says it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from beam_volumes.base.docstrings import filled
from beam_volumes.graph.keywords import Function, named_checked

_EDGES = """\
    ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), ``"mirror"``
    does not (d c b | a b c d | c b a); ``"nearest"`` goes on with it (a a a | a b c d | d d d),
    ``"constant"`` and ``"grid-constant"`` with ``cval``. ``"wrap"`` is not offered: the first slices
    would need the last ones."""
_MODES = f"""\
    How the volume goes on beyond its edges, as in `scipy.ndimage`; one mode for all axes, or one for
    each. {_EDGES.lstrip()}"""
_MODE = f"""\
    How the volume goes on beyond its edges, as in `scipy.ndimage`.
{_EDGES}"""
_OUTSIDE = """\
    How the volume goes on beyond its edges: ``"constant"`` or ``"grid-constant"`` (with ``cval``),
    ``"nearest"`` (with the outer voxels), ``"reflect"`` or ``"grid-mirror"`` (c b a | a b c d), or
    ``"mirror"`` (d c b | a b c d). With ``"constant"``, nothing is interpolated beyond the centres of
    the outer voxels."""

_filled = filled(
    {
        # What operations work on
        "volume": """\
volume : Volume or numpy.ndarray
    A lazy volume of up to three axes, or an array, which is opened.""",
        "volume_or_number": """\
volume : Volume or Scalar
    A lazy volume, or a lazy number.""",
        "number_errors": """\
TypeError
    If an input is neither a volume, a lazy number, an array nor a number.""",
        "own_bits": """\
Results are the same on every processor, and differ from the true value by less than 2 units in the last
place of float64, or of the narrower dtype to which they are rounded. Those of numpy depend on the
processor.""",
        "intensities": """\
volume : Volume or numpy.ndarray
    A lazy volume of up to three axes, or an array, which is opened. Intensities stay on their
    scale, where scikit-image brings integers to the range from 0 to 1.""",
        "binary": """\
volume : Volume or numpy.ndarray
    A lazy volume of up to three axes, or an array, which is opened. Voxels that are not 0 are
    foreground.""",
        "mask_or_labels": """\
mask : Volume or numpy.ndarray
    A bool volume, whose connected components count; or labels of an integer dtype, whose
    voxels are counted by value wherever they lie. 0 is background.""",
        "labels": """\
labels : Volume or numpy.ndarray
    Labels, of bool or integers; 0 is background.""",
        # Neighbourhoods
        "sigma": """\
sigma : float, str or sequence of them
    Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``, which
    needs a volume with a voxel size. One for all axes, or one for each.""",
        "mode": f'mode : str or sequence of str, default: "reflect"\n{_MODES}',
        "mode_constant": f'mode : str or sequence of str, default: "constant"\n{_MODES}',
        "mode_nearest": f'mode : str or sequence of str, default: "nearest"\n{_MODES}',
        "mode_1d": f'mode : str, default: "reflect"\n{_MODE}',
        "cval": """\
cval : float, default: 0.0
    The value beyond the edges where ``mode`` is ``"constant"`` or ``"grid-constant"``.""",
        "truncate": """\
truncate : float, default: 4.0
    Where the Gaussian is cut off, in standard deviations.""",
        "axes": """\
axes : int or sequence of int, optional
    Axes to work along, counted from 0, or from -1 backwards; all by default.""",
        "axis_1d": """\
axis : int, default: -1
    The axis to work along, counted from 0, or from -1 backwards.""",
        "dtype": """\
dtype : dtype, optional
    Dtype of the result. Integers are rounded half to even and saturate.""",
        "size": """\
size : int or sequence of int, optional
    Extent of the box in voxels; one for all axes, or one for each. Give ``size`` or
    ``footprint``.""",
        "footprint": """\
footprint : array_like of bool, optional
    The voxels that count, one dimension for each axis, e.g. of `ball`.""",
        "origin": """\
origin : int or sequence of int, default: 0
    How far the footprint is shifted against its centre, in voxels, as in `scipy.ndimage`: a
    positive number moves it towards lower indices. One for all axes, or one for each.""",
        "origin_1d": """\
origin : int, default: 0
    How far the footprint is shifted against its centre, in voxels, as in `scipy.ndimage`: a
    positive number moves it towards lower indices.""",
        "name_and_version": """\
name : str, optional
    With ``version``, identifies the function when a run is resumed. Without it, a run with
    this function cannot be resumed.
version : str or int, optional
    Change it when you change the function.""",
        "stitching": """\
stitch : {"iou", "touch", "largest"}, default: "iou"
    Which labels of two neighbours are one object, by the voxels that the tiles share:
    ``"iou"``: at least ``threshold`` of the voxels that either label has there, both have.
    ``"touch"``: both have one. ``"largest"``: each has more voxels of the other than of any third
    one; of equally many the smaller label counts.
threshold : float, default: 0.5
    For ``"iou"``, above 0 and up to 1. Above 0.5 a label joins one label of a neighbour at most.
dtype : dtype, optional
    Dtype of the result: uint32 by default, uint64 for volumes of 2**32 voxels and more.""",
        # Results of filters
        "float_result": """\
Volume
    A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64
    volume for others. With ``dtype``, one of that dtype.""",
        "same_dtype": """\
Volume
    A volume of the input's dtype. It is NaN where the footprint holds a NaN, and nowhere
    else.""",
        "linear_errors": """\
ValueError
    If a parameter is out of its range, has not one entry for each axis, or is a length with a
    unit while the volume has no voxel size.
TypeError
    If ``volume`` is neither a volume nor an array, or ``dtype`` is not offered.""",
        "errors": """\
ValueError
    If a parameter is out of its range or has not one entry for each axis.
TypeError
    If ``volume`` is neither a volume nor an array, or a parameter is of a wrong type.""",
        "rank_errors": """\
ValueError
    If a parameter is out of its range or has not one entry for each axis, both or none of
    ``size`` and ``footprint`` are given, or ``cval`` is not a number of the volume's dtype.
TypeError
    If ``volume`` is neither a volume nor an array, or a parameter is of a wrong type.""",
        "halo": """\
One sweep. The halo is the reach of the footprint: along each axis a slab reads ``size - 1``
voxels more than it writes, and a window of slices holds as many more.""",
        "two_halos": """\
One sweep. The halo is twice the reach of the structuring element: a window holds the slices
of erosion and dilation.""",
        # Morphology
        "structure": """\
structure : array_like of bool, optional
    Structuring element, one dimension for each axis; by default the voxel and those that
    share a face with it (a cross of radius 1).""",
        "iterations": """\
iterations : int, default: 1
    How often the operation is repeated, from 1 to 1000. Other than in scipy, 0 (until nothing
    changes) is not offered: see `binary_propagation`.""",
        "only_where": """\
mask : Volume, optional
    Only voxels where it is not 0 change.""",
        "border_value": """\
border_value : {0, 1, "ignore"}, default: 0
    How the volume goes on beyond its edges: background, foreground, or what has no effect, as
    in scikit-image.""",
        "grey_size": """\
size : int or sequence of int, optional
    Extent in voxels of a box as a flat structuring element; one for all axes, or one for
    each. Give ``size``, ``footprint`` or ``structure``.""",
        "grey_structure": """\
structure : array_like of float, optional
    Heights of a structuring element that is not flat, one dimension for each axis;
    ``footprint`` says which of its voxels count, all by default.""",
        "grey_errors": """\
ValueError
    If a parameter is out of its range or has not one entry for each axis, none of ``size``,
    ``footprint`` and ``structure`` is given, ``structure`` goes with several modes or with a
    footprint of another shape, or ``cval`` is not a number of the volume's dtype.
TypeError
    If ``volume`` is neither a volume nor an array, or a parameter is of a wrong type.""",
        "bool_result": """\
Volume
    A bool volume.""",
        "sampling": """\
sampling : float, sequence of float or "voxel_size", optional
    Extent of a voxel: one for all axes, or one for each; 1 by default. With ``"voxel_size"``,
    that of the volume, so that distances are in the volume's unit.""",
        # Voxel by voxel
        "pointwise": """\
Pointwise: it needs no halo, and is computed in the same sweep as what it is made of.""",
        "unit_intensities": """\
volume : Volume or numpy.ndarray
    A lazy volume of up to three axes, or an array, which is opened. Intensities count from 0 to
    1, which is the largest number of an integer dtype. Negative ones become NaN, or 0 where
    the dtype is an integer one.""",
        "adjusted": """\
Volume
    A volume of the input's dtype; integers are rounded half to even and saturate. (scikit-image
    truncates.)""",
        "curve_errors": """\
ValueError
    If a parameter is not finite or out of its range.
TypeError
    If ``volume`` is neither a volume nor an array, or of bool, or a parameter is not a number.""",
        "by_table": """\
Integers of up to 16 bits are looked up in a table of all their values.""",
        # Whole-volume numbers
        "where": """\
mask : Volume, optional
    Only voxels where it is not 0 count; all by default.""",
        "nan": """\
nan : {"raise", "omit"}, default: "raise"
    NaN and infinite voxels are an error when the result is computed, or they are left out.""",
        "across": """\
across : {"t"}, optional
    One number of all points in time, where each point has its own by default. It may be used
    with any of them, as in ``v > bv.mean(v, across="t")``. A volume of one point has no such
    axis, and its number is the one of that point.""",
        "reduced_axis": """\
axis : int, str or sequence of them, optional
    The axes to reduce: numbers as in numpy, or names such as ``"z"`` for a projection along z
    and ``("y", "x")`` for a number for each slice. All by default, but that of points in time.
    ``"c"`` alone reduces the channels of each voxel, and ``"t"`` its points in time: what that
    gives is a volume, of any size.""",
        "ddof": """\
ddof : int, default: 0
    Subtracted from the number of voxels in the divisor, as in `numpy.var`.""",
        "reduction_errors": """\
ValueError
    If a parameter is out of its range; when it is computed, if a voxel that counts is NaN or
    infinite and ``nan="raise"``, or no voxel counts.
TypeError
    If ``volume`` is neither a volume nor an array.""",
        "sum_errors": """\
ValueError
    If a parameter is out of its range; when it is computed, if a voxel that counts is NaN or
    infinite and ``nan="raise"``, or a total of integers is beyond 64 bits.
TypeError
    If ``volume`` is neither a volume nor an array.""",
        "count_errors": """\
ValueError
    If there is no such axis, or ``mask`` is of other axes.
TypeError
    If ``volume`` is neither a volume nor an array.""",
        "along": """\
With ``axis``, the lazy array takes at most 256 MiB.""",
        "exact": """\
Partial results of slabs merge exactly, so that the number does not depend, to the bit, on how
the volume is cut.""",
        "pair": """\
a : Volume or numpy.ndarray
    The first volume.
b : Volume or numpy.ndarray
    The second one, of the same shape and axes. Two dtypes are taken as the one that numpy
    promotes them to.""",
        "pair_nan": """\
nan : {"raise", "omit"}, default: "raise"
    Voxels that are NaN or infinite in ``a`` or ``b`` are an error when the result is
    computed, or they are left out in both.""",
        "pair_errors": """\
ValueError
    If the shapes or axes of the volumes differ, or a parameter is out of its range; when it
    is computed, if a voxel that counts is NaN or infinite and ``nan="raise"``, or no voxel
    counts.
TypeError
    If ``a`` or ``b`` is neither a volume nor an array.""",
        "nbins": """\
nbins : int, default: 256
    Number of equal bins between the smallest and the largest voxel. It does not matter for
    bool and integers of up to 16 bits, of which each value is counted.""",
        "threshold": """\
Scalar
    The lazy threshold. Voxels above it are foreground.""",
        "threshold_sweeps": """\
One sweep for bool and integers of up to 16 bits, whose values are counted exactly; two for
other dtypes: the range, then the histogram.""",
        # Components and labels
        "connectivity": """\
connectivity : {1, 2, 3}, default: 1
    Voxels are neighbours if they are at most so many steps along axes apart: 1 are those that
    share a face, 2 also those that share an edge, 3 also those that share a corner.""",
        "neighbours": """\
structure : array_like, optional
    The neighbours of a voxel instead of ``connectivity``: 3 entries along each axis, the same
    when reflected at its centre.""",
        "component_sweeps": """\
Two sweeps: one finds the components of every slab, the other writes. Memory grows with the
components of one slab, about 120 bytes each, and with those on the faces of blocks of slabs,
not with the number of all.""",
        "component_errors": """\
ValueError
    If a parameter is out of its range; when it is computed, before anything is written, if
    the components take more memory than is left. The message says which slabs would do.
TypeError
    If what is given is neither a volume nor an array, or of a dtype that is not offered.""",
        "spacing": """\
spacing : float, sequence of float or "voxel_size", optional
    Extent of a voxel, for areas, centroids and lengths: one for all axes, or one for each; 1
    by default. With ``"voxel_size"``, that of the volume.""",
        # Geometry
        "order": """\
order : {0, 1}, default: 1
    Order of interpolation: 0 takes the nearest voxel, 1 is linear between voxels. Splines of
    higher orders reach through the whole volume and are not offered.""",
        "outside": f'mode : str, default: "constant"\n{_OUTSIDE}',
        "outside_cval": """\
cval : float, default: 0.0
    The value beyond the volume with a constant mode, a number of the volume's dtype.""",
        "streams": """\
The result is computed in the same sweep as the volume: each window of the result takes the
slices that it needs.""",
        "resampled": """\
Volume
    A volume of the input's dtype; integers are rounded half away from zero.""",
        "resampling_errors": """\
ValueError
    If a parameter is out of its range or has not one entry for each axis, the volume has no
    voxels, or ``order`` is not 0 or 1.
TypeError
    If ``volume`` is neither a volume nor an array, or of bool with ``order=1``.""",
    }
)

#: Sections that a docstring may take from another one, and the order of all.
_INHERITED = ("Parameters", "Returns", "Raises")
_ORDER = ("", *_INHERITED, "See Also", "Notes", "References", "Examples")


def documented(function: Function) -> Function:
    """Fill in a docstring, and check what the function is given."""
    return named_checked(_filled(function))


def documented_like(model: Callable[..., Any]) -> Callable[[Function], Function]:
    """Do as `documented`, with the parameters, results and errors of ``model`` where none are given.

    >>> @documented
    ... def rows(volume):
    ...     '''Count rows.
    ...
    ...     Parameters
    ...     ----------
    ...     %(volume)s
    ...     '''
    >>> @documented_like(rows)
    ... def columns(volume):
    ...     '''Count columns.'''
    >>> columns.__doc__.splitlines()[2:5]
    ['Parameters', '----------', 'volume : Volume or numpy.ndarray']
    """

    def decorate(function: Function) -> Function:
        if function.__doc__ is not None:
            own, theirs = _sections(function), _sections(model)
            inherited = {k: theirs[k] for k in _INHERITED if k in theirs and k not in own}
            order = sorted({**own, **inherited}.items(), key=lambda item: _ORDER.index(item[0]))
            function.__doc__ = "\n\n".join(text for _, text in order) + "\n"
        return documented(function)

    return decorate


def _sections(function: Callable[..., Any]) -> dict[str, str]:
    """Split a docstring into its sections with their headings, by name."""
    parts = re.split(r"\n\n(?=(?:[A-Z][a-z]+ ?)+\n-{3,}\n)", inspect.getdoc(function) or "")
    return {("" if k == 0 else part.partition("\n")[0]): part for k, part in enumerate(parts)}
