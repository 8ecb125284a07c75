"""Paragraphs of docstrings for common parameters, and the decorator that inserts them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from beam_volumes.base.text import filled
from beam_volumes.graph.keywords import Function, named_checked

_EDGES = """\
    ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b), and
    ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d | d d
    d), ``"constant"`` and ``"grid-constant"`` use ``cval``, and ``"wrap"`` and ``"grid-wrap"``
    repeat the volume (b c d | a b c d | a b c)."""
_UNWRAPPED = """\
    How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
    per axis. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel (c b a | a b c d | d c b),
    and ``"mirror"`` does not (d c b | a b c d | c b a). ``"nearest"`` extends it (a a a | a b c d |
    d d d), and ``"constant"`` and ``"grid-constant"`` use ``cval``."""
_MODES = f"""\
    How to extend the volume beyond its edges, as in `scipy.ndimage`; one mode for all axes or one
    per axis. {_EDGES.lstrip()}"""
_MODE = f"""\
    How to extend the volume beyond its edges, as in `scipy.ndimage`.
{_EDGES}"""
_OUTSIDE = """\
    How to extend the volume beyond its edges. ``"constant"`` and ``"grid-constant"`` use ``cval``,
    and ``"nearest"`` the outer voxels. ``"reflect"`` and ``"grid-mirror"`` repeat the outer voxel
    (c b a | a b c d), and ``"mirror"`` does not (d c b | a b c d). ``"grid-wrap"`` repeats the
    volume (b c d | a b c d), like `pad` with ``"wrap"``. With ``"constant"``, values beyond the
    centres of the outer voxels are not interpolated."""

_filled = filled(
    {
        # Notes
        "gaussian_derivatives": """\
As in scipy, the mode of an axis applies to the whole derivative along this axis, including
smoothing in other directions. With ``axes``, the remaining axes are not smoothed: ``axes=(1, 2)``
filters slice by slice. (scipy 1.17 smooths along all axes.)

One sweep. The halo is ``truncate`` times the largest sigma: a window contains
``2 * truncate * sigma + 1`` slices of the input. The tolerance is the same as for
`gaussian_filter`.""",
        # Inputs
        "volume": """\
volume : Volume or numpy.ndarray
    A volume or an array with up to three axes.""",
        "volume_or_number": """\
volume : Volume or Scalar
    A volume or a lazy number.""",
        "number_errors": """\
TypeError
    If an input is not a volume, lazy number, array or number.""",
        "own_bits": """\
Results are the same on every processor; numpy's results depend on the processor. The error is below
2 units in the last place of float64, or of the narrower dtype to which results are rounded.""",
        "intensities": """\
volume : Volume or numpy.ndarray
    A volume or an array with up to three axes. Intensities keep their scale, whereas scikit-image
    scales integers to the range from 0 to 1.""",
        "binary": """\
volume : Volume or numpy.ndarray
    A volume or an array with up to three axes. Nonzero voxels are foreground.""",
        "mask_or_labels": """\
mask : Volume or numpy.ndarray
    A bool volume, which is divided into connected components, or integer labels. The voxels of a
    label are counted together even if they are not connected. 0 is background.""",
        "labels": """\
labels : Volume or numpy.ndarray
    Bool or integer labels; 0 is background.""",
        # Neighbourhoods
        "sigma": """\
sigma : float, str or sequence of them
    Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths need a
    volume with a voxel size. One value for all axes or one per axis.""",
        "mode": f'mode : str or sequence of str, default: "reflect"\n{_MODES}',
        "mode_constant": f'mode : str or sequence of str, default: "constant"\n{_MODES}',
        "mode_unwrapped": f'mode : str or sequence of str, default: "reflect"\n{_UNWRAPPED}',
        "mode_nearest": f'mode : str or sequence of str, default: "nearest"\n{_MODES}',
        "mode_1d": f'mode : str, default: "reflect"\n{_MODE}',
        "cval": """\
cval : float, default: 0.0
    The value beyond the edges if ``mode`` is ``"constant"`` or ``"grid-constant"``.""",
        # Blocks
        "psf": """\
