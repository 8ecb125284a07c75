"""The report of a volume: three sections with sliders, a histogram, and its metadata."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES
from beam_volumes.graph.indexing import at_points
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume
from beam_volumes.show.colours import Window, colours_of, is_labels, painted
from beam_volumes.show.notebook import facts
from beam_volumes.show.pages import charts
from beam_volumes.show.pages.page import Page
from beam_volumes.show.picture import THINNEST, channel_windows, lengths_of, resized
from beam_volumes.show.preview import preview
from beam_volumes.show.sampling import (
    Section,
    TooExpensive,
    along,
    coarser,
    fitting,
    read_at,
    steps_of,
)
from beam_volumes.show.sections import normals
from beam_volumes.storage.outputs import provenance
from beam_volumes.storage.places.place import Place

#: Maximal number of channels.
MAX_CHANNELS = 4


@dataclass(frozen=True, eq=False)
class Subsampled:
    """A volume at low resolution."""

    of: Volume  #: The volume, at its first time point, with the channels that were read
    voxels: np.ndarray  #: Channels, then z, y, x
    step: Triple  #: Steps between the voxels that were read
    level: int  #: The level of the pyramid; 0 is the finest

    def section(self, axis: int, k: int) -> Section:
        """Return slice ``k`` along an axis."""
        plane = np.take(self.voxels, k, axis + 1)
        rows, columns = along(axis)
        whole = self.of.grid_shape
        at = (2 * k + 1) * whole[axis] // (2 * self.voxels.shape[axis + 1])
        return Section(
            axis,
            at,
            plane if rows < columns else np.swapaxes(plane, 1, 2),
            ((0, whole[rows]), (0, whole[columns])),
        )

    @property
    def how(self) -> str:
        """A description of the resolution."""
        if set(self.step) == {1}:
            text = "every voxel"
        else:
            text = f"one voxel in {' x '.join(map(str, self.step))} (z, y, x)"
        return f"{text} of level {self.level} of its pyramid" if self.level else text


def subsampled(volume: Volume, max_size: int = 256, max_bytes: int = 2 << 30) -> Subsampled | None:
    """Read a stored volume subsampled; None if that needs more than ``max_bytes`` of chunks."""
    if volume.space.times:
        volume = at_points(volume, 0)
    if len(volume.nodes) > MAX_CHANNELS:
        volume = volume.sel(c=list(range(MAX_CHANNELS)))
    sources = [n.source for n in volume.nodes if isinstance(n, SourceNode)]
    if len(sources) < len(volume.nodes) or 0 in volume.grid_shape:
        return None
    of = [[source, *coarser(source)] for source in sources]
    level = fitting(of[0], max_size) if len({len(levels) for levels in of}) == 1 else 0
    taken = [levels[level] for levels in of]
    try:
        z, y, x = steps_of(taken[0], (0, 1, 2), max_size, max_bytes // len(taken))
    except TooExpensive:
        return None
    index = tuple(
        slice(min(s // 2, n - 1), None, s) for s, n in zip((z, y, x), taken[0].shape, strict=True)
    )
    voxels = np.stack([read_at(source, index) for source in taken])
    return Subsampled(volume, voxels, (z, y, x), level)


#: Pixels of the longest section, positions of a slider, bins of a histogram.
SIZE, POSITIONS, BINS = 336, 25, 64
_PERCENTILES = (0.5, 99.5)


def add_volume(page: Page, volume: Volume, heading: str) -> None:
    """Add a stored volume to a page."""
    page.heading(heading)
    page.table(facts(volume))
    block = subsampled(volume)
    if block is None:
        _add_still(page, volume)
        return
    labels = is_labels(block.of)
    windows = [] if labels else channel_windows([block.voxels], block.of, _PERCENTILES)
    page.side_by_side([_slider(page, block, axis, windows, labels) for axis in normals(volume)])
    many = "" if len(volume.nodes) == len(block.of.nodes) else f"; {len(block.of.nodes)} channels"
    page.words(f"The pictures and numbers show {block.how}{many}.")
    _add_values(page, block, labels)


def _add_still(page: Page, volume: Volume) -> None:
    try:
        found = preview(volume)
    except ValueError as error:
        page.words(f"There is no picture: {error}.")
        return
    page.side_by_side([found._repr_html_()])


def _slider(page: Page, block: Subsampled, axis: int, windows: list[Window], labels: bool) -> str:
    n = block.voxels.shape[axis + 1]
    positions = sorted({k * n // min(n, POSITIONS) for k in range(min(n, POSITIONS))} | {n // 2})
    sections = [block.section(axis, k) for k in positions]
    pictures = [_picture(block, s, windows, labels) for s in sections]
    at = [f"{AXES[axis]} = {s.at}" if block.of.grid_shape[axis] > 1 else "" for s in sections]
    return page.slices(pictures, at, positions.index(n // 2))


def _picture(
    block: Subsampled, section: Section, windows: list[Window], labels: bool
) -> np.ndarray:
    size = block.of.space.voxel_size or (1.0, 1.0, 1.0)
    longest = max(n * abs(s) or 1.0 for n, s in zip(block.of.grid_shape, size, strict=True))
    rows, columns = (
        max(THINNEST, round(length / longest * SIZE)) for length in lengths_of(block.of, section)
    )
    image = painted(section.voxels, windows, labels, colours_of(block.of))
    return resized(image, rows, columns, mixed=not labels)


def _add_values(page: Page, block: Subsampled, labels: bool) -> None:
    """Add a histogram of intensities, or the number and the sizes of labels."""
    if labels:
        ids, counts = np.unique(block.voxels[0], return_counts=True)
        part = float(counts[ids == 0].sum()) / max(1, block.voxels[0].size)
        largest = np.argsort(counts)[::-1]
        top = [f"{ids[k]} ({counts[k]:,})" for k in largest if ids[k] != 0][:10]
        page.table(
            {
                "labels found": f"{np.count_nonzero(ids):,}",
                "background": f"{part:.1%}",
                "largest (sampled voxels)": ", ".join(top),
            }
        )
        return
    pictures = []
    names = block.of.channels or ("intensities",)
    for name, voxels in zip(names, block.voxels, strict=True):
        values = voxels[np.isfinite(voxels)] if voxels.dtype.kind == "f" else voxels.ravel()
        values = values.astype(np.float64)
        if values.size:
            low, high = float(values.min()), float(values.max())
            counts, _ = np.histogram(values, BINS, (low, high if high > low else low + 1))
            pictures.append(charts.histogram(counts.tolist(), low, high, name))
            text = f"mean {values.mean():.5g}, standard deviation {values.std():.5g}"
            missing = voxels.size - values.size
            pictures.append(text + (f", {missing:,} not finite" if missing else ""))
    page.side_by_side(pictures)


def add_provenance(page: Page, path: str) -> None:
    """Add the provenance document of an output."""
    document = provenance.found(Place.of(path))
    if document is not None:
        page.heading("Provenance")
        page.table({name: document.get(name) for name in ("run", "begun", "ended")})
        page.folded("steps, inputs, plan and versions", json.dumps(document, indent=1, default=str))
