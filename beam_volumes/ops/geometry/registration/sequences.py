"""Alignment of slices of a stack, and of frames of a movie."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from beam_volumes.graph.options import reserved
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.geometry.registration.images import (
    MODELS,
    Link,
    Needs,
    aligned,
    check_quality,
    is_constant,
)
from beam_volumes.ops.geometry.registration.keypoints import SIDE, Keypoints, matched
from beam_volumes.ops.geometry.registration.links import Placed, corners, placed
from beam_volumes.ops.geometry.registration.trends import Trend
from beam_volumes.ops.geometry.resampling import downsample
from beam_volumes.ops.geometry.transforms import matrix_columns
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.runs.console import shown_progress
from beam_volumes.storage.places.errors import needed

#: How the first approximation of a link is found.
METHODS = ("intensity", "keypoints")
#: Residuals of links, in downsampled voxels, that are accepted in any case.
_MAX_RESIDUAL = 1.0


@documented
def register_slices(
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
    progress: bool | Callable[..., None] | None = None,
) -> ComputedTable:
    """Find the transform that aligns each slice with its neighbours.

    Use it for serial sections and for movies that drift. `apply_transforms` applies the result to
    the whole volume.

    Parameters
    ----------
    stack : Volume or numpy.ndarray
        A volume or an array with one channel.
    model : {"translation", "rigid", "affine"}, default: "translation"
        The transformation model: translation, rigid or affine.
    method : {"intensity", "keypoints"}, default: "intensity"
        How to find the first approximation for two slices. ``"intensity"`` compares their voxels,
        and finds rotations of up to 30 degrees. ``"keypoints"`` matches SIFT keypoints from
        scikit-image, and finds any rotation if slices have distinct structures. Keypoints are not
        available for ``model="translation"``.
    neighbours : int, default: 3
        Number of subsequent slices to compare each slice with. More than 1 bridges bad slices and
        prevents errors from adding up.
    reference : int, optional
        The slice that is not moved; by default one near the middle that matches many others.
    skip : iterable of int, default: ()
        Slices to exclude from the comparison, such as missing ones. Empty slices are detected
        automatically.
    max_shift : float, optional
        Maximum shift between the centres of two compared slices along y and x, in voxels; half of
        the plane by default. Shifts are rounded to whole voxels for this comparison.
    min_quality : float, default: 0.3
        Minimum correlation of the aligned voxels for linking two slices.
    max_side : int, default: 1024
        Maximum extent of the compared planes: larger ones are downsampled by an integer factor. The
        error of shifts is about 0.05 downsampled voxels.
    trend : {"keep", "remove"} or float, default: "keep"
        What to do with slow movements of the tissue, which alignment straightens. A number removes
        them from the transforms, so only the jitter between slices is corrected: movements over
        more than about this many slices remain in the aligned volume. The number is the standard
        deviation of a Gaussian. ``"remove"`` only removes straight movements, such as those of
        slanted structures.
    prior : array_like, table or path, optional
        Transforms with the true slow movement, such as positions of the stage or an earlier
        alignment, as accepted by `apply_transforms`. They replace the movement that ``trend``
        removes, smoothed in the same way.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    ComputedTable
        A row for each slice ``z``. ``y`` and ``x`` are the position of its first voxel in the
        aligned volume, and ``m_yy``, ``m_yx``, ``m_xy`` and ``m_xx`` are the matrix that maps its
        indices. ``links`` is the number of links to other slices, and ``quality`` their mean
        quality. ``confirmed`` is true if links agree with each other on this slice. ``residual`` is
        the largest distance in voxels by which a link disagrees. A slice without links is placed
        between its neighbours, with the matrix of the nearest linked slice.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the volume has several channels, time points, no voxels,
        or no axes z, y and x. With ``method="keypoints"``, also if scikit-image is not installed or
        no two slices share keypoints.
    TypeError
        If ``stack`` is neither a volume nor an array.

    See Also
    --------
    apply_transforms : applies the result.
    register_frames : aligns the frames of a movie.
    register_tiles : finds the positions of tiles.

    Notes
    -----
    Rotations are in physical units, so the voxel size is needed if pixels are not square.

    One sweep downsamples the stack. The downsampled planes are held in memory, up to
    ``options.max_inmemory``. Pairs are aligned first by phase correlation or keypoints, and then by
    least squares of intensities. Keypoints are detected in planes that are downsampled to at most
    256 voxels a side. The model is fitted to them by RANSAC with a fixed seed. All transforms are
    solved together, without links that contradict other links. Links that may be due to chance are
    also excluded. A link is used only if unrelated slices would reach its correlation in less than
    one in a thousand cases. If no other links confirm it, the limit is one in a million.

    The slow movement is a straight line with Gaussian weights around each slice, fitted to the
    centres and matrices of slices with links. Larger numbers of ``trend`` keep less jitter, and
    follow the tissue less closely. After the trend is removed, an explicit ``reference`` is not
    moved, except with ``prior``.

    NaN and infinite voxels count as missing, and are replaced by the mean of all other voxels.
    There is no mask: zeros are ordinary voxels, so a border of zeros is aligned as well.

    References
    ----------
    C. D. Kuglin and D. C. Hines, "The phase correlation image alignment method", 1975; S. Baker and
    I. Matthews, "Lucas-Kanade 20 years on", International Journal of Computer Vision 56, 2004;
    D. G. Lowe, "Distinctive image features from scale-invariant keypoints", ibid. 60, 2004; W. S.
    Cleveland, "Robust locally weighted regression and smoothing scatterplots", Journal of the
    American Statistical Association 74, 1979.

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
    v, factor, thin = _thin_slices(stack, max_side)
    needs = needs_of_slices(v, neighbours=neighbours, max_side=max_side)
    size, count = v.space.voxel_size, v.shape[0]
    spacing = np.array((size or (1.0,) * 3)[1:])
    slow = Trend.of(trend, prior, v.shape, spacing, model, reference, name)
    with reserved(needs.occupied):
        planes = thin.compute(runner=None, progress=progress)
    images = _Images(
        name, "z", ("y", "x"), count, planes.__getitem__, factor, size, needs.threads, slow
    )
    return images.registered(
        model, method, neighbours, reference, skip, max_shift, min_quality, progress
    )