psf : array_like of float, or path
    The point spread function, or the path of a file that contains it. The array has one dimension
    for each axis, the volume's voxel size, and its centre at voxel ``n // 2`` of ``n``. The
    function is divided by its sum. An extent of 1 along z deconvolves slice by slice.""",
        "patch_of_block": """\
patch : int or sequence of int, optional
    Extent of a block, including the voxels to discard. By default, blocks have up to two million
    voxels of float64, or four million of float32. Blocks discard at most half of their extent along
    each axis.""",
        "truncate": """\
truncate : float, default: 4.0
    Where the Gaussian is cut off, in standard deviations.""",
        "axes": """\
axes : int or sequence of int, optional
    Axes to work along, counted from 0, or backwards from -1; all axes by default.""",
        "axis_1d": """\
axis : int, default: -1
    The axis to work along, counted from 0, or backwards from -1.""",
        "dtype": """\
dtype : dtype, optional
    Dtype of the result. Integers are rounded half to even and clipped to the dtype's range.""",
        "size": """\
size : int or sequence of int, optional
    Extent of the box in voxels; one value for all axes or one per axis. Pass either ``size`` or
    ``footprint``.""",
        "footprint": """\
footprint : array_like of bool, optional
    The footprint, with one dimension per axis, such as from `ball`.""",
        "origin": """\
origin : int or sequence of int, default: 0
    Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
    lower indices. One value for all axes or one per axis.""",
        "origin_1d": """\
origin : int, default: 0
    Shift of the footprint in voxels, as in `scipy.ndimage`: a positive number moves it towards
    lower indices.""",
        "name_and_version": """\
name : str, optional
    Together with ``version``, it identifies the function when a run is resumed. Without a name, a
    run with this function cannot be resumed.
version : str or int, optional
    Change the version when you change the function.""",
        "stitching": """\
stitch : {"iou", "touch", "largest"}, default: "iou"
    When labels of two adjacent tiles belong to one object. Only voxels that the tiles share are
    considered. ``"iou"``: the intersection over union is at least ``threshold``. ``"touch"``: they
    share a voxel. ``"largest"``: each is the label that overlaps the other most; of equal overlaps,
    the smaller label is selected.
threshold : float, default: 0.5
    Minimum intersection over union for ``"iou"``, above 0 and up to 1. Above 0.5, a label joins at
    most one label of a neighbouring tile.
dtype : dtype, optional
    Dtype of the result: uint32 by default, uint64 for volumes of 2**32 or more voxels.""",
        # Results of filters
        "float_result": """\
Volume
    A float32 volume for bool, integers of up to 16 bits, float16 and float32; a float64 volume for
    other dtypes. ``dtype`` overrides this.""",
        "same_dtype": """\
Volume
    A volume of the input's dtype. The result is NaN exactly where the footprint contains a NaN.""",
        "linear_errors": """\
ValueError
    If a parameter is out of range or does not have one entry for each axis. If a length has a unit
    but the volume has no voxel size.
TypeError
    If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.""",
        "errors": """\
ValueError
    If a parameter is out of range or does not have one entry for each axis.
TypeError
    If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.""",
        "rank_errors": """\
ValueError
    If a parameter is out of range or does not have one entry for each axis. If not exactly one of
    ``size`` and ``footprint`` is given, or the volume's dtype cannot hold ``cval``.
TypeError
    If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.""",
        "halo": """\
One sweep. The halo is the reach of the footprint: along each axis, a slab reads ``size - 1`` more
voxels than it writes. A window contains the same number of additional slices.""",
        "two_halos": """\
One sweep. The halo is twice the reach of the structuring element: a window contains the slices for
both erosion and dilation.""",
        # Morphology
        "structure": """\
structure : array_like of bool, optional
    Structuring element, with one dimension per axis. By default a cross of radius 1: the voxel and
    its neighbours that share a face.""",
        "iterations": """\
iterations : int, default: 1
    Number of repetitions, from 1 to 1000. Scipy's 0, which repeats until nothing changes, is not
    available; use `binary_propagation`.""",
        "only_where": """\
mask : Volume, optional
    Only voxels with a nonzero mask change.""",
        "border_value": """\
border_value : {0, 1, "ignore"}, default: 0
    How to extend the volume beyond its edges: by background, by foreground, or without effect,
    as in scikit-image.""",
        "grey_size": """\
size : int or sequence of int, optional
    Extent of a box in voxels, which is used as a flat structuring element; one value for all axes
    or one per axis. Pass ``size``, ``footprint`` or ``structure``.""",
        "grey_structure": """\
structure : array_like of float, optional
    Heights of a structuring element that is not flat, with one dimension per axis. Heights outside
    of ``footprint`` are ignored.""",
        "grey_errors": """\
ValueError
    If a parameter is out of range or does not have one entry for each axis. If ``size``,
    ``footprint`` and ``structure`` are all missing, or the volume's dtype cannot hold ``cval``. If
    ``structure`` is combined with several modes, or with a footprint of a different shape.
TypeError
    If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.""",
        "bool_result": """\
Volume
    A bool volume.""",
        "sampling": """\
sampling : float, sequence of float or "voxel_size", optional
    Extent of a voxel: one value for all axes or one per axis; 1 by default. ``"voxel_size"`` uses
    the voxel size of the volume, so distances are in its unit.""",
        # Voxel by voxel
        "pointwise": """\
Pointwise: no halo, and no sweeps beyond those for the inputs.""",
        "unit_intensities": """\
volume : Volume or numpy.ndarray
    A volume or an array with up to three axes. Intensities range from 0 to 1, or to the maximum of
    an integer dtype. Negative intensities become NaN, or 0 for integers.""",
        "adjusted": """\
Volume
    A volume of the input's dtype; integers are rounded half to even and clipped to the dtype's
    range. (scikit-image truncates.)""",
        "curve_errors": """\
ValueError
    If a parameter is not finite or out of range.
TypeError
    If ``volume`` is neither a volume nor an array, or is bool, or a parameter is not a number.""",
        "by_table": """\
Integers of up to 16 bits are looked up in a table of all their values.""",
        # Whole-volume numbers
        "where": """\
mask : Volume, optional
    Only voxels with a nonzero mask are included; all voxels by default.""",
        "nan": """\
nan : {"raise", "omit"}, default: "raise"
    Whether NaN and infinite voxels raise an error on computation or are ignored.""",
        "across": """\
across : {"t"}, optional
    Compute one number for all time points, as in ``v > bv.mean(v, across="t")``. By default, each
    time point has its own number. A volume without a time axis has one number in both cases.""",
        "reduced_axis": """\
axis : int, str or sequence of them, optional
    The axes to reduce: numbers as in numpy, or names. For example, ``"z"`` is a projection along z,
    and ``("y", "x")`` returns one number per slice. By default, all axes except time. ``"c"`` alone
    reduces the channels of each voxel, and ``"t"`` alone the time points; in these cases, the
    result is a volume of any size.""",
        "ddof": """\
ddof : int, default: 0
    Number to subtract from the number of voxels in the divisor, as in `numpy.var`.""",
        "reduction_errors": """\
ValueError
    If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
    ``nan="raise"``, or no voxel is included.
TypeError
    If ``volume`` is neither a volume nor an array.""",
        "sum_errors": """\
ValueError
    If a parameter is out of range. On computation, if an included voxel is NaN or infinite and
    ``nan="raise"``, or a sum of integers exceeds 64 bits.
TypeError
    If ``volume`` is neither a volume nor an array.""",
        "count_errors": """\
ValueError
    If the axis does not exist, or ``mask`` has different axes.
TypeError
    If ``volume`` is neither a volume nor an array.""",
        "along": """\
With ``axis``, the lazy array is limited to 256 MiB.""",
        "exact": """\
Partial results of slabs are merged exactly, so the result is the same, bit for bit, for any
division into slabs.""",
        "pair": """\
a : Volume or numpy.ndarray
    The first volume.
b : Volume or numpy.ndarray
    The second volume, with the same shape and axes. Different dtypes are promoted as in numpy.""",
        "pair_nan": """\
nan : {"raise", "omit"}, default: "raise"
    Whether voxels that are NaN or infinite in ``a`` or ``b`` raise an error on computation or are
    ignored in both.""",
        "pair_errors": """\
ValueError
    If the shapes or axes of the volumes differ, or a parameter is out of range. On computation, if
    an included voxel is NaN or infinite and ``nan="raise"``, or no voxel is included.
TypeError
    If ``a`` or ``b`` is neither a volume nor an array.""",
        "nbins": """\
nbins : int, default: 256
    Number of equal bins between the smallest and the largest voxel. For bool and integers of up to
    16 bits, each value is counted instead.""",
        "threshold": """\
Scalar
    The lazy threshold. Voxels above it are foreground.""",
        "threshold_sweeps": """\
One sweep for bool and integers of up to 16 bits, with exact counts of values. Other dtypes need
two, for the range and the histogram.""",
        # Components and labels
        "connectivity": """\
connectivity : {1, 2, 3}, default: 1
    Which voxels are neighbours: 1 for voxels that share a face, 2 to include shared edges, 3 to
    include shared corners.""",
        "neighbours": """\
structure : array_like, optional
    The neighbours of a voxel, instead of ``connectivity``: an array with 3 entries along each axis,
    symmetric about the centre.""",
        "component_sweeps": """\
Two sweeps: the first finds the components of every slab, and the second writes the result. Memory
grows with the components of one slab, about 50 bytes each, and with the components on the faces of
blocks of slabs. Memory does not grow with the total number of components.""",
        "component_errors": """\
ValueError
    If a parameter is out of range. On computation, before anything is written, if the components
    need more memory than is available. The message suggests slabs that would work.
TypeError
    If the input is neither a volume nor an array, or has an unsupported dtype.""",
        "spacing": """\
spacing : float, sequence of float or "voxel_size", optional
    Extent of a voxel, for areas, centroids and lengths: one value for all axes or one per axis; 1
    by default. ``"voxel_size"`` uses the voxel size of the volume.""",
        # Geometry
        "order": """\
order : int, default: 1
    Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic (scipy's
    default). Orders from 2 on compute splines through all voxels, in float64 as in scipy. Integers
    are clipped to the dtype's range.""",
        "order_of_dtype": """\
order : int, optional
    Order of interpolation, from 0 to 5: 0 is the nearest voxel, 1 is linear, 3 is cubic. By default
    0 for bool volumes, which accept no other order, and 1 for other dtypes. Orders from 2 on compute
    splines in float64.""",
        "outside_numpy": """\
mode : {"constant", "edge", "reflect", "symmetric", "wrap"}, default: "reflect"
    How to extend the volume beyond its edges, as in `numpy.pad`. ``"constant"`` uses ``cval``, and
    ``"edge"`` the outer voxels. ``"reflect"`` mirrors the volume without its outer voxels, and
    ``"symmetric"`` with them. ``"wrap"`` repeats the volume.""",
        "anti_aliasing": """\
clip : bool, default: True
    Whether to clip splines, which overshoot, to the range of the volume's finite voxels. With
    ``mode="constant"``, the range includes ``cval``. Orders 0 and 1 do not overshoot.
anti_aliasing : bool, optional
    Whether to smooth the volume with a Gaussian before it shrinks. By default, it is smoothed if an
    axis shrinks; bool volumes, and integers with ``order=0``, are not.
anti_aliasing_sigma : float, str or sequence of them, optional
    Standard deviation of this Gaussian, in voxels of the volume or as a length such as ``"15 nm"``;
    one value for all axes or one per axis. By default ``(f - 1) / 2`` for an axis that shrinks by a
    factor ``f``.""",
        "resizing_sweeps": """\
One sweep with orders 0 and 1, or with ``clip=False``. Otherwise, an earlier sweep finds the range,
and a large result may be stored before it is clipped. Windows contain the slices for smoothing:
``4 * sigma`` on each side, about twice the factor by which an axis shrinks.""",
        "prefilter": """\
prefilter : bool, default: True
    Whether to compute the coefficients of the spline first, for orders from 2 on. Set it to False
    if ``volume`` is a result of `spline_filter`.""",
        "outside": f'mode : str, default: "constant"\n{_OUTSIDE}',
        "outside_cval": """\
cval : float, default: 0.0
    The value outside of the volume in the constant modes, a number of the volume's dtype.""",
        "streams": """\
The result is computed in the same sweep as the volume, and each window reads the slices that it
needs.""",
        "resampled": """\
Volume
    A volume of the input's dtype; integers are rounded half away from zero.""",
        "resampling_errors": """\
ValueError
    If a parameter is out of range or does not have one entry for each axis. If the volume has no
    voxels.
TypeError
    If ``volume`` is neither a volume nor an array, or is bool with an order above 0.""",
    }
)

