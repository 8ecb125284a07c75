"""Positions of tiles from their overlaps."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import ndimage
from scipy.spatial import cKDTree

from beam_volumes.graph.options import reserved
from beam_volumes.graph.spaces import shared_size
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.geometry.registration.images import (
    MIN_ALONE,
    MODELS,
    Link,
    Needs,
    check_quality,
    cleaned,
    contrast_of,
    is_constant,
    marked,
    matched,
)
from beam_volumes.ops.geometry.registration.links import Placed, connected, corners, placed
from beam_volumes.ops.geometry.registration.wobble import SliceLinks, movements, of_whole_tiles
from beam_volumes.ops.geometry.transforms import matrices_of, matrix_columns
from beam_volumes.ops.geometry.validity import marked_volume, masks_of, nodata_of
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.runs.console import shown_progress
from beam_volumes.storage.formats.unfinished import outside

#: The model of tiles with slices that wobble.
SLICES = "slices"
#: Maximum number of voxels of planes that are compared slice by slice.
_MAX_PLANE = 1 << 20
#: Planes of both tiles that are read in the memory in which one plane is compared.
_PLANES = 9
#: Maximum number of voxels of an overlap that are compared; larger ones are downsampled.
_MAX_VOXELS = 1 << 21
#: The minimum share of the smaller box that must overlap: boxes have the maximum error on each side.
_MIN_OVERLAP = 0.1
#: The range of an overlap's values, relative to the largest one, that counts as constant.
_EMPTY = float(np.finfo(np.float32).eps)
#: Voxels around a box of a tile that is resampled, which change its interpolated voxels.
_SUPPORT = 6
#: The share of valid voxels between which a voxel is interpolated.
_INSIDE = 0.999
#: Residuals of links, in voxels, that are accepted in any case.
_MAX_RESIDUAL = 1.0
#: The distance of two structures, as a share of the longest side of tiles, from which they are different.
_SEPARATION = 0.25


@documented
def register_tiles(
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
    progress: bool | Callable[..., None] | None = None,
) -> tuple[ComputedTable, ComputedTable]:
    """Find the positions of overlapping tiles from their voxels.

    Use it if the stage positions of a microscope are not exact. Pass the result to `fuse`.

    Parameters
    ----------
    tiles : sequence of Volume or numpy.ndarray
        Tiles with the same axes. If they have several channels, ``channel`` selects one.
    positions : array_like, table or path
        For each tile, the approximate position of its first voxel in voxels, with a number for each
        spatial axis. If tiles are rotated, sheared or scaled, give a matrix for each, as for
        `fuse`: it maps indices of the tile to positions. A table, such as a DataFrame or the path of
        a CSV file, has the columns of the first result.
    model : {"translation", "rigid", "affine", "slices"}, default: "translation"
        The transformation model: translation, rigid or affine. Rotations of a few degrees are
        found. Given matrices are corrected by such a transformation. ``"slices"`` finds a
        translation of each tile, and then of each of its slices along y and x, for stages that
        wobble while a stack is acquired.
    max_shift : float or sequence of float, default: 20.0
        The maximum error of the distance between two tiles, in voxels, along the axes of the
        positions; one number for all axes or one per axis. If a position is wrong by at most n
        voxels, a distance is wrong by at most 2 n.
    min_quality : float, default: 0.5
        Minimum correlation of the voxels in the overlap for linking two tiles.
    reference : int, optional
        The index of a tile that keeps its given position; all tiles are shifted accordingly. By
        default, the mean of all positions is kept.
    subvoxel : bool, default: True
        Whether to find fractions of voxels. If False, positions of linked tiles are rounded to whole
        voxels, and `fuse` copies their voxels instead of interpolating them. Tiles without links are
        not rounded. Only for ``model="translation"`` without given matrices.
    channel : int or str, optional
        The number or the name of the channel that is compared, such as ``"DAPI"``. `fuse` applies
        the result to all channels.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are compared: one mask for all tiles, or a list with a mask
        or None for each tile. A mask has the shape of its tile, and bool or integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for black borders. They are not compared.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    positions : ComputedTable
        A row for each tile, in order. ``z``, ``y`` and ``x`` are its position, with a column for
        each axis. Unless all transformations are translations, there are columns for the entries
        of its matrix, such as ``m_zz``. ``links`` is the number of links to other tiles, and ``residual``
        is the largest distance in voxels by which a link disagrees in its overlap. ``confirmed`` is
        true if links of the tile are in a loop that agrees. Tiles without links keep their given
        position, and linked tiles keep the mean of their given positions. With ``reference``, all
        tiles are then shifted together, including tiles without links. For ``model="slices"``,
        there is a row for each slice of each tile, with its numbers in ``tile`` and ``slice``, and
        its position in ``z``, ``y`` and ``x``. ``links`` is the number of slices of other tiles to
        which it is linked by links that are used.
    pairs : ComputedTable
        A row for each pair of tiles, ``a`` and ``b``, that should overlap. ``shift_z``, ``shift_y``
        and ``shift_x`` are their measured distance along each axis at the centre of the overlap.
        ``quality`` is the correlation, and ``residual`` is as for tiles. ``used`` is true if the
        pair determines the positions, and ``confirmed`` if it is in a loop of used pairs that
        agree.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there is not one position for each tile. If tiles differ
        in axes or voxel size, or have time points or no voxels. If a tile has several channels and
        none is selected, or lacks the selected one. If a mask differs from its tile in shape, axes
        or voxel size, or the number of masks is wrong.
    TypeError
        If a tile or a mask is neither a volume nor an array, or a mask has floats.

    See Also
    --------
    fuse : makes one volume of the tiles.
    register_slices : aligns the slices of a stack.

    Notes
    -----
    Only overlaps are read, each once for each of its two tiles. Overlaps of more than two million
    voxels are downsampled. Pairs are compared in threads, by phase correlation and then by least
    squares of intensities. The positions of all tiles are solved together. Pairs that contradict
    most other pairs are left out. Robust weights determine them, so a fifth of all pairs may be
    wrong. Pairs that may match by chance, because they overlap little, are empty or have repeating
    structures, are also excluded. A pair is used only if unrelated tiles would match as well in
    less than one in a thousand cases. If no loop of other pairs confirms the pair, the limit is one
    in a million. Such a pair is not used if it is in a loop that contradicts itself. If structures
    repeat, several shifts match. A pair is then used if one shift leaves significantly smaller
    residuals than all others, with the same limits. If the voxels that are read do not contain the
    other shifts, a loop of pairs must confirm it. Overlaps that only vary along some directions, such
    as layers, do not determine a shift and link no tiles. Without matrices, other translations that may
    be chance are used as well if loops of up to four of them close within half a voxel, or less if
    ``max_shift`` is small. Different structures must determine them, at a distance of a quarter of
    the longest side of a tile. These translations need fractions of voxels, and images without
    periods. Without ``reference``, the mean position of all tiles that pairs link does not change.
    The mean of affine matrices is the identity. Rotations are then projected from affine maps, for
    turns of a few degrees.

    Two tiles with the same given matrix are compared in their own voxels, without interpolation. If
    their matrices differ, the second tile is resampled to the voxels of the first. The found
    transformations are composed with the given matrices. The mean of affine corrections is the
    identity.

    For ``model="slices"``, overlaps are read a second time. Each slice is compared with the nearest
    slice of the other tile, within ``max_shift``. A link of two slices needs ``min_quality`` and a
    probability of chance of less than one in a million. The movements of all slices are solved
    together. How much successive slices move alike follows from the links. Slices without links
    follow their neighbours to this degree, and otherwise their tile. Loops of links, such as between
    four tiles, show which links are wrong. These are not used; up to about 30 % of all links may be
    wrong. A link without a loop, as in a row of tiles, is only used if it is probable from the other
    links of its two tiles. A single slice that moves much farther than all others is therefore not
    used there, because its link does not differ from a wrong one. Three such slices in succession
    confirm each other. Two tiles of fewer than about six slices cannot show which links are wrong.
    A link without a loop is not used either if a link that is as probable contradicts it. If more
    than a tenth of all links are wrong, two links that only agree with each other do not move a
    slice far.
    If no loop confirms the links of up to eight slices of two linked tiles, their mean, or the
    mean of all links of both tiles, must agree with the distance of the tiles. Otherwise, none of these
    links is used.
    A tile without links is placed by the links of its slices, which may match although the whole
    tile does not. If more than two fifths of the links of a tile contradict the others, its slices
    have the translation of the tile, with a warning. Movements that all tiles share are not
    detected: each is divided among the tiles of an overlap. The tile ``reference`` does not wobble.

    Voxels outside of ``mask``, voxels with the value ``nodata``, and NaN and infinite voxels are
    missing. Correlations, shifts and the test for chance use only voxels that both tiles have. All
    other values are ordinary voxels: without ``nodata``, a border of zeros is aligned as well.
    Missing voxels between valid ones are interpolated, such as scattered voxels or every third row.
    A pair is not used if too few common voxels remain to find fractions of voxels. A downsampled
    voxel is the mean of its valid voxels, if these are at least half. Without ``mask`` and
    ``nodata``, it is missing if any voxel is. A tile without valid voxels has no link.

    References
    ----------
    S. Preibisch, S. Saalfeld and P. Tomancak, "Globally optimal stitching of tiled 3D microscopic
    image acquisitions", Bioinformatics 25, 2009.

    M. J. Black and A. Rangarajan, "On the unification of line processes, outlier rejection, and
    robust statistics with applications in early vision", International Journal of Computer Vision
    19, 1996.

    D. Padfield, "Masked object registration in the Fourier domain", IEEE Transactions on Image
    Processing 21, 2012.

    Q. H. Vuong, "Likelihood ratio tests for model selection and non-nested hypotheses",
    Econometrica 57, 1989.

    Examples
    --------
    >>> from scipy import ndimage
    >>> film = ndimage.gaussian_filter(np.random.default_rng(0).normal(size=(60, 100)), 2)
    >>> left, right = film[:, :60], film[2:, 43:]
    >>> table, pairs = bv.register_tiles([left, right], [(0, 0), (0, 40)])
    >>> [round(b - a, 1) for a, b in (table["y"].to_pylist(), table["x"].to_pylist())]
    [2.0, 43.0]
    >>> volume = bv.fuse([left.astype("f4"), right.astype("f4")], table)
    """
    has_slices = model == SLICES
    if model not in (*MODELS, SLICES):
        raise ValueError(
            f"register_tiles: model={model!r} is not available; use one of {', '.join((*MODELS, SLICES))}"
        )
    every = TilePairs.of(
        tiles,
        positions,
        "translation" if has_slices else model,
        max_shift,
        "register_tiles",
        reference,
        subvoxel,
        mask,
        nodata,
        channel,
    )
    quality = check_quality(min_quality, "register_tiles")
    if has_slices:
        every.check_slices()
    needs = every.needs(slices=has_slices)
    pairs = every.pairs

    def compared(one: Callable[[tuple[int, int]], Any]) -> list[Any]:
        with (
            shown_progress("register_tiles", len(pairs), "pairs", progress) as finished,
            reserved(needs.occupied),
            ThreadPoolExecutor(needs.threads) as pool,
        ):
            # The limit of memory is of this thread.
            links = [pool.submit(copy_context().run, one, pair) for pair in pairs]
            for link in links:
                link.add_done_callback(lambda _: finished())
        return [link.result() for link in links]

    found: dict[tuple[int, int], Link] = dict(zip(pairs, compared(every.link), strict=True))
    table, of_pairs = every.solved(found, quality)
    lonely, unmoved, contradicted = unlinked(table), list[int](), list[int]()
    if has_slices:
        places = np.stack([np.asarray(table[a], np.float64) for a in "zyx"], axis=1)
        placed_tiles = replace(every, given=places)
        slices = compared(partial(placed_tiles.slice_links, min_quality=quality))
        # A whole tile may match no other, because its slices do not match at one shift.
        by_slices = set(lonely) - {reference}
        if lonely:
            counts = [v.shape[0] for v in every.opened]
            moved, slices = of_whole_tiles(counts, slices, by_slices)
            places[:, 1:] += moved
            placed_tiles = replace(every, given=places)
        linked = {k for k, n in enumerate(placed_tiles.slices_linked(slices)) if n}
        table, contradicted = placed_tiles.table_of_slices(slices, by_slices)
        unmoved = [k for k in range(len(places)) if k not in linked and k not in lonely]
        lonely = [k for k in lonely if k not in linked]
    if len(every.opened) > 1 and lonely:
        shift = "" if reference is None else " except for the shift of all tiles"
        blank = _blank(found)
        reason = f"; no valid voxels in the overlaps of {_numbers(blank)}" if blank else ""
        warnings.warn(
            f"register_tiles: no link for {len(lonely)} of {len(every.opened)} tiles, which keep their "
            f"given positions{shift}: {_numbers(lonely)}{reason}; the table of pairs has the quality of "
            "each pair",
            stacklevel=outside(),
        )
    if unmoved:
        warnings.warn(
            f"register_tiles: no link for any slice of {len(unmoved)} of {len(every.opened)} tiles, which "
            f"have one translation for all slices: {_numbers(unmoved)}",
            stacklevel=outside(),
        )
    if contradicted:
        warnings.warn(
            f"register_tiles: links of slices contradict each other or are not confirmed in "
            f"{len(contradicted)} of {len(every.opened)} tiles, which have one translation for all slices: "
            f"{_numbers(contradicted)}; raise min_quality, or lower max_shift",
            stacklevel=outside(),
        )
    return table, of_pairs


def _numbers(tiles: Sequence[int]) -> str:
    return f"{', '.join(map(str, tiles[:20]))}{', ...' if tiles[20:] else ''}"


def _blank(found: Mapping[tuple[int, int], Link]) -> list[int]:
    """Return the tiles without a valid voxel in any overlap."""
    known = dict[int, bool]()
    for pair, link in found.items():
        for k, has_voxels in zip(pair, link.has_voxels, strict=True):
            known[k] = known.get(k, False) or has_voxels
    return sorted(k for k, has_voxels in known.items() if not has_voxels)


def needs_of_tiles(
    tiles: Sequence[Volume],
    positions: Any,
    *,
    model: str = "translation",
    max_shift: float | Sequence[float] = 20.0,
    min_quality: float = 0.5,
    reference: int | None = None,
    subvoxel: bool = True,
    channel: int | str | None = None,
    mask: Any = None,
    nodata: float | None = None,
    **others: Any,
) -> Needs:
    """Return what `register_tiles` needs."""
    check_quality(min_quality, "register_tiles")
    has_slices = model == SLICES
    every = TilePairs.of(
        tiles,
        positions,
        "translation" if has_slices else model,
        max_shift,
        "register_tiles",
        reference,
        subvoxel,
        mask=mask,
        nodata=nodata,
        channel=channel,
    )
    if has_slices:
        every.check_slices()
    return every.needs(slices=has_slices)


def of_channel(tiles: Sequence[Volume], channel: Any, name: str) -> list[Volume]:
    """Return the channel of each tile that is compared."""
    if not (channel is None or isinstance(channel, str) or par.is_whole(channel)):
        raise TypeError(f"{name}: channel={channel!r} is neither a number nor a name of a channel")
    found = []
    for k, tile in enumerate(map(as_volume, tiles)):
        if channel is None:
            if len(tile.nodes) > 1:
                raise ValueError(
                    f"{name}: tile {k} has {len(tile.nodes)} channels ({', '.join(tile.channels)}); "
                    "select the one to compare with channel="
                )
            found.append(one_channel(tile))
            continue
        try:
            found.append(tile.sel(c=channel))
        except (ValueError, IndexError):
            has = f"the channels {', '.join(tile.channels)}"
            if str(channel) in tile.channels:
                has += f"; a number counts channels, and a name needs quotes: '{channel}'"
            if not tile.space.has_channels:
                has = "no channel axis"
            raise ValueError(
                f"{name}: channel={channel!r} is not a channel of tile {k}, which has {has}"
            ) from None
    return found


def unlinked(positions: ComputedTable) -> list[int]:
    """Return the numbers of the tiles that have no link."""
    links = np.array(positions["links"].to_pylist(), int)
    if "tile" in positions.column_names:  # with a row for each slice
        links = np.bincount(np.array(positions["tile"].to_pylist(), int), links)
    return np.flatnonzero(links == 0).tolist()


@dataclass(frozen=True)
class _Planes:
    """The slices of two tiles that are compared one by one."""

    dz: int  #: The distance of the tiles along z, in slices
    blocks: list[tuple[int, int]]  #: Slices of the first tile that are read together
    near: tuple[slice, ...]  #: The box along y and x
    far: tuple[slice, ...]  #: The same of the second tile
    factors: np.ndarray  #: By which planes are downsampled
    plane: int  #: The largest number of voxels of a plane that is compared

    @property
    def count(self) -> int:
        """The number of slices."""
        return self.blocks[-1][1] - self.blocks[0][0]

    @property
    def voxels(self) -> int:
        """The voxels of both tiles that are read."""
        return self.count * sum(
            math.prod(s.stop - s.start for s in box) for box in (self.near, self.far)
        )


@dataclass(frozen=True)
class TilePairs:
    """Tiles with given positions, and their pairs."""

    opened: Sequence[Volume]
    given: np.ndarray  #: Positions
    linear: np.ndarray  #: The given matrices
    limits: np.ndarray  #: The maximum error of distances along each axis
    model: str = "translation"
    size: Sequence[float] = (1.0, 1.0, 1.0)  #: The voxel size
    reference: int | None = None  #: The tile that stays where it is
    subvoxel: bool = True
    masks: Sequence[Volume | None] = ()  #: Of each tile
    nodata: Sequence[float | None] = ()  #: Of each tile, as a number of its dtype

    @classmethod
    def of(
        cls,
        tiles: Sequence[Volume],
        positions: Any,
        model: str,
        max_shift: Any,
        name: str,
        reference: Any = None,
        subvoxel: Any = True,
        mask: Any = None,
        nodata: Any = None,
        channel: Any = None,
    ) -> TilePairs:
        if model not in MODELS:
            raise ValueError(
                f"{name}: model={model!r} is not available; use one of {', '.join(MODELS)}"
            )
        opened = opened_tiles(of_channel(tiles, channel, name), name)
        axes = opened[0].space.axes
        matrices, given = matrices_of(positions, axes, len(opened), name, "tiles", "positions")
        visible = opened[0].space.visible
        allowed = par.per_axis(max_shift, visible, 0.0, "max_shift", name)
        limits = [par.positive(allowed[a], "max_shift", name) for a in visible]
        size = shared_size(name, *opened).voxel_size or (1.0, 1.0, 1.0)
        if reference is not None and not (par.is_whole(reference) and 0 <= reference < len(opened)):
            raise ValueError(
                f"{name}: reference={reference!r} is not a number from 0 to {len(opened) - 1} of a tile"
            )
        if not isinstance(subvoxel, (bool, np.bool_)):
            raise TypeError(f"{name}: subvoxel={subvoxel!r} is neither True nor False")
        if not subvoxel and model != "translation":
            raise ValueError(
                f"{name}: subvoxel=False does not go with model={model!r}, since matrices interpolate; use "
                'model="translation"'
            )
        if not subvoxel and (matrices != np.eye(len(axes))).any():
            raise ValueError(
                f"{name}: subvoxel=False does not go with matrices in positions, since they interpolate; "
                "use subvoxel=True"
            )
        return cls(
            opened,
            given,
            matrices,
            np.array(limits),
            model,
            size,
            reference,
            bool(subvoxel),
            masks_of(mask, opened, name, "tile"),
            [nodata_of(nodata, v.dtype, name) for v in opened],
        )

    @property
    def spacing(self) -> np.ndarray:
        """The voxel size along the axes."""
        return np.array([self.size[a] for a in self.opened[0].space.visible])

    def solved(
        self, found: Mapping[tuple[int, int], Link], min_quality: float
    ) -> tuple[ComputedTable, ComputedTable]:
        """Return the tables of positions and pairs, given the link of each pair."""
        found = {pair: replace(link, points=self._points(pair)) for pair, link in found.items()}
        # Only rounding errors differ in overlaps that are empty compared with others.
        rounding = _EMPTY * max((link.contrast for link in found.values()), default=0.0)
        placement = placed(
            {
                pair: link
                for pair, link in found.items()
                if link.quality >= min_quality and link.contrast > rounding
            },
            self.given,
            # Pairs of successive tiles, too: all tiles are connected.
            [*found, *itertools.pairwise(range(len(self.opened)))],
            model=self.model,
            reference=None,
            max_residual=_MAX_RESIDUAL,
            spacing=self.spacing,
            reach=None if self.model != "translation" or self._has_matrices else self.limits,
            separation=_SEPARATION * max(max(v.shape) for v in self.opened),
        )
        axes, columns = (
            self.opened[0].space.axes,
            self._columns(placement, self._anchored(placement)),
        )
        return columns, _table_of_pairs(axes, found, placement)

    def _anchored(self, solved: Placed) -> np.ndarray:
        """Return positions such that the reference stays, with links in whole voxels if these are wanted."""
        places, k = solved.places, self.reference
        if k is not None:
            places = places + (self.given[k] - places[k])
        if self.subvoxel:
            return places
        # Linked tiles may share a fraction, which must not round their distances.
        groups = connected(solved.used, len(places))
        anchors = np.unique(groups, return_index=True)[1]
        if k is not None:
            anchors[groups[k]] = k
        anchor = places[anchors[groups]]
        is_linked = np.bincount(groups)[groups] > 1
        whole = np.rint(anchor) + np.rint(places - anchor)
        return np.where(is_linked[:, None], whole, places)

    def _points(self, pair: tuple[int, int]) -> np.ndarray:
        """Return the indices of the first tile at which a link is compared with the others."""
        if self.model == "translation":
            return np.zeros((len(self.limits), 1))
        near, _ = self._boxes(*pair)
        return np.asarray(
            self.linear[pair[0]] @ corners((s.start, s.stop - 1) for s in near), np.float64
        )

    def _columns(self, solved: Placed, places: np.ndarray) -> ComputedTable:
        import pyarrow

        axes, of_tile = self.opened[0].space.axes, solved.used_by_image
        columns: dict[str, Any] = {a: places[:, n] for n, a in enumerate(axes)}
        if self.model != "translation" or self._has_matrices:
            columns |= matrix_columns(solved.matrices @ self.linear, axes)
        columns["links"] = [len(pairs) for pairs in of_tile]
        columns["confirmed"] = solved.confirmed_images
        columns["residual"] = [
            max(solved.residuals[p] for p in pairs) if pairs else None for pairs in of_tile
        ]
        return ComputedTable(pyarrow.table(columns))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of tiles that overlap at their given positions."""
        low = self.given
        shapes = np.array([v.shape for v in self.opened])
        high = low + shapes
        if self._has_matrices:
            low = low + np.einsum("tab,tb->ta", self.linear, (shapes - 1) / 2)
            reach = np.einsum("tab,tb->ta", abs(self.linear), shapes / 2)
            low, high = low - reach, low + reach
        pairs = overlapping(low, high)
        return [p for p in pairs if self._overlap(*p)] if self._has_matrices else pairs

    @cached_property
    def _has_matrices(self) -> bool:
        return bool((self.linear != np.eye(self.given.shape[1])).any())

    def _overlap(self, i: int, j: int) -> bool:
        """Whether two tiles overlap along the axes of both."""
        for a, b in ((i, j), (j, i)):
            shape, place = self._in_voxels_of(a, b)
            if (place >= self.opened[a].shape).any() or (place + shape <= 0).any():
                return False
        return True

    def _in_voxels_of(self, i: int, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the shape of tile ``j`` in voxels of tile ``i``, and its position there.

        If both have the same matrix, this is the tile itself. Otherwise, the shape encloses the tile.
        """
        inverse, shape = np.linalg.inv(self.linear[i]), np.array(self.opened[j].shape)
        place = inverse @ (self.given[j] - self.given[i])
        if np.array_equal(self.linear[i], self.linear[j]):
            return shape, place
        turn = inverse @ self.linear[j]
        middle, reach = turn @ ((shape - 1) / 2) + place, abs(turn) @ (shape / 2)
        low = np.ceil(middle - reach)
        return (np.floor(middle + reach) + 1 - low).astype(int), low

    def _limits_of(self, i: int) -> np.ndarray:
        """Return the maximum errors along the axes of a tile."""
        return np.asarray(abs(np.linalg.inv(self.linear[i])) @ self.limits, np.float64)

    def link(self, pair: tuple[int, int]) -> Link:
        """Compare two tiles where they may overlap."""
        i, j = pair
        near, far = self._boxes(i, j)
        factors = _factors([s.stop - s.start for s in near])
        a = np.asarray(self._compared(i, near, factors))
        if np.array_equal(self.linear[i], self.linear[j]):
            b = np.asarray(self._compared(j, far, factors))
        else:
            b = self._resampled(i, j, far, factors)
        if is_constant(a) or is_constant(b):
            return replace(
                Link.shifted(self.given[j] - self.given[i], 0.0),
                contrast=0.0,
                has_voxels=(bool(np.isfinite(a).any()), bool(np.isfinite(b).any())),
            )
        begun = np.array([s.start for s in near]) - [s.start for s in far]
        _, place = self._in_voxels_of(i, j)
        expected = (place - begun) / factors
        a, b = marked(a), marked(b)
        limits = (self._limits_of(i) + 0.5) / factors
        spacing = self.spacing[:, None] * self.linear[i] if self._has_matrices else self.spacing
        link = matched(
            a,
            b,
            self.model,
            spacing * factors,
            limits,
            expected,
            _MIN_OVERLAP,
            has_fractions=self.subvoxel,
        )
        # Index k of a downsampled box has its centre at factors * k + first.
        first = [s.start for s in near] + (factors - 1) / 2
        matrix = link.matrix * factors[:, None] / factors
        offset = link.offset * factors - begun - (matrix - np.eye(len(first))) @ first
        if self._has_matrices:
            linear = self.linear[i]
            offset = linear @ (offset + place) + self.given[i] - self.given[j]
            matrix = linear @ matrix @ np.linalg.inv(linear)
        feature = None if link.feature is None else link.feature * factors + first
        contrast = min(contrast_of(a), contrast_of(b))
        return replace(link, matrix=matrix, offset=offset, feature=feature, contrast=contrast)

    def check_slices(self) -> None:
        """Refuse tiles that have no slices to move."""
        axes = self.opened[0].space.axes
        if axes != ("z", "y", "x") or self._has_matrices or not self.subvoxel:
            raise ValueError(
                f'register_tiles: model="slices" needs tiles with the axes z y x (here {" ".join(axes)}), '
                "positions without matrices, and subvoxel=True"
            )

    def slice_links(self, pair: tuple[int, int], *, min_quality: float) -> SliceLinks:
        """Compare the slices of two tiles at their positions."""
        i, j = pair
        over = self._planes(i, j)
        if over is None:
            return SliceLinks.of([], [], [])
        near, far, factors, dz = over.near, over.far, over.factors, over.dz
        away = self.given[j] - self.given[i]
        begun = np.array([a.start - b.start for a, b in zip(near, far, strict=True)])
        limits, expected = (self.limits[1:] + 0.5) / factors, (away[1:] - begun) / factors
        ends, found, weights = list[tuple[int, int]](), list[np.ndarray](), list[float]()
        for z, stop in over.blocks:
            blocks = [
                np.asarray(
                    self._compared(k, (slice(z - d, stop - d), *box), np.array([1, *factors]))
                )
                for k, d, box in ((i, 0, near), (j, dz, far))
            ]
            for n, (a, b) in enumerate(zip(*blocks, strict=True)):
                if is_constant(a) or is_constant(b):
                    continue
                link = matched(
                    marked(a), marked(b), "translation", np.ones(2), limits, expected, _MIN_OVERLAP
                )
                if link.evidence >= MIN_ALONE and link.quality >= min_quality:
                    ends.append((z + n, z + n - dz))
                    found.append(link.shift * factors + begun - away[1:])
                    weights.append(link.weight / float(max(factors)))
        first = np.cumsum([0, *(v.shape[0] for v in self.opened)])
        return SliceLinks.of([(first[i] + a, first[j] + b) for a, b in ends], found, weights)

    def _planes(self, i: int, j: int) -> _Planes | None:
        """Return the slices of two tiles that are compared, and their boxes; None if there are none."""
        dz = round(self.given[j, 0] - self.given[i, 0])
        low, high = max(0, dz), min(self.opened[i].shape[0], self.opened[j].shape[0] + dz)
        near, far = (box[1:] for box in self._boxes(i, j))
        sizes = np.array([[s.stop - s.start for s in box] for box in (near, far)])
        if high <= low or (sizes <= 0).any():
            return None
        largest = sizes.max(axis=0)
        factors = _factors(largest.tolist(), _MAX_PLANE)
        # Slices of a chunk are read together, in the memory in which a plane and the overlap are compared.
        plane = math.prod((-(-largest // factors)).tolist())
        overlap = [high - low, *largest.tolist()]
        share = math.prod((-(-np.array(overlap) // _factors(overlap))).tolist()) / plane
        count = max(1, int(_PLANES * (share - 1)), _MAX_PLANE // plane)
        blocks = [(z, min(z + count, high)) for z in range(low, high, count)]
        return _Planes(dz, blocks, near, far, factors, plane)

    def slices_linked(self, links: Sequence[SliceLinks]) -> list[int]:
        """Return the number of ends of links in each tile."""
        counts = [v.shape[0] for v in self.opened]
        ends = np.concatenate([np.zeros((0, 2), int), *(one.ends for one in links)])
        tiles = np.repeat(np.arange(len(counts)), counts)
        return list(np.bincount(tiles[ends].ravel(), minlength=len(counts)).tolist())

    def table_of_slices(
        self, links: Sequence[SliceLinks], by_slices: Collection[int]
    ) -> tuple[ComputedTable, list[int]]:
        """Return the table of the positions of all slices, and the tiles that only have unused links."""
        import pyarrow

        counts = [v.shape[0] for v in self.opened]
        tiles = np.repeat(np.arange(len(counts)), counts)
        slices = np.concatenate([np.arange(n) for n in counts])
        places = self.given[tiles]
        places[:, 0] += slices
        moved, is_used = movements(counts, links, self.reference, self.limits[1:] + 0.5, by_slices)
        places[:, 1:] += moved
        ends = np.concatenate([np.zeros((0, 2), int), *(one.ends for one in links)])[is_used]
        columns = {"tile": tiles, "slice": slices, **dict(zip("zyx", places.T, strict=True))}
        columns["links"] = np.bincount(ends.ravel(), minlength=len(tiles))
        with_links = np.array(self.slices_linked(links)) > 0
        without = np.bincount(tiles[ends].ravel(), minlength=len(counts)) == 0
        return ComputedTable(pyarrow.table(columns)), np.flatnonzero(with_links & without).tolist()

    def needs(self, *, slices: bool = False) -> Needs:
        """Return what the comparison of all pairs needs, and then of their ``slices``."""
        boxes, images = [], []  # that are read; that are compared
        for pair in self.pairs:
            both = self._boxes(*pair)
            factors = _factors([s.stop - s.start for s in both[0]])
            images += [
                math.prod(
                    -(-(s.stop - s.start) // int(f)) for s, f in zip(box, factors, strict=True)
                )
                for box in both
            ]
            boxes.append((pair[0], both[0], factors))
            if np.array_equal(*self.linear[list(pair)]):
                boxes.append((pair[1], both[1], factors))
            else:
                boxes.append((pair[1], *self._needed(*pair, both[1], factors)[:2]))
        if not boxes:
            return Needs(None, 0, 0, 0, 1, "")
        sizes = [[s.stop - s.start for s in box] for _, box, _ in boxes]
        voxels = [math.prod(size) for size in sizes]
        # A sweep with a mask or a value to leave out needs more memory.
        is_marked = [self.masks[k] is not None or self.nodata[k] is not None for k, *_ in boxes]
        largest = max(range(len(boxes)), key=lambda n: voxels[n] * (2 if is_marked[n] else 1))
        # The part of a tile that is resampled, too, which may be larger than both images.
        compared = max(
            *images,
            *(
                math.prod((-(-np.array(size) // factors)).tolist())
                for size, (*_, factors) in zip(sizes, boxes, strict=True)
            ),
        )
        planes = [p for pair in self.pairs if slices and (p := self._planes(*pair)) is not None]
        return Needs(
            self._compared(*boxes[largest]),
            (sum(voxels) + sum(p.voxels for p in planes)) / voxels[largest],
            0,
            compared,
            len(self.pairs),
            "max_shift",
            is_interleaved=True,
            model=self.model,
            ndim=len(self.limits),
            compared_in_all=sum(map(max, images[::2], images[1::2])),
            runs=len(boxes) + 2 * sum(len(p.blocks) for p in planes),
            planes=(sum(p.count for p in planes), sum(p.count * p.plane for p in planes)),
        )

    def _compared(self, k: int, box: tuple[slice, ...], factors: np.ndarray) -> Volume:
        """Return the voxels of a box of a tile as they are compared."""
        mask = self.masks[k]
        return marked_volume(
            self.opened[k][box],
            None if mask is None else mask[box],
            self.nodata[k],
            factors.tolist(),
        )

    def _needed(
        self, i: int, j: int, far: tuple[slice, ...], factors: np.ndarray
    ) -> tuple[tuple[slice, ...], np.ndarray, np.ndarray, np.ndarray]:
        """Return the box of tile ``j`` for a box in voxels of tile ``i``, and its factors.

        Also returns the map from indices of the second to indices of the first, both downsampled.
        """
        inverse = np.linalg.inv(self.linear[j])
        start = self._in_voxels_of(i, j)[1] + [s.start for s in far]
        turn = inverse @ self.linear[i]
        offset = turn @ (start + (factors - 1) / 2) + inverse @ (self.given[i] - self.given[j])
        matrix = turn * factors
        # A voxel of the tile may be much smaller than the voxels that are compared.
        lengths = np.linalg.norm(np.linalg.inv(matrix), axis=0)
        own = np.maximum(1, np.floor(1 / lengths + 0.01)).astype(int)
        sizes = -(-np.array([s.stop - s.start for s in far]) // factors)
        at = matrix @ corners((0, n - 1) for n in sizes) + offset[:, None]
        shape = np.array(self.opened[j].shape)
        low = np.clip(np.floor(at.min(axis=1)) - _SUPPORT * own, 0, shape - 1).astype(int)
        high = np.clip(np.ceil(at.max(axis=1)) + _SUPPORT * own + 1, low + 1, shape).astype(int)
        box = tuple(slice(int(a), int(b)) for a, b in zip(low, high, strict=True))
        return box, own, matrix / own[:, None], (offset - low - (own - 1) / 2) / own

    def _resampled(self, i: int, j: int, far: tuple[slice, ...], factors: np.ndarray) -> np.ndarray:
        """Return a box of tile ``j`` in voxels of tile ``i``; voxels outside of the tile are NaN."""
        box, own, matrix, offset = self._needed(i, j, far, factors)
        voxels = marked(np.asarray(self._compared(j, box, own)))
        shape = tuple(-(-(s.stop - s.start) // int(f)) for s, f in zip(far, factors, strict=True))
        inside = ndimage.affine_transform(
            np.isfinite(voxels).astype(np.float32), matrix, offset, shape, order=1, mode="constant"
        )
        values = ndimage.spline_filter(cleaned(voxels), 3, np.float32, mode="mirror")
        values = ndimage.affine_transform(
            values, matrix, offset, shape, order=3, mode="mirror", prefilter=False
        )
        values[inside < _INSIDE] = np.nan
        return values

    def _boxes(self, i: int, j: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Return the boxes of both tiles that may overlap, with the maximum error, in voxels of the first."""
        shape, place = self._in_voxels_of(i, j)
        shift = np.rint(place).astype(int)
        near, far = [], []
        for n, m, s, limit in zip(
            self.opened[i].shape, shape.tolist(), shift, np.ceil(self._limits_of(i)), strict=True
        ):
            near.append(slice(int(max(0, s - limit)), int(min(n, s + m + limit))))
            far.append(slice(int(max(0, -s - limit)), int(min(m, n - s + limit))))
        return tuple(near), tuple(far)


def opened_tiles(tiles: Sequence[Any], name: str) -> list[Volume]:
    """Return tiles as volumes of one channel with the same spatial axes."""
    opened = [refuse_empty(one_channel(as_volume(tile)), name) for tile in tiles]
    if not opened:
        raise ValueError(f"{name}: give at least one tile")
    axes = opened[0].space.axes
    for k, v in enumerate(opened):
        if v.space.axes != axes or v.space.times:
            raise ValueError(
                f"{name}: tile {k} has the axes {' '.join(v.axes)}, and tile 0 {' '.join(axes)}; all "
                "need the same spatial axes, and no time axis"
            )
    return opened


def overlapping(low: np.ndarray, high: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs of boxes, (boxes, axes), that overlap.

    >>> overlapping(np.array([[0, 0], [0, 5], [8, 8]]), np.array([[9, 6], [9, 7], [9, 9]]))
    [(0, 1)]
    """
    found = [np.empty((0, 2), int)]
    for i, j in _candidates(low, high):
        near = ((low[i] < high[j]) & (low[j] < high[i])).all(axis=1)
        found.append(np.sort(np.stack([i[near], j[near]], axis=1), axis=1))
    return sorted(map(tuple, np.concatenate(found).tolist()))


def _candidates(low: np.ndarray, high: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return boxes with others near them that are not much larger, by the size of the first."""
    half = (high - low) / 2
    scale = np.maximum(half.mean(axis=0), np.finfo(float).tiny)
    sizes, centres = (half / scale).max(axis=1), (low + half) / scale
    kinds = np.frexp(sizes)[1]
    for kind in np.unique(kinds):
        own, known = np.flatnonzero(kinds == kind), np.flatnonzero(kinds <= kind)
        reach = (1 + 1e-6) * (sizes[own] + sizes[own].max())
        found = cKDTree(centres[known]).query_ball_point(centres[own], reach, p=np.inf)
        i = np.repeat(own, [len(others) for others in found])
        j = known[np.fromiter(itertools.chain.from_iterable(found), int, len(i))]
        is_first = (kinds[j] < kind) | (i < j)
        yield i[is_first], j[is_first]


def _factors(shape: Sequence[int], limit: int | None = None) -> np.ndarray:
    """Return the factors that downsample a box to the number of voxels that are compared."""
    factors = np.ones(len(shape), int)
    while np.prod(-(-np.array(shape) // factors)) > (limit or _MAX_VOXELS):
        factors[int(np.argmax(np.array(shape) / factors))] *= 2
    return factors


def _table_of_pairs(
    axes: Sequence[str], found: Mapping[tuple[int, int], Link], solved: Placed
) -> ComputedTable:
    import pyarrow

    shifts = [link.shift_at(link.points.mean(axis=1)) for link in found.values()]
    rows: dict[str, Any] = {
        "a": pyarrow.array([i for i, _ in found], pyarrow.int64()),
        "b": pyarrow.array([j for _, j in found], pyarrow.int64()),
    }
    for n, a in enumerate(axes):
        rows[f"shift_{a}"] = pyarrow.array([s[n] for s in shifts], pyarrow.float64())
    rows["quality"] = pyarrow.array([link.quality for link in found.values()], pyarrow.float64())
    rows["residual"] = pyarrow.array([solved.residuals.get(p) for p in found], pyarrow.float64())
    for name, those in (("used", {*solved.used}), ("confirmed", solved.confirmed)):
        rows[name] = pyarrow.array([p in those for p in found], pyarrow.bool_())
    return ComputedTable(pyarrow.table(rows))
