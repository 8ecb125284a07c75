"""Alignment of slices of a stack, and of frames of a movie."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.geometry.registration.images import MODELS, Link, aligned
from beam_volumes.ops.geometry.registration.links import Placed, corners, placed
from beam_volumes.ops.geometry.resampling import downsample
from beam_volumes.ops.geometry.transforms import matrix_columns
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented

#: Residuals of links, in downsampled voxels, that are accepted in any case.
_MAX_RESIDUAL = 1.0


@documented
def register_slices(
    stack: Volume,
    *,
    model: str = "translation",
    neighbours: int = 3,
    reference: int | None = None,
    skip: Iterable[int] = (),
    max_shift: float | None = None,
    min_quality: float = 0.3,
    max_side: int = 1024,
) -> ComputedTable:
    """Find the transform of each slice that aligns it with its neighbours.

    Use it for serial sections, and for films that drift. `apply_transforms` applies the result to
    the whole volume.

    Parameters
    ----------
    stack : Volume or numpy.ndarray
        A lazy volume of one channel, or an array.
    model : {"translation", "rigid", "affine"}, default: "translation"
        What moves a slice: a shift, also a rotation, or also scales and shears. Rotations of up to
        30 degrees between compared slices are found.
    neighbours : int, default: 3
        Each slice is compared with so many slices after it. More than 1 bridges bad slices, and
        keeps errors from adding up.
    reference : int, optional
        The slice that stays where it is; by default one near the middle that many others match.
    skip : iterable of int, default: ()
        Slices that are not compared, such as missing ones. Empty slices are found without this.
    max_shift : float, optional
        Maximum shift between two compared slices along y and x, in voxels; half of the plane by
        default.
    min_quality : float, default: 0.3
        Two slices are not linked if the correlation of their aligned voxels is lower.
    max_side : int, default: 1024
        Planes are downsampled by a whole factor until no side is longer. The error of shifts is
        about 0.05 downsampled voxels.

    Returns
    -------
    ComputedTable
        A row for each slice: ``z``; the position of its first voxel in the aligned volume ``y`` and
        ``x``; the matrix ``m_yy``, ``m_yx``, ``m_xy`` and ``m_xx`` that maps its indices; the number
        of ``links`` to other slices; their mean ``quality``; and ``residual``, the largest distance
        in voxels by which a link disagrees. A slice without links is placed between its neighbours.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the volume has several channels, points in time, no
        voxels, or no axes z, y and x.
    TypeError
        If ``stack`` is neither a volume nor an array.

    See Also
    --------
    apply_transforms : applies the result.
    register_frames : aligns the frames of a movie.
    register_tiles : finds the positions of tiles.

    Notes
    -----
    One sweep downsamples the stack. The downsampled planes are held in memory, up to
    ``options.max_inmemory``. Pairs are aligned by phase correlation and then by least squares of
    intensities. All transforms are solved together; links that contradict the others are left out.

    References
    ----------
    C. D. Kuglin and D. C. Hines, "The phase correlation image alignment method", 1975; S. Baker and
    I. Matthews, "Lucas-Kanade 20 years on", International Journal of Computer Vision 56, 2004.

    Examples
    --------
    >>> from scipy import ndimage
    >>> rng = np.random.default_rng(0)
    >>> film = ndimage.gaussian_filter(rng.normal(size=(80, 90)), 2)
    >>> stack = np.stack([film[8:72, 8 + k : 72 + k] for k in (0, 3, 1)]).astype("f4")
    >>> table = bv.register_slices(stack, reference=0)
    >>> [round(x, 1) + 0.0 for x in table["x"].to_pylist()]
    [0.0, 3.0, 1.0]
    >>> aligned = bv.apply_transforms(stack, table)
    """
    name = "register_slices"
    v = refuse_empty(one_channel(as_volume(stack)), name)
    if v.space.axes != ("z", "y", "x") or v.space.times:
        raise ValueError(
            f"{name}: the volume has the axes {', '.join(v.axes)}; z, y and x are needed"
        )
    factor = _factor(v.shape[1:], max_side, name)
    thin = v if factor == 1 else downsample(v.astype("f4"), (1, factor, factor))
    planes = np.asarray(thin)
    images = _Images(name, "z", ("y", "x"), v.shape[0], planes.__getitem__, factor)
    return images.registered(model, neighbours, reference, skip, max_shift, min_quality)


@documented
def register_frames(
    movie: Volume,
    *,
    model: str = "translation",
    neighbours: int = 3,
    reference: int | None = None,
    skip: Iterable[int] = (),
    max_shift: float | None = None,
    min_quality: float = 0.3,
    max_side: int = 256,
) -> ComputedTable:
    """Find the transform of each frame that aligns it with the frames around it.

    Use it for movies that drift.

    Parameters
    ----------
    movie : Volume
        A lazy volume of one channel with an axis of time.
    model : {"translation", "rigid", "affine"}, default: "translation"
        What moves a frame: a shift, also a rotation, or also scales and shears.
    neighbours : int, default: 3
        Each frame is compared with so many frames after it.
    reference : int, optional
        The frame that stays where it is; by default one near the middle that many others match.
    skip : iterable of int, default: ()
        Frames that are not compared.
    max_shift : float, optional
        Maximum shift between two compared frames along each axis, in voxels; half of the frame by
        default.
    min_quality : float, default: 0.3
        Two frames are not linked if the correlation of their aligned voxels is lower.
    max_side : int, default: 256
        Each axis is downsampled by a whole factor until it is not longer. The error of shifts is
        about 0.05 downsampled voxels.

    Returns
    -------
    ComputedTable
        A row for each frame: ``t``; the position of its first voxel in the aligned movie ``z``,
        ``y`` and ``x``; the entries of the matrix, ``m_zz`` to ``m_xx``; ``links``, ``quality`` and
        ``residual``, as in `register_slices`. Two-dimensional frames have no columns for z.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the volume has several channels, no axis of time, or no
        voxels.
    TypeError
        If ``movie`` is neither a volume nor an array.

    See Also
    --------
    register_slices : aligns the slices of a stack.
    affine_transform : applies the inverse of a transform to a frame.

    Notes
    -----
    One sweep for each frame, which downsamples it. As many downsampled frames as there are
    neighbours are held in memory at a time.

    References
    ----------
    See `register_slices`.

    Examples
    --------
    >>> from scipy import ndimage
    >>> rng = np.random.default_rng(0)
    >>> film = ndimage.gaussian_filter(rng.normal(size=(80, 90)), 2).astype("f4")
    >>> frames = [film[8:72, 8 + x : 72 + x] for x in (0, 3, 1)]
    >>> movie = bv.open(np.stack(frames), axes="tyx")
    >>> table = bv.register_frames(movie, reference=0)
    >>> [round(x, 1) + 0.0 for x in table["x"].to_pylist()]
    [0.0, 3.0, 1.0]
    """
    name = "register_frames"
    v = refuse_empty(one_channel(as_volume(movie)), name)
    if not v.space.times:
        raise ValueError(
            f"{name}: the volume has the axes {', '.join(v.axes)}, and no axis of time; "
            "use register_slices for slices along z"
        )
    factor = _factor(v.shape[1:], max_side, name)

    def frame(t: int) -> np.ndarray:
        return np.asarray(downsample(v[t].astype("f4"), factor))

    images = _Images(name, "t", v.space.axes, v.shape[0], frame, factor)
    return images.registered(model, neighbours, reference, skip, max_shift, min_quality)


def _factor(shape: Sequence[int], max_side: int, name: str) -> int:
    return -(-max(shape) // par.whole_number(max_side, "max_side", name, 16))


@dataclass(frozen=True)
class _Images:
    """Images along an axis, each downsampled by a factor when it is requested."""

    name: str
    along: str
    axes: tuple[str, ...]
    count: int
    image: Callable[[int], np.ndarray]
    factor: int

    def registered(
        self,
        model: str,
        neighbours: int,
        reference: int | None,
        skip: Iterable[int],
        max_shift: float | None,
        min_quality: float,
    ) -> ComputedTable:
        if model not in MODELS:
            raise ValueError(
                f"{self.name}: model={model!r} is not offered; use one of {', '.join(MODELS)}"
            )
        reach = par.whole_number(neighbours, "neighbours", self.name)
        skipped = {self._one(k, "skip") for k in skip}
        fixed = None if reference is None else self._one(reference, "reference")
        limit = None if max_shift is None else par.positive(max_shift, "max_shift", self.name)
        links = self._links(model, reach, skipped, limit, float(min_quality))
        solved = partial(
            placed,
            links,
            np.zeros((self.count, len(self.axes))),
            list(itertools.pairwise(range(self.count))),
            model=model,
            max_residual=_MAX_RESIDUAL,
        )
        found = solved(reference=self.count // 2 if fixed is None else fixed)
        if fixed is None:
            # A torn slice may have as many links as others, but of lower quality.
            worth = [round(sum(links[p].quality for p in ps)) for ps in found.used_by_image]
            best = max(range(self.count), key=lambda k: (worth[k], -abs(k - self.count // 2)))
            found = solved(reference=best)
        return self._table(found, links)

    def _one(self, k: Any, what: str) -> int:
        if not par.is_whole(k) or not 0 <= k < self.count:
            raise ValueError(
                f"{self.name}: {what}={k!r} is not a number from 0 to {self.count - 1} along {self.along}"
            )
        return int(k)

    def _links(
        self,
        model: str,
        reach: int,
        skipped: Collection[int],
        limit: float | None,
        min_quality: float,
    ) -> dict[tuple[int, int], Link]:
        """Return the links of images and the next ones."""
        links, before = dict[tuple[int, int], Link](), dict[int, np.ndarray]()
        for j in range(self.count):
            image = self.image(j)
            before.pop(j - reach - 1, None)
            if j in skipped or np.ptp(image) == 0:
                continue
            maximum = [n / 2 if limit is None else limit / self.factor for n in image.shape]
            points = corners((0, n - 1) for n in image.shape)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = pool.map(
                    partial(aligned, moving=image, model=model, max_shift=maximum), before.values()
                )
                links |= {
                    (i, j): replace(link, points=points)
                    for i, link in zip(before, found, strict=True)
                    if link.quality >= min_quality
                }
            before[j] = image
        return links

    def _table(self, found: Placed, links: Mapping[tuple[int, int], Link]) -> ComputedTable:
        import pyarrow

        f = self.factor
        # Index i of a downsampled image has its centre at f * i + middle.
        middle = np.full(len(self.axes), (f - 1) / 2)
        places = f * found.places + middle - found.matrices @ middle
        of_image = found.used_by_image
        columns: dict[str, Any] = {self.along: np.arange(self.count)}
        columns |= {a: places[:, n] for n, a in enumerate(self.axes)}
        columns |= matrix_columns(found.matrices, self.axes)
        columns["links"] = [len(pairs) for pairs in of_image]
        columns["quality"] = [
            float(np.mean([links[p].quality for p in pairs])) if pairs else None
            for pairs in of_image
        ]
        columns["residual"] = [
            f * max(found.residuals[p] for p in pairs) if pairs else None for pairs in of_image
        ]
        return ComputedTable(pyarrow.table(columns))