#: Sections that a docstring may copy from another one, and the order of all.
_INHERITED = ("Parameters", "Returns", "Raises")
_ORDER = ("", *_INHERITED, "See Also", "Notes", "References", "Examples")


def documented(function: Function) -> Function:
    """Insert paragraphs into a docstring, and check arguments of calls."""
    return named_checked(_filled(function))


def documented_as(name: str, docstring: str) -> Callable[[Function], Function]:
    """Like `documented`, for a function that another function makes, with its name and docstring.

    >>> def count_of(name, what):
    ...     @documented_as(name, f"Count {what}.")
    ...     def count(volume): ...
    ...     return count
    >>> rows = count_of("rows", "rows")
    >>> rows.__name__, rows.__doc__
    ('rows', 'Count rows.')
    """

    def decorate(function: Function) -> Function:
        function.__name__ = function.__qualname__ = name
        function.__doc__ = docstring
        return documented(function)

    return decorate


def documented_like(model: Callable[..., Any]) -> Callable[[Function], Function]:
    """Like `documented`, with missing parameters and sections (results, errors) copied from ``model``.

    >>> @documented
    ... def rows(volume):
    ...     '''Count rows.
    ...
    ...     Parameters
    ...     ----------
    ...     %(volume)s
    ...     '''
    >>> @documented_like(rows)
    ... def columns(volume, first):
    ...     '''Count columns.
    ...
    ...     Parameters
    ...     ----------
    ...     first : int
    ...         The column to begin with.
    ...     '''
    >>> [line for line in columns.__doc__.splitlines() if " : " in line]
    ['volume : Volume or numpy.ndarray', 'first : int']
    """

    def decorate(function: Function) -> Function:
        if function.__doc__ is not None:
            own, theirs = _sections(_filled(function)), _sections(model)
            if "Parameters" in own and "Parameters" in theirs:
                both = _parameters(theirs["Parameters"]) | _parameters(own["Parameters"])
                described = (both[name] for name in inspect.signature(function).parameters)
                own["Parameters"] = "\n".join(("Parameters\n----------", *dict.fromkeys(described)))
            inherited = {k: theirs[k] for k in _INHERITED if k in theirs and k not in own}
            order = sorted({**own, **inherited}.items(), key=lambda item: _ORDER.index(item[0]))
            function.__doc__ = "\n\n".join(text for _, text in order) + "\n"
        return documented(function)

    return decorate


def _parameters(section: str) -> dict[str, str]:
    """Split a section into its entries, by the name of each parameter."""
    entries = re.split(r"\n(?=\S)", section)[2:]
    names = (entry.partition(" :")[0].replace("*", "").split(", ") for entry in entries)
    return {name: entry for some, entry in zip(names, entries, strict=True) for name in some}


def _sections(function: Callable[..., Any]) -> dict[str, str]:
    """Split a docstring into its sections, by heading."""
    parts = re.split(r"\n\n(?=(?:[A-Z][a-z]+ ?)+\n-{3,}\n)", inspect.getdoc(function) or "")
    return {("" if k == 0 else part.partition("\n")[0]): part for k, part in enumerate(parts)}
