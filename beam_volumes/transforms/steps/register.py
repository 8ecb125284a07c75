"""Registration of tiles and slices, with the link of each pair as an element."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.typehints import Tuple, with_output_types

from beam_volumes.graph.keywords import named_checked
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.geometry.registration.images import Link, check_quality
from beam_volumes.ops.geometry.registration.sequences import Links, Slices
from beam_volumes.ops.geometry.registration.tiles import TilePairs
from beam_volumes.transforms.steps.slabs import check_readable
from beam_volumes.transforms.waiting import beginning

#: The two images of a pair, and numbers of their link.
_Found: Any = Tuple[Tuple[int, int], Tuple[float, ...]]
#: The fields of a link that are sent after its matrix, offset and feature.
_NUMBERS = ("quality", "voxels", "evidence", "contrast", "error")
#: The positions and the pairs.
_Tables: Any = Tuple[ComputedTable, ComputedTable]
#: Pairs that are created at a time.
_BATCH = 1024


@with_output_types(_Tables)
class RegisterTiles(beam.PTransform):
    """Find the positions of overlapping tiles: a pipeline to one element with both tables.

    Use it for thousands of tiles, or tiles in a bucket. Workers compare the pairs, and one worker
    solves for the positions.

    Parameters
    ----------
    tiles : sequence of Volume
        Tiles with the same axes, in storage that all workers can read.
    positions : array_like, table or path
        For each tile, the approximate position of its first voxel, in voxels.
    model : {"translation", "rigid", "affine"}, default: "translation"
        The transformation model: translation, rigid or affine.
    max_shift : float or sequence of float, default: 20.0
        The maximum error of the distance between two tiles, in voxels; one number for all axes or
        one per axis.
    min_quality : float, default: 0.5
        Minimum correlation of the voxels in the overlap for linking two tiles.
    reference : int, optional
        The index of a tile that keeps its given position; all tiles are shifted accordingly. By
        default, the mean of all positions is kept.
    subvoxel : bool, default: True
        Whether to find fractions of voxels. If False, positions of linked tiles are rounded to whole
        voxels. Only for ``model="translation"``.
    channel : int or str, optional
        The number or the name of the channel that is compared, if tiles have several.
    mask : Volume or sequence of Volume, optional
        Only voxels with a nonzero mask are compared, as in `beam_volumes.register_tiles`.
    nodata : float, optional
        The value of voxels without data. They are not compared.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a tile is in the memory of this process.

    See Also
    --------
    beam_volumes.register_tiles : Register tiles in this process, with a description of the tables.

    Notes
    -----
    Only results of pairs are shuffled, less than a hundred bytes each. The worker that solves for
    the positions holds all of them.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from scipy import ndimage
    >>> film = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(60, 100)), 2)
    >>> for k, part in enumerate([film[:, :60], film[2:, 43:]]):
    ...     _ = bv.compute(bv.open(part).to(f"film-{k}.zarr"))
    >>> tiles = [bv.open(f"film-{k}.zarr") for k in (0, 1)]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     tables = p | bv.RegisterTiles(tiles, [(0, 0), (0, 40)])
    ...     _ = tables | beam.MapTuple(lambda positions, pairs: print(pairs["used"].to_pylist()))
    [True]
    """

    @named_checked
    def __init__(
        self,
        tiles: Sequence[Volume],
        positions: Any,
        *,
        model: str = "translation",
        max_shift: float | Sequence[float] = 20.0,
        min_quality: float = 0.5,
        reference: int | None = None,
        subvoxel: bool = True,
        channel: int | str | None = None,
        mask: Volume | Sequence[Volume | None] | None = None,
        nodata: float | None = None,
    ):
        super().__init__()
        self.every = TilePairs.of(
            tiles,
            positions,
            model,
            max_shift,
            "RegisterTiles",
            reference,
            subvoxel,
            mask,
            nodata,
            channel,
        )
        self.min_quality = check_quality(min_quality, "RegisterTiles")
        for tile in (*self.every.opened, *self.every.masks):
            if tile is not None:
                check_readable(tile)

    def expand(self, begin: Any) -> beam.PCollection:
        pipeline, wait, windowed = beginning(begin, "RegisterTiles")
        pairs = self.every.pairs
        batches = [tuple(pairs[k : k + _BATCH]) for k in range(0, len(pairs), _BATCH)]
        solved = partial(_solved, every=self.every, min_quality=self.min_quality)
        return windowed(
            pipeline
            | "Batches" >> beam.Create(batches)
            | "Pairs" >> beam.FlatMap(_pairs, **wait).with_output_types(Tuple[int, int])
            | "Spread" >> beam.Reshuffle()
            | "Compare" >> beam.Map(partial(_link, every=self.every)).with_output_types(_Found)
            | "All" >> beam.combiners.ToList()
            | "Solve" >> beam.Map(solved).with_output_types(_Tables)
        )

    def display_data(self) -> dict[str, Any]:
        return {
            "tiles": DisplayDataItem(len(self.every.opened), label="Number of tiles"),
            "pairs": DisplayDataItem(len(self.every.pairs), label="Number of pairs"),
        }


def _pairs(batch: Sequence[tuple[int, int]], ready: Any = None) -> Sequence[tuple[int, int]]:
    return batch


def _link(pair: tuple[int, int], every: TilePairs) -> tuple[tuple[int, int], tuple[float, ...]]:
    return pair, _numbers(every.link(pair))


def _solved(
    found: Iterable[tuple[tuple[int, int], tuple[float, ...]]], every: TilePairs, min_quality: float
) -> tuple[ComputedTable, ComputedTable]:
    axes = every.given.shape[1]
    links = {pair: _link_of(numbers, axes) for pair, numbers in sorted(found)}
    return every.solved(links, min_quality)


def _numbers(link: Link) -> tuple[float, ...]:
    others = (getattr(link, name) for name in _NUMBERS)
    feature = np.full(len(link.offset), np.nan) if link.feature is None else link.feature
    return (*link.matrix.ravel().tolist(), *link.offset.tolist(), *feature.tolist(), *others)


def _link_of(numbers: Sequence[float], axes: int) -> Link:
    sizes = np.cumsum([axes * axes, axes, axes])
    matrix, offset, feature, others = np.split(np.array(numbers), sizes)
    named = dict(zip(_NUMBERS, others.tolist(), strict=True))
    return Link(
        matrix.reshape(axes, axes),
        offset,
        feature=None if np.isnan(feature).any() else feature,
        **named,
    )


@with_output_types(ComputedTable)
class RegisterSlices(beam.PTransform):
    """Find the transform that aligns each slice with its neighbours: a pipeline to one table.

    Use it for thousands of large sections, or sections in a bucket. Workers compare the slices, and
    one worker solves for the transforms.

    Parameters
    ----------
    stack : Volume
        A volume with one channel, in storage that all workers can read.
    model : {"translation", "rigid", "affine"}, default: "translation"
        The transformation model: translation, rigid or affine.
    method : {"intensity", "keypoints"}, default: "intensity"
        How to find the first approximation for two slices, as in `beam_volumes.register_slices`.
    neighbours : int, default: 3
        Number of subsequent slices to compare each slice with.
    reference : int, optional
        The slice that is not moved; by default one near the middle that matches many others.
    skip : iterable of int, default: ()
        Slices to exclude from the comparison, such as missing ones.
    max_shift : float, optional
        Maximum shift between the centres of two compared slices along y and x, in voxels; half of
        the plane by default.
    min_quality : float, default: 0.3
        Minimum correlation of the aligned voxels for linking two slices.
    max_side : int, default: 1024
        Maximum extent of the compared planes: larger ones are downsampled by an integer factor.
    trend : {"keep", "remove"} or float, default: "keep"
        What to do with slow movements of the tissue, as in `beam_volumes.register_slices`.
    prior : array_like, table or path, optional
        Transforms with the true slow movement, as in `beam_volumes.register_slices`.
    mask : Volume, optional
        Only voxels with a nonzero mask are compared. A mask has the shape of the stack, and bool or
        integer voxels.
    nodata : float, optional
        The value of voxels without data. They are not compared.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the stack or mask is in the memory of this process. If
        the volume has several channels, time points, no voxels, or no axes z, y and x. If the
        downsampled planes of a block and its neighbours have more than 1 GiB.
    TypeError
        If ``stack`` or ``mask`` is neither a volume nor an array, or ``mask`` has floats.

    See Also
    --------
    beam_volumes.register_slices : Register slices in this process, with a description of the table.
    RegisterTiles : finds the positions of tiles.

    Notes
    -----
    The table is bit-identical to the one of `beam_volumes.register_slices`. A worker compares a
    block of slices at a time: whole chunks along z, of at least 16 slices. Thicker chunks are
    divided if the downsampled planes of a block would have more than 256 MiB. Each block also reads
    the first ``neighbours`` slices of the next block. In addition to these planes, a comparison
    needs about 130 bytes per pixel of a downsampled plane. Only results of pairs are shuffled, less
    than 150 bytes each. The worker that solves for the transforms holds all of them.

    References
    ----------
    See `beam_volumes.register_slices`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from scipy import ndimage
    >>> rng = np.random.default_rng(0)
    >>> film = ndimage.gaussian_filter(rng.normal(size=(80, 90)), 2)
    >>> planes = np.stack([film[8:72, 8 + k : 72 + k] for k in (0, 3, 1)]).astype("f4")
    >>> _ = bv.compute(bv.open(planes).to("sections.zarr"))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     table = p | bv.RegisterSlices(bv.open("sections.zarr"), reference=0)
    ...     _ = table | beam.Map(lambda t: print([round(x, 1) + 0.0 for x in t["x"].to_pylist()]))
    [0.0, 3.0, 1.0]
    """

    @named_checked
    def __init__(
        self,
        stack: Volume,
        *,
        model: str = "translation",
        method: str = "intensity",
        neighbours: int = 3,
        reference: int | None = None,
        skip: Iterable[int] = (),
        max_shift: float | None = None,
        min_quality: float = 0.3,
        max_side: int = 1024,
        trend: str | float = "keep",
        prior: Any = None,
        mask: Volume | None = None,
        nodata: float | None = None,
    ):
        super().__init__()
        self.slices = Slices.of(
            stack,
            "RegisterSlices",
            model=model,
            method=method,
            neighbours=neighbours,
            reference=reference,
            skip=skip,
            max_shift=max_shift,
            min_quality=min_quality,
            max_side=max_side,
            trend=trend,
            prior=prior,
            mask=mask,
            nodata=nodata,
        )
        check_readable(self.slices.thin)
        self.slices.check_blocks()

    def expand(self, begin: Any) -> beam.PCollection:
        pipeline, wait, windowed = beginning(begin, "RegisterSlices")
        blocks = self.slices.blocks
        batches = [tuple(blocks[k : k + _BATCH]) for k in range(0, len(blocks), _BATCH)]
        compared = beam.FlatMap(partial(_links, slices=self.slices)).with_output_types(_Found)
        solved = beam.Map(partial(_aligned, slices=self.slices)).with_output_types(ComputedTable)
        return windowed(
            pipeline
            | "Batches" >> beam.Create(batches)
            | "Blocks" >> beam.FlatMap(_pairs, **wait).with_output_types(Tuple[int, int])
            | "Spread" >> beam.Reshuffle()
            | "Compare" >> compared
            | "All" >> beam.combiners.ToList()
            | "Solve" >> solved
        )

    def display_data(self) -> dict[str, Any]:
        return {
            "slices": DisplayDataItem(self.slices.pairs.count, label="Number of slices"),
            "blocks": DisplayDataItem(len(self.slices.blocks), label="Number of blocks"),
        }


def _links(
    block: tuple[int, int], slices: Slices
) -> Iterator[tuple[tuple[int, int], tuple[float, ...]]]:
    for pair, link in slices.links(block).items():
        yield pair, () if link is None else _numbers(link)


def _aligned(
    found: Iterable[tuple[tuple[int, int], tuple[float, ...]]], slices: Slices
) -> ComputedTable:
    axes = len(slices.pairs.axes)
    links: Links = {p: _link_of(numbers, axes) if numbers else None for p, numbers in found}
    return slices.pairs.solved(links)
