"""Warn of masks from other programs: bytes of 0 and 1, or 0 and 255, that are not used as masks."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator

import numpy as np

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.graph.elementwise import Elementwise
from beam_volumes.graph.nodes import CropNode, Node, SourceNode, StageNode, ViewNode
from beam_volumes.graph.traversal import everything
from beam_volumes.plan.cut.passes import Levels
from beam_volumes.plan.plan import Plan
from beam_volumes.storage.formats.unfinished import outside
from beam_volumes.storage.sources.source import Source

#: Number of sampled chunks, and the maximum bytes of one.
_LOOKS, _MAXIMUM = 3, 16 << 20
#: The warnings issued in this process.
_issued: set[tuple[str, str]] = set()


class MaskWarning(UserWarning):
    """Bytes that look like a mask are used as numbers or labels.

    `compute` issues it once for a volume and an operation, before the run begins. It samples up to
    three chunks of each such input.

    Parameters
    ----------
    text : str
        The volume, the operation, and the remedy.

    Examples
    --------
    >>> import warnings
    >>> v = bv.open(np.array([[0, 1, 1]], "u1"))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", bv.MaskWarning)
    ...     np.asarray(~v)
    array([[255, 254, 254]], dtype=uint8)
    >>> print(str(caught[0].message)[:71])
    a numpy array of shape (1, 3) looks like a mask: its uint8 voxels are 0
    >>> np.asarray(~(v != 0))
    array([[ True, False, False]])
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)


def warn_of_inputs(plan: Plan) -> None:
    """Warn of inputs that look like masks, and of NaN where blobs are searched."""
    _warn_of_masks(plan.levels)
    _warn_of_nan(plan.levels)


def _warn_of_masks(levels: Levels) -> None:
    """Warn of inputs that look like masks but are used as numbers; samples a few chunks of each."""
    for source, name, why in _suspects(levels):
        whole = getattr(source.reader, "whole", source.reader)  # it may be a channel
        key = whole.token(), name
        if key in _issued:
            continue
        found = looks_like_mask(source)
        if found is None:
            continue
        text = (
            f"{source.name} looks like a mask: its uint8 voxels are 0 and {found} in a sample. "
            f"{name} {why}; if it is a mask, use v != 0 instead"
        )
        warnings.warn(text, MaskWarning, stacklevel=outside())
        _issued.add(key)


def _warn_of_nan(levels: Levels) -> None:
    """Warn of inputs with NaN where blobs are searched; samples a few chunks of each that is stored."""
    searched = [
        node
        for node in levels.nodes.values()
        if isinstance(node, StageNode) and node.stage.misses_near_nan
    ]
    for node in everything(searched):
        if isinstance(node, SourceNode) and node.dtype.kind == "f" and _has_nan(node.source):
            warnings.warn(
                f"{node.source.name} has NaN: no blobs are detected up to 4 standard deviations around them; "
                "use np.nan_to_num(v) to replace them",
                stacklevel=outside(),
            )


def _has_nan(source: Source) -> bool:
    if "t" in source.space.leading:
        source = source.point("t", 0)
    boxes: Iterable[Box] = _samples(source)
    if source.in_memory:
        boxes = (Box((z, 0, 0), (z + 1, *source.shape[1:])) for z in range(source.shape[0]))
    try:
        return any(bool(np.isnan(source.read(box)).any()) for box in boxes)
    except (OSError, ValueError):  # the run will report it
        return False


def looks_like_mask(source: Source) -> int | None:
    """Return the true value of a mask of bytes, 1 or 255; None if it does not look like one."""
    highest, has_background = 0, False
    if "t" in source.space.leading:  # there may be millions
        source = source.point("t", 0)
    for box in _samples(source):
        try:
            voxels = source.read(box)
        except (OSError, ValueError):  # the run will report it
            return None
        top = int(voxels.max(initial=0))
        if top not in (0, 1, 255) or (top and highest not in (0, top)):
            return None
        if not ((voxels == 0) | (voxels == top)).all():
            return None
        highest = max(highest, top)
        has_background = has_background or not voxels.all()
    return highest if highest and has_background else None


def _suspects(levels: Levels) -> Iterator[tuple[Source, str, str]]:
    """Find sources of bytes that are used as numbers: source, operation, and its effect."""
    for node in levels.nodes.values():
        if (
            isinstance(node, StageNode)
            and isinstance(node.stage, Elementwise)
            and node.stage.function == "invert"
        ):
            source = _bytes_of(node.operands[0])
            if source is not None:
                yield source, "~", "inverts bits: 0 becomes 255, 1 becomes 254, and 255 becomes 0"
    for barrier in levels.barriers.values():
        if barrier.survey.counts_each_value:
            source = _bytes_of(barrier.operands[0])
            if source is not None:
                yield (
                    source,
                    barrier.name,
                    "counts all voxels with the same value as one label",
                )


def _bytes_of(node: Node) -> Source | None:
    while isinstance(node, CropNode | ViewNode):
        node = node.operand
    is_source = isinstance(node, SourceNode) and node.dtype == np.uint8
    return node.source if is_source else None  # type: ignore[attr-defined]


def _samples(source: Source) -> Iterator[Box]:
    """Choose some chunks from the first to the last."""
    shape, unit = source.shape, source.read_unit
    if 0 in shape:
        return
    if source.in_memory or source.array is not None:  # rows of some slices
        unit = (1, min(shape[1], max(1, (1 << 20) // shape[2])), shape[2])
    elif max(math.prod(unit), source.decode_bytes) > _MAXIMUM:
        return
    counts = [-(-n // u) for n, u in zip(shape, unit, strict=True)]
    chosen: set[Triple] = set()
    for k in range(_LOOKS):
        z, y, x = ((c - 1) * k // (_LOOKS - 1) * u for c, u in zip(counts, unit, strict=True))
        if (z, y, x) not in chosen:
            chosen.add((z, y, x))
            end = (min(a + u, n) for a, u, n in zip((z, y, x), unit, shape, strict=True))
            yield Box((z, y, x), tuple(end))  # type: ignore[arg-type]
