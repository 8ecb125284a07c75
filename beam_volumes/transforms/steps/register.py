"""Registration of tiles, with each pair as an element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.typehints import Tuple, with_output_types

from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.geometry.registration.images import Link, check_quality
from beam_volumes.ops.geometry.registration.tiles import TilePairs
from beam_volumes.transforms.steps.slabs import check_readable
from beam_volumes.transforms.waiting import beginning

#: The two tiles of a pair, and numbers of their link.
_Found: Any = Tuple[Tuple[int, int], Tuple[float, ...]]
#: The fields of a link that are sent after its matrix and offset.
_NUMBERS = ("quality", "voxels", "evidence", "contrast")
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
        Whether to find fractions of voxels. If False, positions are rounded to whole voxels. Only for
        ``model="translation"``.
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
    link = every.link(pair)
    numbers = (getattr(link, name) for name in _NUMBERS)
    return pair, (*link.matrix.ravel().tolist(), *link.offset.tolist(), *numbers)


def _solved(
    found: Iterable[tuple[tuple[int, int], tuple[float, ...]]], every: TilePairs, min_quality: float
) -> tuple[ComputedTable, ComputedTable]:
    n = every.given.shape[1]
    links = {}
    for pair, numbers in sorted(found):
        matrix, offset, others = np.split(np.array(numbers), [n * n, n * n + n])
        named = dict(zip(_NUMBERS, others.tolist(), strict=True))
        links[pair] = Link(matrix.reshape(n, n), offset, **named)
    return every.solved(links, min_quality)