def needs_of_slices(
    stack: Volume, *, neighbours: int = 3, max_side: int = 1024, **others: Any
) -> Needs:
    """Return what `register_slices` needs."""
    v, _, thin = _thin_slices(stack, max_side)
    reach = par.whole_number(neighbours, "neighbours", "register_slices")
    return Needs(thin, 1, thin.nbytes, thin.size // v.shape[0], reach, "max_side")


def _thin_slices(stack: Volume, max_side: int) -> tuple[Volume, int, Volume]:
    """Return a stack, the factor by which its planes are downsampled, and the result."""
    name = "register_slices"
    v = refuse_empty(one_channel(as_volume(stack)), name)
    if v.space.axes != ("z", "y", "x") or v.space.times:
        raise ValueError(
            f"{name}: the volume has the axes {', '.join(v.axes)}; z, y and x are needed"
        )
    factor = _factor(v.shape[1:], max_side, name)
    return v, factor, v if factor == 1 else downsample(v.astype("f4"), (1, factor, factor))


@documented
def register_frames(
    movie: Volume,
    *,
    model: str = "translation",
    method: str = "intensity",
    neighbours: int = 3,
    reference: int | None = None,
    skip: Iterable[int] = (),
    max_shift: float | None = None,
    min_quality: float = 0.3,
    max_side: int = 256,
    progress: bool | Callable[..., None] | None = None,
) -> ComputedTable:
    """Find the transform that aligns each frame with the frames around it.

    Use it for movies that drift.

    Parameters
    ----------
    movie : Volume
        A volume with one channel and a time axis.
    model : {"translation", "rigid", "affine"}, default: "translation"
        The transformation model: translation, rigid or affine.
    method : {"intensity", "keypoints"}, default: "intensity"
        How to find the first approximation for two frames, as in `register_slices`; ``"keypoints"``
        only for two-dimensional frames.
    neighbours : int, default: 3
        Number of subsequent frames to compare each frame with.
    reference : int, optional
        The frame that is not moved; by default one near the middle that matches many others.
    skip : iterable of int, default: ()
        Frames to exclude from the comparison.
    max_shift : float, optional
        Maximum shift between two compared frames along each axis, in voxels; half of the frame by
        default.
    min_quality : float, default: 0.3
        Minimum correlation of the aligned voxels for linking two frames.
    max_side : int, default: 256
        Maximum extent of the compared frames: longer axes are downsampled by an integer factor. The
        error of shifts is about 0.05 downsampled voxels.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    ComputedTable
        A row for each frame ``t``. ``z``, ``y`` and ``x`` are the position of its first voxel in
        the aligned movie, and ``m_zz`` to ``m_xx`` are the entries of the matrix. ``links``,
        ``confirmed``, ``quality`` and ``residual`` are as in `register_slices`. Two-dimensional
        frames have no columns for z.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the volume has several channels, no time axis, or no
        voxels. With ``method="keypoints"``, also for the reasons listed in `register_slices`.
    TypeError
        If ``movie`` is neither a volume nor an array.

    See Also
    --------
    register_slices : aligns the slices of a stack.
    affine_transform : applies the inverse of a transform to a frame.

    Notes
    -----
    Rotations are in physical units, so the voxel size is needed if voxels are anisotropic.

    One sweep for each frame downsamples it. Only as many downsampled frames as there are neighbours
    are held in memory at a time. Missing voxels are treated as in `register_slices`.

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
    v, factor = _frames(movie, max_side)
    needs = needs_of_frames(v, neighbours=neighbours, max_side=max_side)

    def frame(t: int) -> np.ndarray:
        with reserved(needs.occupied):
            return np.asarray(_small_frame(v, t, factor))

    size, count = v.space.voxel_size, v.shape[0]
    images = _Images(name, "t", v.space.axes, count, frame, factor, size, needs.threads)
    return images.registered(
        model, method, neighbours, reference, skip, max_shift, min_quality, progress
    )


def needs_of_frames(
    movie: Volume, *, neighbours: int = 3, max_side: int = 256, **others: Any
) -> Needs:
    """Return what `register_frames` needs."""
    v, factor = _frames(movie, max_side)
    reach = par.whole_number(neighbours, "neighbours", "register_frames")
    small = _small_frame(v, 0, factor)
    images = min(reach + 1, v.shape[0]) * small.nbytes
    return Needs(small, v.shape[0], images, small.size, reach, "max_side")


def _frames(movie: Volume, max_side: int) -> tuple[Volume, int]:
    """Return a movie, and the factor by which its frames are downsampled."""
    name = "register_frames"
    v = refuse_empty(one_channel(as_volume(movie)), name)
    if not v.space.times:
        raise ValueError(
            f"{name}: the volume has the axes {', '.join(v.axes)}, and no axis of time; "
            "use register_slices for slices along z"
        )
    return v, _factor(v.shape[1:], max_side, name)


def _small_frame(movie: Volume, t: int, factor: int) -> Volume:
    return downsample(movie[t].astype("f4"), factor)


def _factor(shape: Sequence[int], max_side: int, name: str) -> int:
    return -(-max(shape) // par.whole_number(max_side, "max_side", name, 16))


@dataclass(frozen=True)
class _Image:
    """A downsampled image, with its keypoints if they are used."""

    voxels: np.ndarray
    keypoints: Keypoints | None

    def linked(
        self,
        fixed: _Image,
        *,
        model: str,
        method: str,
        max_shift: Sequence[float],
        spacing: np.ndarray,
    ) -> Link | None:
        """Return the link from another image; None if too few keypoints match."""
        if method == "intensity":
            return aligned(fixed.voxels, self.voxels, model, max_shift, spacing)
        start = matched(fixed.keypoints, self.keypoints, model, spacing)
        if start is None:
            return None
        return aligned(fixed.voxels, self.voxels, model, max_shift, spacing, (start, SIDE))


@dataclass(frozen=True)
class _Images:
    """Images along an axis, each downsampled by a factor when it is requested."""

    name: str
    along: str
    axes: tuple[str, ...]
    count: int
    image: Callable[[int], np.ndarray]
    factor: int
    voxel_size: Sequence[float] | None  #: Along z, y and x
    threads: int  #: The number of pairs that are compared at a time
    trend: Trend | None = None

    @property
    def spacing(self) -> np.ndarray:
        """The voxel size along the axes, relative to the smallest one."""
        size = np.array([(self.voxel_size or (1.0,) * 3)["zyx".index(a)] for a in self.axes])
        return size / size.min()

    def registered(
        self,
        model: str,
        method: str,
        neighbours: int,
        reference: int | None,
        skip: Iterable[int],
        max_shift: float | None,
        min_quality: float,
        progress: bool | Callable[..., None] | None,
    ) -> ComputedTable:
        if model not in MODELS:
            raise ValueError(
                f"{self.name}: model={model!r} is not available; use one of {', '.join(MODELS)}"
            )
        self._check_method(method, model)
        reach = par.whole_number(neighbours, "neighbours", self.name)
        skipped = {self._one(k, "skip") for k in skip}
        fixed = None if reference is None else self._one(reference, "reference")
        limit = None if max_shift is None else par.positive(max_shift, "max_shift", self.name)
        quality = check_quality(min_quality, self.name)
        unit = {"z": "slices", "t": "frames"}[self.along]
        with shown_progress(self.name, self.count, unit, progress) as finished:
            links = self._links(model, method, reach, skipped, limit, quality, finished)
        solved = partial(
            placed,
            links,
            np.zeros((self.count, len(self.axes))),
            list(itertools.pairwise(range(self.count))),
            model=model,
            max_residual=_MAX_RESIDUAL,
            spacing=self.spacing,
        )
        found = solved(reference=self.count // 2 if fixed is None else fixed)
        if fixed is None:
            # A torn slice may have as many links as others, but of lower quality.
            worth = [round(sum(links[p].quality for p in ps)) for ps in found.used_by_image]
            fixed = max(range(self.count), key=lambda k: (worth[k], -abs(k - self.count // 2)))
            found = solved(reference=fixed)
        return self._table(_with_nearest(found, links, fixed), links)

    def _one(self, k: Any, what: str) -> int:
        if not par.is_whole(k) or not 0 <= k < self.count:
            raise ValueError(
                f"{self.name}: {what}={k!r} is not a number from 0 to {self.count - 1} along {self.along}"
            )
        return int(k)

    def _check_method(self, method: str, model: str) -> None:
        if method not in METHODS:
            raise ValueError(
                f"{self.name}: method={method!r} is not available; use one of {', '.join(METHODS)}"
            )
        if method == "intensity":
            return
        if model == "translation" or len(self.axes) != 2:
            raise ValueError(
                f'{self.name}: method="keypoints" finds rotations of planes; use model="rigid" or "affine" '
                'of two axes, or method="intensity"'
            )
        needed("skimage", "align", f'{self.name}: method="keypoints" finds keypoints')

    def _links(
        self,
        model: str,
        method: str,
        reach: int,
        skipped: Collection[int],
        limit: float | None,
        min_quality: float,
        finished: Callable[[], None],
    ) -> dict[tuple[int, int], Link]:
        """Return the links of images and the next ones; ``finished`` is called after each image."""
        links, before = dict[tuple[int, int], Link](), dict[int, _Image]()
        pairs = matches = 0
        for j in range(self.count):
            before.pop(j - reach - 1, None)
            voxels = None if j in skipped else self.image(j)
            if voxels is None or is_constant(voxels):
                finished()
                continue
            image = _Image(voxels, Keypoints.of(voxels) if method == "keypoints" else None)
            maximum = [
                n / 2 if limit is None else (limit + 0.5) / self.factor for n in voxels.shape
            ]
            points = corners((0, n - 1) for n in voxels.shape)
            linked = partial(
                image.linked, model=model, method=method, max_shift=maximum, spacing=self.spacing
            )
            with ThreadPoolExecutor(self.threads) as pool:
                found = [*zip(before, pool.map(linked, before.values()), strict=True)]
            pairs, matches = (
                pairs + len(found),
                matches + sum(link is not None for _, link in found),
            )
            links |= {
                (i, j): replace(link, points=points)
                for i, link in found
                if link is not None and link.quality >= min_quality
            }
            before[j] = image
            finished()
        if pairs and not matches:
            raise ValueError(
                f'{self.name}: no two images share enough keypoints; use method="intensity", or a larger '
                "max_side= if details are lost"
            )
        return links

    def _table(self, found: Placed, links: Mapping[tuple[int, int], Link]) -> ComputedTable:
        import pyarrow

        f = self.factor
        # Index i of a downsampled image has its centre at f * i + middle.
        middle = np.full(len(self.axes), (f - 1) / 2)
        places = f * found.places + middle - found.matrices @ middle
        of_image, matrices = found.used_by_image, found.matrices
        if self.trend is not None:
            matrices, places = self.trend.replaced(
                (matrices, places), np.array([*map(bool, of_image)])
            )
        columns: dict[str, Any] = {self.along: np.arange(self.count)}
        columns |= {a: places[:, n] for n, a in enumerate(self.axes)}
        columns |= matrix_columns(matrices, self.axes)
        columns["links"] = [len(pairs) for pairs in of_image]
        columns["confirmed"] = found.confirmed_images
        columns["quality"] = [
            float(np.mean([links[p].quality for p in pairs])) if pairs else None
            for pairs in of_image
        ]
        columns["residual"] = [
            f * max(found.residuals[p] for p in pairs) if pairs else None for pairs in of_image
        ]
        return ComputedTable(pyarrow.table(columns))


def _with_nearest(found: Placed, links: Mapping[tuple[int, int], Link], reference: int) -> Placed:
    """Let images without links have the matrix of the nearest image with links.

    Their middle is between its neighbours; a mean of opposite rotations is not a rotation.
    """
    is_linked = np.array([bool(pairs) for pairs in found.used_by_image])
    linked = np.flatnonzero(is_linked)
    if not len(linked):
        return found
    middle = links[found.used[0]].points.mean(axis=1)
    middles = found.matrices @ middle + found.places
    matrices, places = found.matrices.copy(), found.places.copy()
    for k in set(np.flatnonzero(~is_linked).tolist()) - {reference}:
        matrices[k] = matrices[linked[abs(linked - k).argmin()]]
        between = [np.interp(k, linked, column) for column in middles[linked].T]
        places[k] = between - matrices[k] @ middle
    return replace(found, matrices=matrices, places=places)
