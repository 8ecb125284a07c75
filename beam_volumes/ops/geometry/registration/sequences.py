"""Alignment of slices of a stack, and of frames of a movie."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from beam_volumes.base.text import format_bytes
from beam_volumes.graph.options import Options, reserved
from beam_volumes.graph.options import options as settings
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.geometry.registration.images import (
    MODELS,
    Link,
    Needs,
    aligned,
    check_quality,
    error_of,
    is_constant,
)
from beam_volumes.ops.geometry.registration.keypoints import SIDE, Keypoints, matched
from beam_volumes.ops.geometry.registration.links import (
    Placed,
    connected,
    corners,
    nearest_rotations,
    placed,
)
from beam_volumes.ops.geometry.registration.trends import Trend, accidental, check_trend
from beam_volumes.ops.geometry.resampling import downsample
from beam_volumes.ops.geometry.transforms import matrix_columns
from beam_volumes.ops.geometry.validity import check_mask, marked_volume, nodata_of, opened_mask
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.runs.console import shown_progress
from beam_volumes.storage.places.errors import needed

#: How the first approximation of a link is found.
METHODS = ("intensity", "keypoints")
#: Residuals of links, in downsampled voxels, that are accepted in any case.
_MAX_RESIDUAL = 1.0
#: Slices drift if squared distances of slices two apart are this much larger than between neighbours.
#: The ratio is about 1 for jitter, 2 for random walks, and 4 for straight movements.
_MAX_GROWTH = 1.5
#: The largest square of the error of a link from slice to slice, relative to the median of all.
_MAX_ERROR = 6.0
#: The least share of the errors of links that add up from slice to slice.
_MIN_GROWING = 0.1
#: Slices that are compared at once on a worker, and the maximum bytes of the downsampled ones.
_BLOCK, _MAX_BLOCK_BYTES = 16, 1 << 28

#: The links of pairs of images; None if too few keypoints match.
Links = dict[tuple[int, int], Link | None]


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
    mask: Volume | None = None,
    nodata: float | None = None,
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
        deviation of a Gaussian. ``"remove"`` only removes straight movements, which slanted
        structures cause.
    prior : array_like, table or path, optional
        Transforms with the true slow movement, such as positions of the stage or an earlier
        alignment, as accepted by `apply_transforms`. They replace the movement that ``trend``
        removes, smoothed in the same way.
    mask : Volume or numpy.ndarray, optional
        Only voxels with a nonzero mask are compared. A mask has the shape of the stack, and bool or
        integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for black parts. They are not compared.
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
        or no axes z, y and x. If the mask differs in shape, axes or voxel size. With
        ``method="keypoints"``, also if scikit-image is not installed or no two slices share
        keypoints.
    TypeError
        If ``stack`` or ``mask`` is neither a volume nor an array, or ``mask`` has floats.

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
    Links of slices that deform disagree by several voxels. Such links are only used if they agree
    better than unrelated ones would. Otherwise, these slices have no links, and are not moved.
    Groups of slices without links between them are placed so that the mean transforms on both sides
    of a gap agree. The number of slices of these means follows from the movements within groups: it
    is large if slices jitter, and small if they drift.

    Errors of links add up from slice to slice if structures change. The differences between parts
    of the planes, and their increase with the distance of slices, show how large these errors are.
    If such errors explain slow movements, they are removed, so only jitter is corrected. If this is
    uncertain, they are only removed in part; the share is the probability that errors explain them.
    Only an explicit ``reference`` is then not moved. Slow real movements that are as small are
    removed as well.

    The slow movement is a straight line with Gaussian weights around each slice, fitted to the
    centres and matrices of slices with links. Larger numbers of ``trend`` keep less jitter, and
    follow the tissue less closely. After the trend is removed, an explicit ``reference`` is not
    moved, except with ``prior``.

    Voxels outside of ``mask``, voxels with the value ``nodata``, and NaN and infinite voxels are
    missing. Correlations, shifts and the test for chance use only voxels that both slices have. All
    other values are ordinary voxels: without ``nodata``, a border of zeros is aligned as well.
    Missing voxels between valid ones are interpolated, such as scattered voxels or every third row.
    Two slices are not linked if too few common voxels remain to find fractions of voxels. A
    downsampled voxel is the mean of its valid voxels, if these are at least half. Without ``mask``
    and ``nodata``, it is missing if any voxel is. A slice without valid voxels has no link.

    References
    ----------
    C. D. Kuglin and D. C. Hines, "The phase correlation image alignment method", 1975; S. Baker and
    I. Matthews, "Lucas-Kanade 20 years on", International Journal of Computer Vision 56, 2004;
    D. G. Lowe, "Distinctive image features from scale-invariant keypoints", ibid. 60, 2004;
    D. Padfield, "Masked object registration in the Fourier domain", IEEE Transactions on Image
    Processing 21, 2012; W. S. Cleveland, "Robust locally weighted regression and smoothing
    scatterplots", Journal of the American Statistical Association 74, 1979.

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
    slices = Slices.of(
        stack,
        "register_slices",
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
    needs = _needs_of(slices.thin, slices.pairs)
    with reserved(needs.occupied):
        planes = slices.thin.compute(runner=None, progress=progress)
    return slices.pairs.registered(planes.__getitem__, needs.threads, progress)


@dataclass(frozen=True, eq=False)
class Slices:
    """A downsampled stack, and how its slices are compared."""

    thin: Volume
    pairs: ImagePairs
    chunk: int  #: Slices of a chunk of the stack

    @classmethod
    def of(
        cls,
        stack: Any,
        name: str,
        *,
        max_side: int,
        trend: str | float,
        prior: Any,
        mask: Any,
        nodata: float | None,
        **how: Any,
    ) -> Slices:
        v, factor, thin = _thin_slices(stack, max_side, mask, nodata, name)
        size = v.space.voxel_size
        spacing = np.array((size or (1.0,) * 3)[1:])
        slow = Trend.of(trend, prior, v.shape, spacing, how["model"], how["reference"], name)
        pairs = ImagePairs.of(
            name, "z", ("y", "x"), thin.shape[0], thin.shape[1:], factor, size, slow, **how
        )
        return cls(thin, pairs, (v.chunks or (1,))[0])

    @property
    def plane_bytes(self) -> int:
        """Bytes of a downsampled slice."""
        return self.thin.nbytes // self.thin.shape[0]

    def check_blocks(self) -> None:
        """Refuse blocks that a worker cannot compute as an array."""
        first, stop = self.blocks[0]
        count = min(stop - first + self.pairs.reach, self.thin.shape[0])
        limit = min(settings.max_inmemory, Options.max_inmemory)  # workers have the default
        if count * self.plane_bytes > limit:
            raise ValueError(
                f"{self.pairs.name}: a worker would hold {count} downsampled slices, "
                f"{format_bytes(count * self.plane_bytes)}, and the limit is {format_bytes(limit)}; give a "
                f"smaller neighbours= (now {self.pairs.reach}) or max_side="
            )

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of slices that are each compared at once, in whole chunks if these are small."""
        count, plane = self.thin.shape[0], self.plane_bytes
        depth = -(-_BLOCK // self.chunk) * self.chunk
        if depth * plane > _MAX_BLOCK_BYTES:
            depth = max(1, min(_BLOCK, _MAX_BLOCK_BYTES // plane))
        return [(k, min(k + depth, count)) for k in range(0, count, depth)]

    def links(self, block: tuple[int, int]) -> Links:
        """Compare each slice of a block with the next ones, also of the next block."""
        first, stop = block
        planes = np.asarray(self.thin[first : stop + self.pairs.reach])
        return self.pairs.links(lambda k: planes[k - first], range(first, stop))


def needs_of_slices(
    stack: Volume, *, prior: Any = None, pending: Collection[str] = (), **given: Any
) -> Needs:
    """Return what `register_slices` needs; ``pending`` are paths of tables that do not exist yet."""
    found = _with_defaults(register_slices, given)
    if isinstance(prior, str) and prior in pending:
        check_trend(found["trend"], prior, "register_slices")
    else:
        found["prior"] = prior
    slices = Slices.of(stack, "register_slices", **found)
    return _needs_of(slices.thin, slices.pairs)


def _with_defaults(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters of a registration except its input and progress."""
    parameters = inspect.signature(function).parameters.values()
    found = {p.name: given.get(p.name, p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}
    del found["progress"]
    return found


def _needs_of(thin: Volume, pairs: ImagePairs) -> Needs:
    if thin.nbytes > settings.max_inmemory:
        raise ValueError(
            f"register_slices: the downsampled slices have {format_bytes(thin.nbytes)}, and "
            f"options.max_inmemory is {format_bytes(settings.max_inmemory)}; give a smaller max_side=, raise "
            "this limit, or use RegisterSlices in a pipeline"
        )
    return pairs.needs(thin, 1, thin.nbytes, thin.size // thin.shape[0])


def _thin_slices(
    stack: Any, max_side: int, mask: Any, nodata: float | None, name: str
) -> tuple[Volume, int, Volume]:
    """Return a stack, the factor by which its planes are downsampled, and the result."""
    v = refuse_empty(one_channel(as_volume(stack)), name)
    if v.space.axes != ("z", "y", "x") or v.space.times:
        raise ValueError(
            f"{name}: the volume has the axes {', '.join(v.axes)}; z, y and x are needed"
        )
    factor = _factor(v.shape[1:], max_side, name)
    of_stack = None if mask is None else opened_mask(mask, name, "the stack")
    if of_stack is not None:
        check_mask(of_stack, v, name, "the stack")
    empty = nodata_of(nodata, v.dtype, name)
    return v, factor, marked_volume(v, of_stack, empty, (1, factor, factor))


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
    mask: Volume | None = None,
    nodata: float | None = None,
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
    mask : Volume or numpy.ndarray, optional
        Only voxels with a nonzero mask are compared: a mask of the shape of the movie, or of one
        frame for all frames.
    nodata : float, optional
        The value of voxels without data. They are not compared.
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
        voxels. If the mask differs in shape, axes or voxel size. With ``method="keypoints"``, also
        for the reasons listed in `register_slices`.
    TypeError
        If ``movie`` or ``mask`` is neither a volume nor an array, or ``mask`` has floats.

    See Also
    --------
    register_slices : aligns the slices of a stack.
    affine_transform : applies the inverse of a transform to a frame.

    Notes
    -----
    Rotations are in physical units, so the voxel size is needed if voxels are anisotropic.

    One sweep for each frame downsamples it. Only as many downsampled frames as there are neighbours
    are held in memory at a time. Missing voxels and slow movements are treated as in
    `register_slices`.

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
    movie_pairs = _FramePairs.of(
        movie,
        max_side=max_side,
        mask=mask,
        nodata=nodata,
        model=model,
        method=method,
        neighbours=neighbours,
        reference=reference,
        skip=skip,
        max_shift=max_shift,
        min_quality=min_quality,
    )
    needs = movie_pairs.needs

    def frame(t: int) -> np.ndarray:
        with reserved(needs.occupied):
            return np.asarray(movie_pairs.small(t))

    return movie_pairs.pairs.registered(frame, needs.threads, progress)


@dataclass(frozen=True, eq=False)
class _FramePairs:
    """A movie, and how its downsampled frames are compared."""

    movie: Volume
    mask: Volume | None
    nodata: float | None
    pairs: ImagePairs

    @classmethod
    def of(cls, movie: Any, *, max_side: int, mask: Any, nodata: Any, **how: Any) -> _FramePairs:
        name = "register_frames"
        v, factor = _frames(movie, max_side)
        of_movie, empty = _mask_of_movie(mask, v), nodata_of(nodata, v.dtype, name)
        shape = _small_frame(v, 0, factor, of_movie, empty).shape
        size = v.space.voxel_size
        pairs = ImagePairs.of(name, "t", v.space.axes, v.shape[0], shape, factor, size, **how)
        return cls(v, of_movie, empty, pairs)

    def small(self, t: int) -> Volume:
        """Return a downsampled frame."""
        return _small_frame(self.movie, t, self.pairs.factor, self.mask, self.nodata)

    @property
    def needs(self) -> Needs:
        small, count = self.small(0), self.pairs.count
        images = min(self.pairs.reach + 1, count) * small.nbytes
        return self.pairs.needs(small, count, images, small.size)


def needs_of_frames(movie: Volume, **given: Any) -> Needs:
    """Return what `register_frames` needs."""
    return _FramePairs.of(movie, **_with_defaults(register_frames, given)).needs


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


def _mask_of_movie(mask: Any, movie: Volume) -> Volume | None:
    """Return the mask of a movie, with or without an axis of time."""
    if mask is None:
        return None
    name = "register_frames"
    found = opened_mask(mask, name, "the movie")
    if found.space.times not in (0, movie.space.times):
        raise ValueError(
            f"{name}: the mask has {found.space.times} time points, and the movie {movie.space.times}; "
            "give a mask of each frame, or of one"
        )
    check_mask(found[0] if found.space.times else found, movie[0], name, "the movie")
    return found


def _small_frame(
    movie: Volume, t: int, factor: int, mask: Volume | None, nodata: float | None
) -> Volume:
    if mask is not None and mask.space.times:
        mask = mask[t]
    frame = movie[t]
    if mask is None and nodata is None:
        return downsample(frame.astype("f4"), factor)
    return marked_volume(frame, mask, nodata, (factor,) * frame.ndim)


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
        start = None
        if method == "keypoints":
            found = matched(fixed.keypoints, self.keypoints, model, spacing)
            if found is None:
                return None
            start = found, SIDE
        link = aligned(fixed.voxels, self.voxels, model, max_shift, spacing, start)
        if not link.is_refined:
            return link
        error = error_of(fixed.voxels, self.voxels, link, model, spacing)
        return replace(link, error=error)


@dataclass(frozen=True, eq=False)
class ImagePairs:
    """Images along an axis, each downsampled by a factor, and how it is compared with the next ones."""

    name: str
    along: str
    axes: tuple[str, ...]
    count: int
    shape: tuple[int, ...]  #: Of a downsampled image
    factor: int
    voxel_size: Sequence[float] | None  #: Along z, y and x
    trend: Trend | None
    model: str
    method: str
    reach: int
    reference: int | None
    skipped: frozenset[int]
    max_shift: tuple[float, ...]  #: In downsampled voxels
    min_quality: float

    @classmethod
    def of(
        cls,
        name: str,
        along: str,
        axes: tuple[str, ...],
        count: int,
        shape: tuple[int, ...],
        factor: int,
        voxel_size: Sequence[float] | None,
        trend: Trend | None = None,
        *,
        model: str,
        method: str,
        neighbours: int,
        reference: int | None,
        skip: Iterable[int],
        max_shift: float | None,
        min_quality: float,
    ) -> ImagePairs:
        if model not in MODELS:
            raise ValueError(
                f"{name}: model={model!r} is not available; use one of {', '.join(MODELS)}"
            )
        _check_method(method, model, axes, name)

        def one(k: Any, what: str) -> int:
            if not par.is_whole(k) or not 0 <= k < count:
                raise ValueError(
                    f"{name}: {what}={k!r} is not a number from 0 to {count - 1} along {along}"
                )
            return int(k)

        limit = None if max_shift is None else par.positive(max_shift, "max_shift", name)
        return cls(
            name,
            along,
            axes,
            count,
            shape,
            factor,
            voxel_size,
            trend,
            model,
            method,
            par.whole_number(neighbours, "neighbours", name),
            None if reference is None else one(reference, "reference"),
            frozenset(one(k, "skip") for k in skip),
            tuple(n / 2 if limit is None else (limit + 0.5) / factor for n in shape),
            check_quality(min_quality, name),
        )

    @property
    def spacing(self) -> np.ndarray:
        """The voxel size along the axes, relative to the smallest one."""
        size = np.array([(self.voxel_size or (1.0,) * 3)["zyx".index(a)] for a in self.axes])
        return size / size.min()

    def needs(self, sweep: Volume, sweeps: int, images: int, compared: int) -> Needs:
        """Return what the comparison of all pairs needs, given its sweeps and the size of an image."""
        used = self.count - len(self.skipped)
        pairs = sum(max(used - k, 0) for k in range(1, self.reach + 1))
        return Needs(
            sweep,
            sweeps,
            images,
            compared,
            self.reach,
            "max_side",
            model=self.model,
            ndim=len(self.axes),
            compared_in_all=pairs * compared,
            runs=sweeps,
        )

    def registered(
        self,
        image: Callable[[int], np.ndarray],
        threads: int,
        progress: bool | Callable[..., None] | None,
    ) -> ComputedTable:
        """Compare all images in this process, several pairs at a time."""
        unit = {"z": "slices", "t": "frames"}[self.along]
        with shown_progress(self.name, self.count, unit, progress) as finished:
            found = self.links(image, range(self.count), threads, finished)
        return self.solved(found)

    def links(
        self,
        image: Callable[[int], np.ndarray],
        firsts: range,
        threads: int = 1,
        finished: Callable[[], None] = lambda: None,
    ) -> Links:
        """Compare the images of a range with the next ones; ``finished`` is called after each image."""
        found, before = Links(), dict[int, _Image]()
        linked = partial(
            _Image.linked,
            model=self.model,
            method=self.method,
            max_shift=self.max_shift,
            spacing=self.spacing,
        )
        for j in range(firsts.start, min(firsts.stop + self.reach, self.count)):
            before.pop(j - self.reach - 1, None)
            voxels = None if j in self.skipped else image(j)
            if voxels is not None and not is_constant(voxels):
                keypoints = Keypoints.of(voxels) if self.method == "keypoints" else None
                moving = _Image(voxels, keypoints)
                with ThreadPoolExecutor(threads) as pool:
                    links = pool.map(partial(linked, moving), before.values())
                    found |= {(i, j): link for i, link in zip(before, links, strict=True)}
                if j in firsts:
                    before[j] = moving
            finished()
        return found

    def solved(self, found: Links) -> ComputedTable:
        """Return the table of transforms, given the link of each pair; None without common keypoints."""
        if found and not any(found.values()):
            raise ValueError(
                f'{self.name}: no two images share enough keypoints; use method="intensity", or a larger '
                "max_side= if details are lost"
            )
        points = corners((0, n - 1) for n in self.shape)
        links = {
            pair: replace(link, points=points)
            for pair, link in sorted(found.items(), key=lambda item: item[0][::-1])
            if link is not None and link.quality >= self.min_quality
        }
        solved = partial(
            placed,
            links,
            np.zeros((self.count, len(self.axes))),
            list(itertools.pairwise(range(self.count))),
            model=self.model,
            max_residual=_MAX_RESIDUAL,
            spacing=self.spacing,
            may_be_unrelated=True,
        )
        fixed = self.reference
        placement = solved(reference=self.count // 2 if fixed is None else fixed)
        if fixed is None:
            # A torn slice may have as many links as others, but of lower quality.
            worth = [round(sum(links[p].quality for p in ps)) for ps in placement.used_by_image]
            fixed = max(range(self.count), key=lambda k: (worth[k], -abs(k - self.count // 2)))
            placement = solved(reference=fixed)
        placement = self._with_joined_groups(placement, points, fixed)
        placement = self._without_accidental(placement, links)
        return self._table(_with_nearest(placement, links, fixed), links)

    def _with_joined_groups(self, found: Placed, points: np.ndarray, reference: int) -> Placed:
        """Let groups of images without links between them meet with the same mean transform.

        The jitter of two neighbours would move a whole group, and add up from group to group.
        """
        groups = connected(found.used, self.count)
        sizes = np.bincount(groups)
        order = np.flatnonzero(sizes[groups] > 1)
        parts = {k: order[groups[order] == k] for k in np.unique(groups[order]).tolist()}
        parts.pop(groups[reference], None)
        if not parts:
            return found
        matrices, places = found.matrices.copy(), found.places.copy()
        at = matrices @ points + places[:, :, None]
        width = _steadiest_width(
            [at[some] for some in (np.flatnonzero(groups == groups[reference]), *parts.values())]
        )
        scale, middle = self.spacing[:, None] / self.spacing, points.mean(axis=1)
        placed_ones = np.flatnonzero(groups == groups[reference])
        for some in sorted(parts.values(), key=lambda part: abs(np.median(part) - reference)):
            if np.median(some) < reference:
                near, end = some[-width:], some[-1]
            else:
                near, end = some[:width], some[0]
            known = placed_ones[np.argsort(abs(placed_ones - end), kind="stable")[:width]]
            turn = np.eye(len(middle))
            if self.model != "translation":
                turn = matrices[known].mean(axis=0) @ np.linalg.inv(matrices[near].mean(axis=0))
            if self.model == "rigid":
                turn = nearest_rotations((turn * scale)[None])[0] / scale
            there, here = ((matrices[k] @ middle + places[k]).mean(axis=0) for k in (known, near))
            matrices[some], places[some] = turn @ matrices[some], places[some] @ turn.T
            places[some] += there - turn @ here
            placed_ones = np.sort(np.concatenate([placed_ones, some]))
        return replace(found, matrices=matrices, places=places)

    def _without_accidental(self, found: Placed, links: Mapping[tuple[int, int], Link]) -> Placed:
        """Remove slow movements as far as they are probably errors of links that add up."""
        measured = [(j - i, e) for i, j in found.used if 0 < (e := links[i, j].error) < np.inf]
        if not measured:
            return found
        lags, errors = np.array(measured).T
        # Links of a slice with few voxels do not explain movements of all others.
        errors = np.minimum(errors, _MAX_ERROR * np.median(errors / lags) * lags)
        variance = errors.sum() / lags.sum()
        if np.ptp(lags):
            # Errors due to the deformation of each slice do not add up. Those due to structures that change
            # increase with the distance of slices.
            growth = np.polyfit(lags, errors, 1, w=lags**-2)[0]
            variance = max(growth, _MIN_GROWING * variance)
        groups = connected(found.used, self.count)
        at = np.flatnonzero(np.bincount(groups)[groups] > 1)
        shape = np.array(self.shape)
        # An axis of a single voxel has no extent.
        middle, radii = (shape - 1) / 2, np.where(shape > 1, np.sqrt((shape**2 - 1) / 12), 1.0)
        matrices, places = found.matrices[at], found.places[at]
        n = len(shape)
        columns = np.c_[(matrices * radii).reshape(-1, n * n), matrices @ middle + places]
        slow = accidental(columns, at, groups[at], variance, n)
        if slow is None:
            return found
        turns, centres = slow[:, : n * n].reshape(-1, n, n) / radii, slow[:, n * n :]
        if self.model == "translation":
            turns = np.broadcast_to(np.eye(n), turns.shape)
        if self.model == "rigid":
            scale = self.spacing[:, None] / self.spacing
            turns = nearest_rotations(turns * scale) / scale
        matrices = np.linalg.solve(turns, matrices)
        places = np.linalg.solve(turns, (places - centres)[:, :, None])[:, :, 0] + middle
        if len(still := np.flatnonzero(at == self.reference)):
            back = np.linalg.inv(matrices[still[0]])
            places = (places - places[still[0]]) @ back.T
            matrices = back @ matrices
        every, moved = found.matrices.copy(), found.places.copy()
        every[at], moved[at] = matrices, places
        return replace(found, matrices=every, places=moved)

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


def _steadiest_width(paths: Sequence[np.ndarray]) -> int:
    """Return the number of images that makes means before and after a gap differ least.

    ``paths`` are positions of points in successive images, (images, axes, points). The number is large for
    images that jitter, and 1 for images that drift.
    """
    best, smallest, width = 1, math.inf, 0
    longest = max(map(len, paths)) // 2
    while width < longest:
        width = min(max(width + 1, width * 5 // 4), longest)
        squares = []
        for path in paths:
            if len(path) < 2 * width:
                continue
            sums = np.concatenate([np.zeros((1, *path.shape[1:])), np.cumsum(path, axis=0)])
            means = (sums[width:] - sums[:-width]) / width
            squares.append(((means[width:] - means[:-width]) ** 2).mean(axis=(1, 2)))
        if (mean := float(np.concatenate(squares).mean())) < smallest:
            best, smallest = width, mean
    if best < longest or (longest == 1 and _is_drifting(paths)):
        return best
    # Means of more images might differ even less: these are of whole groups.
    return 2 * longest + 1


def _is_drifting(paths: Sequence[np.ndarray]) -> bool:
    """Return whether images two apart differ clearly more than neighbours do."""
    near, far = (
        [((path[lag:] - path[:-lag]) ** 2).mean(axis=(1, 2)) for path in paths if len(path) > 2]
        for lag in (1, 2)
    )
    return bool(near) and np.concatenate(far).mean() > _MAX_GROWTH * np.concatenate(near).mean()


def _check_method(method: str, model: str, axes: tuple[str, ...], name: str) -> None:
    if method not in METHODS:
        raise ValueError(
            f"{name}: method={method!r} is not available; use one of {', '.join(METHODS)}"
        )
    if method == "intensity":
        return
    if model == "translation" or len(axes) != 2:
        raise ValueError(
            f'{name}: method="keypoints" finds rotations of planes; use model="rigid" or "affine" '
            'of two axes, or method="intensity"'
        )
    needed("skimage", "align", f'{name}: method="keypoints" finds keypoints')


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
    rest = np.flatnonzero(~is_linked & (np.arange(len(is_linked)) != reference))
    after = np.searchsorted(linked, rest).clip(1, max(1, len(linked) - 1))
    near, far = linked[after - 1], linked[np.minimum(after, len(linked) - 1)]
    matrices[rest] = matrices[np.where(abs(near - rest) <= abs(far - rest), near, far)]
    between = [np.interp(rest, linked, column) for column in middles[linked].T]
    places[rest] = np.stack(between, axis=1) - matrices[rest] @ middle
    return replace(found, matrices=matrices, places=places)
