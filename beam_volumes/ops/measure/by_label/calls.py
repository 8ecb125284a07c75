"""Numbers of a volume, or of each of some labels as in `scipy.ndimage`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from beam_volumes.graph.volume import as_mask, one_channel
from beam_volumes.ops.measure import distributions, reductions, statistics
from beam_volumes.ops.parameters.docs import documented_as

_PARAMETERS = """\
labels : Volume or numpy.ndarray, optional
    Labels with the same shape, bool or integers from 0, to measure each label separately, as in
    `scipy.ndimage`.
index : int or array_like of int, optional
    The labels to measure, in any order; 0 is the background. The result is an array of this shape.
    Missing labels are NaN, or 0 for integers. By default, all labels are measured together.
"""
_COUNTS = _PARAMETERS.replace(
    "The result is an array\n    of this shape. Missing labels are NaN, or 0 for integers.",
    "The result has a row\n    of counts for each.",
)


def _of_labels(ours: Callable[..., Any], *properties: str, text: str = _PARAMETERS) -> Any:
    """Extend a reduction by ``labels=`` and ``index=``, which ``text`` documents; positional, as in scipy.

    ``properties`` of `regionprops_table` have its numbers; without any, labels are counted.
    """
    name, plain = ours.__name__, inspect.signature(ours)
    parameters = list(plain.parameters.values())
    mask = list(plain.parameters).index("mask")
    is_free = mask == 1
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if is_free else inspect.Parameter.KEYWORD_ONLY
    at = 1 if is_free else mask
    types = {"labels": "Volume | None", "index": "ArrayLike | None"}
    parameters[at:at] = [
        inspect.Parameter(n, kind, default=None, annotation=a) for n, a in types.items()
    ]
    signature = plain.replace(parameters=parameters)

    def measured(*args: Any, **named: Any) -> Any:
        given = signature.bind(*args, **named)
        given.apply_defaults()
        how = given.arguments
        labels, index = how.pop("labels"), how.pop("index")
        volume, mask = how.pop("volume"), how.pop("mask")
        if index is not None and how.get("ddof"):
            raise ValueError(
                f"{name}: ddof={how['ddof']!r} cannot be combined with index=; leave it out"
            )
        one_number = how.get("axis") is None and how.get("across") is None
        whole = functools.partial(ours, **how)
        where = volume, labels, index, mask, how["nan"], properties, one_number
        found = _measured(whole, name, *where)
        return found * found if name == "variance" and index is not None else found

    before, section, after = (inspect.getdoc(ours) or "").partition("mask : Volume, optional")
    measured.__annotations__["return"] = ours.__annotations__["return"]  # recipes read it
    measured.__signature__ = signature  # type: ignore[attr-defined]
    return documented_as(name, before + text + section + after)(measured)


min = _of_labels(reductions.min, "intensity_min")
max = _of_labels(reductions.max, "intensity_max")
sum = _of_labels(reductions.sum, "intensity_sum")
mean = _of_labels(reductions.mean, "intensity_mean")
median = _of_labels(distributions.median, "intensity_median")
std = _of_labels(reductions.std, "intensity_std")
variance = _of_labels(reductions.variance, "intensity_std")
center_of_mass = _of_labels(statistics.center_of_mass, "centroid_weighted")
minimum_position = _of_labels(statistics.minimum_position, "minimum_position")
maximum_position = _of_labels(statistics.maximum_position, "maximum_position")
extrema = _of_labels(
    statistics.extrema, "intensity_min", "intensity_max", "minimum_position", "maximum_position"
)
histogram = _of_labels(distributions.histogram, text=_COUNTS)


def _measured(
    whole: functools.partial[Any],
    name: str,
    volume: Any,
    labels: Any,
    index: Any,
    mask: Any,
    nan: str,
    properties: tuple[str, ...],
    one_number: bool,
) -> Any:
    """Return the number of the whole volume, of all labels, or of each label of ``index``."""
    if labels is None:
        if index is not None:
            raise ValueError(f"{name}: index={index!r} needs labels=")
        return whole(volume, mask=mask)
    if not one_number:
        raise ValueError(
            f"{name}: axis= and across= cannot be combined with labels=; leave them out"
        )
    labels = one_channel(labels)
    if index is None:
        inside = labels != 0
        return whole(volume, mask=inside if mask is None else inside & as_mask(mask))
    from beam_volumes.ops.measure.by_label.numbers import of_each

    return of_each(whole, name, volume, labels, index, mask, nan, properties)
