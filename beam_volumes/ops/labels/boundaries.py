"""Boundaries of labels, and pictures of labels in colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.base.geometry import connectivity_structure
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.filters.linear import accumulator
from beam_volumes.ops.geometry.channels import channels, stack
from beam_volumes.ops.intensity.colour import rgb2hsv
from beam_volumes.ops.intensity.colour_spaces import hsv2rgb
from beam_volumes.ops.labels.relabel import relabel
from beam_volumes.ops.labels.surveys.mappings import check_labels
from beam_volumes.ops.labels.tables import regionprops_table
from beam_volumes.ops.morphology.basic import binary_dilation, grey_dilation, grey_erosion
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import representable
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where

#: Colours by name, as in scikit-image; the first ten are its default for labels.
COLOURS = {
    "red": (1.0, 0.0, 0.0),
    "blue": (0.0, 0.0, 1.0),
    "yellow": (1.0, 1.0, 0.0),
    "magenta": (1.0, 0.0, 1.0),
    "green": (0.0, 0.502, 0.0),
    "indigo": (0.294, 0.0, 0.51),
    "darkorange": (1.0, 0.549, 0.0),
    "cyan": (0.0, 1.0, 1.0),
    "pink": (1.0, 0.753, 0.796),
    "yellowgreen": (0.604, 0.804, 0.196),
    "black": (0.0, 0.0, 0.0),
    "white": (1.0, 1.0, 1.0),
}
_DEFAULT = tuple(COLOURS)[:10]
_RGB = ("red", "green", "blue")
Colour = str | Sequence[float]


@documented
def find_boundaries(
    label_img: Volume, connectivity: int = 1, mode: str = "thick", background: int = 0
) -> Volume:
    """Find the voxels at boundaries between labels.

    Parameters
    ----------
    label_img : Volume or numpy.ndarray
        Bool or integer labels.
    %(connectivity)s
    mode : {"thick", "inner", "outer"}, default: "thick"
        ``"thick"``: every voxel with a neighbour of a different label. ``"inner"``: labelled voxels
        with such a neighbour. ``"outer"``: background voxels with such a neighbour, and both sides
        of a boundary between two labels. ``"subpixel"`` is not available, because its result has a
        different shape.
    background : int, default: 0
        The label of the background.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If ``label_img`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    mark_boundaries : draws them on an image.
    boundary_scores : compares the boundaries of two segmentations.

    Notes
    -----
    One sweep, with a halo of one voxel.

    References
    ----------
    `skimage.segmentation.find_boundaries`.

    Examples
    --------
    >>> labels = bv.open(np.array([[0, 0, 5, 5, 5, 7, 7]]))
    >>> np.asarray(bv.find_boundaries(labels)).astype(int)
    array([[0, 1, 1, 0, 1, 1, 0]])
    >>> np.asarray(bv.find_boundaries(labels, mode="inner")).astype(int)
    array([[0, 0, 1, 0, 1, 1, 0]])
    """
    name = "find_boundaries"
    labels = as_volume(label_img)
    check_labels(labels.dtype, name)
    if mode not in ("thick", "inner", "outer"):
        other = (
            ", with a result of a different shape, is not available" if mode == "subpixel" else ""
        )
        raise ValueError(f'{name}: mode={mode!r}{other}; use "thick", "inner" or "outer"')
    ndim = len(labels.space.axes)
    near = connectivity_structure(connectivity, ndim, name)
    if labels.dtype.kind == "b":
        labels = labels.astype(np.uint8)
    _check_background(background, "background", labels, name)
    found = grey_dilation(labels, footprint=near) != grey_erosion(labels, footprint=near)
    if mode == "thick":
        return found
    outside = labels == labels.dtype.type(background)
    if mode == "inner":
        return found & ~outside
    around = np.ones((3,) * ndim, bool)
    highest = where(outside, labels.dtype.type(np.iinfo(labels.dtype).max), labels)
    lowest = grey_erosion(highest, footprint=around)
    between = (grey_dilation(labels, footprint=around) != lowest) & ~outside
    return found & (outside | between)


def _check_background(background: Any, what: str, labels: Volume, name: str) -> None:
    check_labels(labels.dtype, name)
    info = np.iinfo(np.uint8 if labels.dtype.kind == "b" else labels.dtype)
    if not par.is_whole(background) or not info.min <= background <= info.max:
        raise ValueError(f"{name}: {what}={background!r} is not a label of {labels.dtype}")


@documented
def mark_boundaries(
    image: Volume,
    label_img: Volume,
    color: Colour = (1, 1, 0),
    outline_color: Colour | None = None,
    mode: str = "outer",
    background_label: int = 0,
) -> Volume:
    """Draw the boundaries of labels on an image.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume without channels, or with the three channels red, green and blue. Bool and unsigned
        integers of up to 16 bits are scaled to the range from 0 to 1; floats keep their scale.
    label_img : Volume or numpy.ndarray
        Bool or integer labels of the same shape.
    color : sequence of float or str, default: (1, 1, 0)
        Red, green and blue from 0 to 1, or a name.
    outline_color : sequence of float or str, optional
        The colour of voxels next to boundaries; by default, these are not coloured.
    mode : {"outer", "inner", "thick"}, default: "outer"
        Which boundaries to draw, as in `find_boundaries`.
    background_label : int, default: 0
        The label of the background.

    Returns
    -------
    Volume
        The channels red, green and blue, as float32, or float64 for float64 images.

    Raises
    ------
    ValueError
        If shapes differ, the image does not have one or three channels, or a parameter is out of
        range.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    label2rgb : colours whole labels.
    preview : makes a picture of a section.

    Notes
    -----
    One sweep. The halo is one voxel, or two voxels with ``outline_color``.

    References
    ----------
    `skimage.segmentation.mark_boundaries`.

    Examples
    --------
    >>> image, labels = np.full((1, 4), 51, "u1"), np.array([[1, 1, 2, 2]])
    >>> np.asarray(bv.mark_boundaries(image, labels))[2]
    array([[0.2, 0. , 0. , 0.2]], dtype=float32)
    """
    name = "mark_boundaries"
    labels = one_channel(label_img)
    three = _rgb(image, labels, name)
    inner = _colour(color, "color", name)
    outer = None if outline_color is None else _colour(outline_color, "outline_color", name)
    _check_background(background_label, "background_label", labels, name)
    found = find_boundaries(labels, 1, mode, background_label)
    if outer is not None:
        around = binary_dilation(found, np.ones((3,) * len(labels.space.axes), bool))
        three = [where(around, v.dtype.type(c), v) for v, c in zip(three, outer, strict=True)]
    marked = [where(found, v.dtype.type(c), v) for v, c in zip(three, inner, strict=True)]
    return stack(marked, _RGB)


@documented
def label2rgb(
    label: Volume,
    image: Volume | None = None,
    colors: Sequence[Colour] | None = None,
    alpha: float = 0.3,
    bg_label: int = 0,
    bg_color: Colour | None = (0, 0, 0),
    image_alpha: float = 1,
    kind: str = "overlay",
    *,
    saturation: float = 0,
    nan: str = "raise",
) -> Volume:
    """Colour labels, optionally on top of an image, or with the mean of an image.

    Parameters
    ----------
    label : Volume or numpy.ndarray
        Bool or integer labels.
    image : Volume or numpy.ndarray, optional
        An image of the same shape, without channels or with red, green and blue. Bool and unsigned
        integers of up to 16 bits are scaled to the range from 0 to 1; floats keep their scale. With
        ``kind="avg"``, an image is needed, and all dtypes keep their scale.
    colors : sequence of colours, optional
        Names, or red, green and blue from 0 to 1; by default scikit-image's ten colours. They
        repeat. The smallest possible label has the first colour, so a label has the same colour in
        every volume. (In scikit-image, missing labels are not counted.)
    alpha : float, default: 0.3
        Opacity of the colours, from 0 to 1; without an image, it is 1.
    bg_label : int, default: 0
        The label of the background, 0 or more.
    bg_color : sequence of float or str, default: (0, 0, 0)
        The colour of the background; with None, the image is unchanged in the background. With
        ``kind="avg"``, three numbers in the range of the image.
    image_alpha : float, default: 1
        Opacity of the image, from 0 to 1, on a white background.
    kind : {"overlay", "avg"}, default: "overlay"
        ``"overlay"`` draws ``colors`` on the image. ``"avg"`` gives each label its mean colour in
        the image, and ignores ``colors``, ``alpha``, ``image_alpha`` and ``saturation``.
    saturation : float, default: 0
        Saturation of an image with three channels, from 0 for grey to 1 for its own colours.
    nan : {"raise", "omit"}, default: "raise"
        With ``kind="avg"``, whether NaN and infinite voxels of the image raise an error on
        computation or are left out of means.

    Returns
    -------
    Volume
        The channels red, green and blue, as float32, or float64 for float64 images. With
        ``kind="avg"``, they have the image's dtype; fractions of integers are cut off.

    Raises
    ------
    ValueError
        If shapes differ, the image does not have one or three channels, or a parameter is out of
        range. With ``kind="avg"``, on computation, if a label is negative, or a voxel is NaN or
        infinite and ``nan="raise"``.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    mark_boundaries : draws the boundaries only.
    view : shows labels in a browser.
    regionprops_table : returns the means as a table.

    Notes
    -----
    Pointwise: no halo. ``kind="overlay"`` needs no sweeps beyond those for the inputs.
    ``kind="avg"`` needs two sweeps: one for the means of all labels, and one to write them. Means
    are exact and rounded once, to float64. No worker holds all means.

    References
    ----------
    `skimage.color.label2rgb`.

    Examples
    --------
    >>> labels = bv.open(np.array([[0, 1, 2]]))
    >>> np.asarray(bv.label2rgb(labels, colors=["red", (0, 0, 0.5)]))[:, 0]
    array([[0. , 1. , 0. ],
           [0. , 0. , 0. ],
           [0. , 0. , 0.5]], dtype=float32)
    >>> image = np.array([[9, 10, 30]], "u1")
    >>> np.asarray(bv.label2rgb(np.array([[0, 5, 5]]), image, kind="avg"))[0]
    array([[ 0, 20, 20]], dtype=uint8)
    """
    name = "label2rgb"
    labels = one_channel(label)
    check_labels(labels.dtype, name)
    if labels.dtype.kind == "b":
        labels = labels.astype(np.uint8)
    if kind not in ("overlay", "avg"):
        raise ValueError(f'{name}: kind={kind!r}; use "overlay" or "avg"')
    shares = {"alpha": alpha, "image_alpha": image_alpha, "saturation": saturation}
    for what, share in shares.items():
        if not par.is_number(share) or not 0 <= share <= 1:
            raise ValueError(f"{name}: {what}={share!r}; give a number from 0 to 1")
    _check_background(bg_label, "bg_label", labels, name)
    if bg_label < 0:
        raise ValueError(f"{name}: bg_label={bg_label!r}; give 0 or more")
    if kind == "avg":
        return _mean_colours(labels, image, int(bg_label), bg_color, nan, name)
    if colors is not None and not isinstance(colors, Sequence | np.ndarray):
        raise TypeError(f"{name}: colors={colors!r}; give a list of colours")
    cycle = [_colour(c, "colors", name) for c in (_DEFAULT if colors is None else colors)]
    if not 0 < len(cycle) < 1 << 16:
        raise ValueError(f"{name}: colors has {len(cycle)} entries; give 1 to 65,535")
    alpha = 1.0 if image is None else float(alpha)
    background = None if bg_color is None else _colour(bg_color, "bg_color", name)
    numbers = _of_cycle(labels, int(bg_label), len(cycle))
    under = [] if image is None else _below(_rgb(image, labels, name), image_alpha, saturation)
    parts = []
    for k in range(3):
        table = np.array([(background or (0, 0, 0))[k], *(c[k] for c in cycle)]) * alpha
        dtype = under[k].dtype if under else np.dtype(np.float32)
        part = relabel(numbers, (np.arange(len(table)), table), dtype=dtype)
        if under:
            part = part + under[k] * dtype.type(1 - alpha)
            if background is None:
                part = where(numbers == 0, under[k], part)
        parts.append(part)
    return stack(parts, _RGB)


def _below(three: list[Volume], alpha: float, saturation: float) -> list[Volume]:
    """Return the image below labels, with less saturation, on white."""
    if three[0] is not three[1]:
        if saturation:
            hue, own, value = channels(rgb2hsv(stack(three, _RGB)))
            three = list(channels(hsv2rgb(stack([hue, own * float(saturation), value]))))
        else:
            grey: Any = np.maximum(np.maximum(three[0], three[1]), three[2])
            three = [grey] * 3
    of = three[0].dtype.type
    return [v * of(alpha) + of(1 - alpha) for v in three]


def _mean_colours(
    labels: Volume, image: Any, background: int, colour: Any, nan: str, name: str
) -> Volume:
    """Return the mean colour of each label."""
    if image is None:
        raise ValueError(f'{name}: kind="avg" needs an image; give image=')
    image = as_volume(image)
    three = _channels_of(image, labels, name)
    fill = [0.0] * 3 if colour is None else _numbers_of(colour, image.dtype, name)
    outside = labels == labels.dtype.type(background)
    regions = labels
    if background:  # tables leave out label 0
        zero, of = labels == labels.dtype.type(0), labels.dtype.type
        regions = where(outside, of(0), where(zero, of(background), labels))
    made: dict[int, Volume] = {}
    of = image.dtype.type
    for v in three:
        if id(v) not in made:
            inside = where(
                regions == regions.dtype.type(0), of(0), v
            )  # NaN in the background is fine
            table = regionprops_table(regions, inside, ["intensity_mean"], nan=nan)
            mean = relabel(regions, table, missing=0, dtype=np.float64)
            made[id(v)] = mean.astype(image.dtype)
    return stack(
        [
            where(outside, v if colour is None else of(c), made[id(v)])
            for v, c in zip(three, fill, strict=True)
        ],
        _RGB,
    )


def _numbers_of(colour: Any, dtype: np.dtype, name: str) -> list[float]:
    """Return the red, green and blue of a dtype."""
    numbers = list(colour) if isinstance(colour, tuple | list | np.ndarray) else []
    if len(numbers) != 3 or not all(par.is_number(n) and representable(n, dtype) for n in numbers):
        raise ValueError(
            f'{name}: bg_color={colour!r}; with kind="avg", give three numbers of {dtype}, or None'
        )
    return numbers


def _of_cycle(labels: Volume, background: int, count: int) -> Volume:
    """Return the number of the colour of each voxel, from 1; 0 for background."""
    of: Any = np.int64 if labels.dtype.kind == "i" else np.uint64
    wide = labels.astype(of)
    above = (labels > labels.dtype.type(background)).astype(of)
    number = (wide - above) % of(count) + of(1)
    return where(labels == labels.dtype.type(background), of(0), number)


def _rgb(image: Volume, labels: Volume, name: str) -> list[Volume]:
    """Return the red, green and blue of an image as floats."""
    image = as_volume(image)
    three = _channels_of(image, labels, name)
    if image.dtype.kind == "i" or (image.dtype.kind == "u" and image.dtype.itemsize > 2):
        raise TypeError(
            f"{name}: {image.dtype} has no known maximum; cast it to uint8 or uint16, or scale it "
            "to floats from 0 to 1"
        )
    to = accumulator(image.dtype)
    scale = to.type(np.iinfo(image.dtype).max if image.dtype.kind == "u" else 1)
    if image.space.has_channels:
        return [v.astype(to) / scale for v in three]
    return [image.astype(to) / scale] * 3


def _channels_of(image: Volume, labels: Volume, name: str) -> list[Volume]:
    """Return three channels of an image of the labels' shape."""
    three = list(channels(image)) if image.space.has_channels else [image] * 3
    if len(three) != 3:
        raise ValueError(
            f"{name}: the image has {len(three)} channels; give one volume, or three channels"
        )
    if three[0].axes != labels.axes or three[0].shape != labels.shape:
        raise ValueError(
            f"{name}: labels of shape {labels.shape} and an image of shape {image.shape} do not match; "
            "crop them to one shape first"
        )
    return three


def _colour(colour: Any, what: str, name: str) -> tuple[float, float, float]:
    if isinstance(colour, str):
        if colour not in COLOURS:
            raise ValueError(
                f"{name}: {what}: {colour!r}; give three numbers, or {', '.join(COLOURS)}"
            )
        return COLOURS[colour]
    numbers = list(colour) if isinstance(colour, Sequence | np.ndarray) else []
    if len(numbers) != 3 or not all(par.is_number(n) and 0 <= n <= 1 for n in numbers):
        raise ValueError(f"{name}: {what}: {colour!r}; give three numbers from 0 to 1, or a name")
    red, green, blue = map(float, numbers)
    return red, green, blue
