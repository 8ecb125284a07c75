"""`preview`: three sections of a volume in seconds, without a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape

import numpy as np

from beam_volumes.base.space import AXES
from beam_volumes.base.text import format_number
from beam_volumes.graph.keywords import named_checked
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.surveys.mappings import check_labels
from beam_volumes.ops.parameters.checks import whole_number
from beam_volumes.show.picture import picture, png, png_uri, windows_of
from beam_volumes.show.sections import Sections, sections, title
from beam_volumes.storage.places.single_file import write_file

#: Maximal size of a picture: several copies exist while it is painted.
LARGEST = 8192


class Preview:
    """A picture of three sections with its resolution and window; notebooks show it, and `save` writes it.

    >>> v = bv.open(np.arange(120, dtype="u1").reshape(4, 5, 6))
    >>> bv.preview(v)
    <preview of z=4 y=5 x=6, uint8: 3 sections at z=2, y=2, x=3; every voxel; black 5.19, white 114.81>
    """

    def __init__(
        self,
        found: Sections,
        size: int,
        percentiles: tuple[float, float],
        labels: bool | Sections | None,
    ):
        over = labels if isinstance(labels, Sections) else None
        is_labels = None if isinstance(labels, Sections) else labels
        #: For each channel, the intensities shown as black and white; empty for labels.
        self.window, self._labels = windows_of(found, percentiles, is_labels)
        drawn = over.sections if over else ()
        #: Rows, columns, and red, green and blue as bytes.
        self.image = picture(found, size, self.window, self._labels, drawn)
        #: The positions of the sections, their resolution, and the part of the volume that they show.
        self.note = title(found)
        if over and over.how != found.how:
            self.note += f"; labels: {over.how}"
        axes = zip(found.of.axes, found.of.shape, strict=True)
        self._of = f"{' '.join(f'{a}={n}' for a, n in axes)}, {found.of.dtype}"

    @property
    def caption(self) -> str:
        """The note, and the meaning of black and white."""
        if self._labels:
            return f"{self.note}; a colour for each label"
        shown = (
            f"black {format_number(low)}, white {format_number(high)}"
            for low, high in self.window[:1]
        )
        return "; ".join([self.note, *shown])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as PNG."""
        write_file(checked_path(path), self._repr_png_())

    def __repr__(self) -> str:
        return f"<preview of {self._of}: {self.caption}>"

    def _repr_png_(self) -> bytes:
        return png(self.image)

    def _repr_html_(self) -> str:
        return (
            f'<figure style="margin:0"><img src="{png_uri(self.image)}" style="max-width:100%"/>'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )


@named_checked
def preview(
    volume: Volume | np.ndarray,
    *,
    at: Sequence[int] | None = None,
    t: int = 0,
    size: int = 512,
    percentiles: tuple[float, float] = (0.5, 99.5),
    labels: bool | Volume | np.ndarray | None = None,
    most_bytes: int = 512 << 20,
) -> Preview:
    """Show three sections of a volume, at low resolution and without a run.

    Use it to look at a large volume in seconds. Stored volumes are subsampled: a coarse level of
    the pyramid or every n-th voxel is read. Expressions are computed at full resolution: whole
    planes if little data must be read, otherwise only their centre. A note reports which of the two
    was computed.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        The volume to show, with up to 6 channels, each in its own colour.
    at : sequence of int, optional
        The voxel where the sections intersect, along z, y and x; the centre by default.
    t : int, default: 0
        The time point.
    size : int, default: 512
        Number of pixels of the longest section.
    percentiles : tuple of float, default: (0.5, 99.5)
        Percentiles of the intensities to show as black and white.
    labels : bool, Volume or numpy.ndarray, optional
        Whether voxels are labels, each with its own colour. By default, results of `label` and
        integers of 32 and 64 bits are. Alternatively, labels of the same shape, bool or integers,
        with boundaries to draw on the picture.
    most_bytes : int, default: 536870912
        Maximum bytes of chunks to read: for each section of a stored volume, or for all sections of
        an expression.

    Returns
    -------
    Preview
        The picture; notebooks show it, and ``.save("preview.png")`` writes it to a file.

    Raises
    ------
    ValueError
        If ``at`` is outside of the volume, a parameter is out of range, or labels have a different
        shape. If every section would read more than ``most_bytes``.

    See Also
    --------
    mark_boundaries : draws boundaries of labels, as a volume.

    Notes
    -----
    For a large volume, whole-volume numbers and labels are only computed for its centre. A note
    next to the picture reports this.

    Examples
    --------
    >>> v = bv.open(np.arange(120, dtype="u1").reshape(4, 5, 6), voxel_size=(2, 1, 1))
    >>> p = bv.preview(v, at=(0, 2, 3), size=60)
    >>> p.image.shape, p.note
    ((102, 109, 3), '3 sections at z=0, y=2, x=3; every voxel')
    >>> p.save("preview.png")
    """
    v = as_volume(volume)
    if not isinstance(size, int) or not 16 <= size <= LARGEST:
        raise ValueError(f"size={size!r} is out of range; give 16 to {LARGEST} pixels")
    whole_number(most_bytes, "most_bytes", "preview")
    low, high = percentiles
    if not 0 <= low < high <= 100:
        raise ValueError(
            f"percentiles={percentiles!r} is not valid; give two percentiles from 0 to 100, the lower first"
        )
    how = _fractions(v, at), t, size, most_bytes
    over: bool | Sections | None = None
    if isinstance(labels, Volume | np.ndarray):
        over = sections(_labels_of(labels, v), *how)
    else:
        over = labels
    return Preview(sections(v, *how), size, (float(low), float(high)), over)


def _labels_of(labels: Volume | np.ndarray, volume: Volume) -> Volume:
    """Return labels for boundaries; an error if they do not match the volume."""
    labels = one_channel(labels)
    check_labels(labels.dtype, "preview")
    own = labels.grid_shape, labels.space.times
    if own != (volume.grid_shape, volume.space.times):
        raise ValueError(
            f"preview: labels of shape {labels.shape} and a volume of shape {volume.shape} do not match; "
            "crop them to one shape first"
        )
    return labels


def checked_path(path: str | os.PathLike[str]) -> str:
    """Return the path of a picture; an error if it does not end in .png."""
    text = os.fspath(path)
    if not text.lower().endswith(".png"):
        raise ValueError(f"{text}: a preview is a PNG; give a path that ends in .png")
    return text


def _fractions(volume: Volume, at: Sequence[int] | None) -> tuple[float, ...]:
    """Return the intersection of sections, from 0 to 1 along z, y and x."""
    found = [0.5] * 3
    if at is None:
        return tuple(found)
    visible = volume.space.visible
    given = list(at)
    if len(given) != len(visible):
        axes = ", ".join(AXES[a] for a in visible)
        raise ValueError(
            f"at={tuple(given)} is not valid; give one voxel index for each of the axes {axes}"
        )
    for a, k in zip(visible, given, strict=True):
        n = volume.grid_shape[a]
        if not 0 <= k < n:
            raise ValueError(f"at={tuple(given)}: {k} is outside of axis {AXES[a]}, of extent {n}")
        found[a] = (k + 0.5) / n
    return tuple(found)
