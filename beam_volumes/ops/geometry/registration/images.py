"""Registration of two arrays in memory: phase correlation, and refinement by least squares."""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.fft
import scipy.special
from scipy import ndimage

from beam_volumes.base.geometry import pad_index
from beam_volumes.graph.options import memory_limit
from beam_volumes.graph.volume import Volume

#: The models of transforms.
MODELS = ("translation", "rigid", "affine")
#: The coarsest level has no longer side.
_COARSEST = 64
#: Rotations of planes that are tried on it, in degrees.
_ROTATIONS = (0, 6, -6, 12, -12, 18, -18, 24, -24, 30, -30)
#: Peaks of the phase correlation that are compared by the correlation of the overlap.
_PEAKS = 5
#: Standard deviation of smoothing before refinement, in voxels.
_SMOOTHING = 1.0
#: Displacement of a corner, in voxels, below which refinement has converged.
_CONVERGED = 1e-3
#: The same for levels that only give the start of the next one.
_CONVERGED_COARSE = 0.05
_MAX_STEPS = 30
#: Displacement of a corner, in voxels, from which a step of refinement has not found the optimum.
_UNSETTLED = 0.1
#: Voxels at the edges that are not compared, since smoothing changes them.
_EDGE = 1
#: Voxels at the edges that are not compared if small differences of residuals decide.
_SMOOTH_EDGE = 2
#: Voxels of an overlap along an axis up to which slopes are of the interpolation, and not differences.
_THIN = 2
#: The share of the weights of smoothing that valid voxels must have, for a missing voxel to be interpolated,
#: and for a valid voxel to be compared after smoothing. At a straight border it is 0.31 and 0.69.
_MIN_FILLED, _MIN_VALID = 0.45, 0.9
#: Steps of the interpolation of missing voxels.
_FILL_STEPS = 6
#: The least share of noise that is expected in the voxels of an overlap.
_MIN_NOISE = 1e-3
#: The deviation of the Gaussian with which structures are compared in all directions, in voxels.
_SMOOTH = 2.0
#: The share of valid voxels around a voxel from which its slopes count, relative to the median.
_INNER = 0.95
#: The part of an overlap without which a link must hold: the least share of the longest side, and of the
#: scale of structures: 1.4 deviations of a Gaussian spot.
_LEFT_OUT = 0.25
_LEFT_OUT_SCALES = 5.0
#: The minimum share of the smaller array that must overlap.
MIN_OVERLAP = 0.25
#: The parameters s with which chances are bounded in `evidence_of`; any s gives a bound.
_SLOPES = np.geomspace(1e-3, 1e3, 100)
#: The evidence that a link needs if a loop of links confirms it: a chance of less than one in a thousand.
MIN_EVIDENCE = 7.0
#: The evidence that a link needs if nothing confirms it: a chance of less than one in a million.
MIN_ALONE = 14.0
#: The maximum evidence of links of images that repeat, unless other periods were compared: loops must confirm
#: these links.
_MAX_PERIODIC = MIN_ALONE - 1.0
#: The evidence of a placement that is a rival: a chance of less than 1 %.
_MIN_RIVAL = 5.0
#: A placement with a larger share of the best score is a rival, even if it may be chance itself.
_SIMILAR = 0.8
#: A placement with a smaller share of the best correlation is no rival, even if voxels do not exclude it.
_UNIQUE = 0.5
#: Other placements with which the best one is compared.
_RIVALS = 3
#: Lags by which an array is moved to find its periods; of more lags, it is only known if they are periods.
_LAGS, _MAX_LAGS = 12, 400
#: The largest share of an array by which it is moved to find its periods.
_MAX_LAG = 0.9
#: Voxels between two shifts that are different placements, and not one peak of the correlation.
_MIN_SEPARATION = 3
#: The share of the smaller array, relative to the start's minimum, that must overlap after refinement.
_MIN_REFINED = 0.5
#: Bytes per voxel of the larger array while two arrays are aligned, and per voxel of a block, as measured.
_BYTES, _BLOCK_BYTES = 128, 320
#: Rough nanoseconds of one core for each voxel of two images that are aligned, in planes and in volumes, and
#: what overlaps of tiles need in addition: phase correlation at their full size.
COSTS = {"translation": (500, 550), "rigid": (800, 1900), "affine": (850, 4000)}
_OVERLAP_COST = 600
#: Rough nanoseconds of one core for each slice of tiles, of any size.
_PLANE_COST = 3_000_000
#: Voxels per block of sums.
_BLOCK = 1 << 16
#: Parts of an image, along its first and its last axis, with independent errors of intensities.
_PARTS = 4


@dataclass(frozen=True)
class Link:
    """A map from indices of one array to indices of another: ``matrix @ index + offset``."""

    matrix: np.ndarray
    offset: np.ndarray
    quality: float  #: The correlation of the voxels of the overlap, from -1 to 1
    voxels: float = 1.0  #: The number of compared voxels
    #: The logarithm of how improbable such a link is by chance; see `evidence_of`
    evidence: float = -math.inf
    contrast: float = 1.0  #: The range of values, the smaller one of both arrays
    is_refined: bool = False  #: Whether fractions of voxels were found
    error: float = 0.0  #: The expected square of the error of a position, see `error_of`
    #: Index of the first array at the strongest structure of both, of a link that may be chance
    feature: np.ndarray | None = None
    #: Whether each array has valid voxels
    has_voxels: tuple[bool, bool] = (True, True)
    #: Indices of the first array at which links are compared with each other, (axes, points)
    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def shifted(cls, shift: np.ndarray, quality: float, voxels: float = 1.0) -> Link:
        """Return the link to an array with its first voxel at ``shift``."""
        return cls(np.eye(len(shift)), -np.asarray(shift, np.float64), quality, voxels)

    @property
    def weight(self) -> float:
        """The weight of the link among others: the inverse of its expected error.

        The error decreases with the root of the voxels, and of the ratio of signal and noise.
        """
        quality = max(self.quality, 0.01)
        return math.sqrt(self.voxels * quality / (1 + _MIN_NOISE - quality))

    @property
    def is_finite(self) -> bool:
        """Whether the map and its quality are numbers."""
        numbers = (*self.matrix.ravel(), *self.offset, self.quality, self.voxels)
        return bool(np.isfinite(numbers).all()) and not math.isnan(self.evidence)

    @property
    def shift(self) -> np.ndarray:
        """The position of the other array's first voxel, if the link is a translation."""
        return -self.offset

    @property
    def ends(self) -> np.ndarray:
        """The points in the other array."""
        return self.matrix @ self.points + self.offset[:, None]

    def shift_at(self, index: np.ndarray) -> np.ndarray:
        """Return the difference of an index and its index in the other array."""
        return self.shift - (self.matrix - np.eye(len(index))) @ index


@dataclass(frozen=True)
class Needs:
    """What a registration reads, and the bytes that it needs in addition to its process."""

    sweep: Volume | None  #: The largest volume that it computes in a sweep
    sweeps: float  #: The number of such sweeps
    images: int  #: Bytes of all images in memory
    compared: int  #: Voxels of an image that is compared
    pairs: int  #: Maximum number of pairs to compare at a time
    remedy: str  #: The parameter by which it needs less
    is_interleaved: bool = False  #: Whether images are compared while others are read
    model: str = "translation"
    ndim: int = 2  #: Axes of an image
    compared_in_all: int = 0  #: Voxels of all pairs
    runs: int = 1  #: The number of sweeps of any size
    planes: tuple[int, int] = (0, 0)  #: Slices that are compared afterwards, and their voxels
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)

    @property
    def pair(self) -> int:
        """Bytes in which two images are aligned; ``images`` has them, unless each pair has its own."""
        return _bytes(self.compared) + (16 * self.compared if self.is_interleaved else 0)

    @property
    def threads(self) -> int:
        """The number of pairs that are compared at a time, in the memory of a recipe."""
        count, limit = min(self.cores, self.pairs), memory_limit.get()
        if limit is not None:
            count = min(count, (limit.total - limit.base - self.images) // max(self.pair, 1))
        return max(count, 1)

    @property
    def nanoseconds(self) -> int:
        """Rough nanoseconds of one core to compare all pairs."""
        cost = COSTS[self.model][self.ndim > 2] + (_OVERLAP_COST if self.is_interleaved else 0)
        count, voxels = self.planes
        of_planes = (COSTS["translation"][0] + _OVERLAP_COST) * voxels + _PLANE_COST * count
        return cost * self.compared_in_all + of_planes

    @property
    def occupied(self) -> int:
        """Bytes that a sweep leaves for images, and for comparisons meanwhile."""
        return self.images + (self.threads * self.pair if self.is_interleaved else 0)


def _bytes(voxels: int) -> int:
    """Return the bytes in which two arrays of so many voxels are aligned."""
    return _BYTES * voxels + _BLOCK_BYTES * min(voxels, _BLOCK)


def check_quality(min_quality: float, name: str) -> float:
    """Return the minimum of the correlation of two images."""
    if not -1 <= min_quality <= 1:
        raise ValueError(
            f"{name}: min_quality={min_quality!r} is not a correlation, a number from -1 to 1"
        )
    return float(min_quality)


def aligned(
    fixed: np.ndarray,
    moving: np.ndarray,
    model: str,
    max_shift: Sequence[float],
    spacing: np.ndarray,
    start: tuple[Link, int] | None = None,
    *,
    rotations: Sequence[float] = _ROTATIONS,
) -> Link:
    """Find the transform of two arrays: from coarse to fine, over levels of half the extent each.

    ``max_shift`` is for the middle, along each axis; ``start`` is a link and the longest side of its level.
    ``rotations``, in degrees, are tried in planes.
    """
    side = _COARSEST if start is None else start[1]
    levels = [(marked(fixed), marked(moving))]
    while is_longer(levels[-1][0], side):
        levels.append((halved(levels[-1][0]), halved(levels[-1][1])))
    if start is not None:
        link, rivalry = start[0], 0.0
    else:
        limits = _limits(max_shift, len(levels))
        link, rivals = _start(*levels[-1], model, limits, spacing, rotations)
        rivalry = rivals.share()
    for level, (near, far) in enumerate(reversed(levels)):
        if level:
            # Index i of a level contains indices 2 i and 2 i + 1 of the next one.
            offset = 2 * link.offset + 0.5 - link.matrix @ np.full(near.ndim, 0.5)
            link = Link(link.matrix, offset, -1.0)
        limits = _limits(max_shift, len(levels) - level)
        converged = _CONVERGED_COARSE if level < len(levels) - 1 else _CONVERGED
        link = refined(near, far, link, model, spacing, limits, converged=converged)
    if not link.is_refined:
        return link
    return with_evidence(*levels[0], link, max_shift, rivalry=rivalry, model=model)


def _limits(max_shift: Sequence[float], level: int) -> list[float]:
    """Return the maximum shift in voxels of a level; 1 is the finest one."""
    return [m * 2.0 ** (1 - level) + (level > 1) for m in max_shift]


def is_longer(array: np.ndarray, side: int) -> bool:
    """Whether an array needs a coarser level, for a limit of its longest side."""
    return max(array.shape) > side and min(array.shape) > 1


def halved(array: np.ndarray) -> np.ndarray:
    """Return means of 2 voxels along each axis, without NaN; an odd last voxel is dropped."""
    for axis, n in enumerate(array.shape):
        pairs = array.take(range(n // 2 * 2), axis)
        first, second = (pairs[(slice(None),) * axis + (slice(k, None, 2),)] for k in (0, 1))
        array = (first + second) / 2
        if (missing := np.isnan(array)).any():
            array[missing] = np.fmax(first[missing], second[missing])
    return array


def _start(
    fixed: np.ndarray,
    moving: np.ndarray,
    model: str,
    max_shift: Sequence[float],
    spacing: np.ndarray,
    rotations: Sequence[float],
) -> tuple[Link, Rivals]:
    """Find the shift of the coarsest level; in planes, also the best of some rotations."""
    if model == "translation" or fixed.ndim != 2 or len(rotations) < 2:
        return translation(fixed, moving, max_shift)
    middle = (np.array(moving.shape) - 1) / 2
    found = []
    for angle in np.radians(rotations):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        turn = turn * spacing / spacing[:, None]
        back = middle - turn @ middle
        turned = ndimage.affine_transform(moving, turn, back, order=1, mode="nearest")
        link, rivals = translation(fixed, turned, max_shift)
        found.append((replace(link, matrix=turn, offset=turn @ link.offset + back), rivals))
    return max(found, key=lambda each: each[0].quality)


def translation(
    fixed: np.ndarray,
    moving: np.ndarray,
    max_shift: Sequence[float],
    *,
    expected: Sequence[float] | None = None,
    min_overlap: float = MIN_OVERLAP,
) -> tuple[Link, Rivals]:
    """Find the shift of ``moving`` relative to ``fixed``, in whole voxels, and the strongest others.

    Shifts are peaks of the phase correlation.
    """
    # Scores are roots of the evidence. ``max_shift`` is the maximum difference from the ``expected`` shift
    # along each axis; ``min_overlap`` is a fraction of the valid voxels of the array that has fewer of them.
    shape = [
        scipy.fft.next_fast_len(max(n, m), real=True)
        for n, m in zip(fixed.shape, moving.shape, strict=True)
    ]
    spectrum = scipy.fft.rfftn(_windowed(cleaned(fixed)), shape)
    spectrum *= scipy.fft.rfftn(_windowed(cleaned(moving)), shape).conj()
    magnitude = abs(spectrum)
    spectrum /= np.where(magnitude > 1e-6 * magnitude.max(), magnitude, np.inf)
    phases = ndimage.gaussian_filter(scipy.fft.irfftn(spectrum, shape), 0.7, mode="wrap")
    # Structures that repeat, or are inverted, are in few coefficients: phases alone do not show them.
    products = scipy.fft.irfftn(spectrum * np.sqrt(magnitude), shape)
    minimum = max(1.0, min_overlap * min(_valid_size(fixed), _valid_size(moving)))
    middle = np.zeros(fixed.ndim) if expected is None else np.asarray(expected)
    boxes = {
        shift: _overlap(fixed.shape, moving.shape, shift)
        for surface in (phases, products, -products)
        for shift in _peaks(surface, middle, np.maximum(max_shift, 0.5).tolist())
    }
    qualities = {
        shift: _correlation(fixed[near], moving[far])
        for shift, (near, far) in boxes.items()
        if fixed[near].size >= minimum
    }
    qualities = {shift: found for shift, found in qualities.items() if found[1] >= minimum}
    if not qualities:
        return Link.shifted(np.zeros(fixed.ndim), -1.0), Rivals(fixed, moving, max_shift)

    def evidence(shift: tuple[int, ...]) -> float:
        """Return the information that the voxels have in common."""
        quality, voxels = qualities[shift]
        return -voxels * math.log(1 + _MIN_NOISE - quality**2)

    best = max(qualities, key=lambda shift: math.copysign(evidence(shift), qualities[shift][0]))
    distant = [s for s in qualities if max(abs(np.subtract(s, best))) > _MIN_SEPARATION]
    distant = sorted(distant, key=evidence)
    compared = [boxes[s] for s in (best, *distant[-_RIVALS:])]
    rivals = [s for s in distant if qualities[s][0] > 0][-_RIVALS:]
    others = [Link.shifted(np.array(s), *qualities[s]) for s in rivals]
    link = Link.shifted(np.array(best), *qualities[best])
    return link, Rivals(fixed, moving, max_shift, compared, others)


@dataclass(frozen=True)
class Rivals:
    """Other shifts of two arrays that match almost as well as the best one."""

    fixed: np.ndarray
    moving: np.ndarray
    max_shift: Sequence[float]
    #: Boxes of both arrays, of the best shift and then of others
    boxes: Sequence[tuple[tuple[slice, ...], tuple[slice, ...]]] = ()
    links: Sequence[Link] = ()  #: Other shifts with a positive correlation

    def share(self) -> float:
        """Return the highest score of other overlaps that are rivals, as a share of the first one's."""
        if not self.boxes:
            return math.inf
        variances = _variances(self.fixed, self.moving)
        own, *others = (
            _evidence_of_valid(self.fixed[near], self.moving[far], variances)
            for near, far in self.boxes
        )
        significant = _tried(self.max_shift) + _MIN_RIVAL
        shares = [(e, math.sqrt(abs(e) / max(own, 1e-9))) for e in others]
        rivals = [share for e, share in shares if abs(e) > significant or share > _SIMILAR]
        return max(rivals, default=0.0)


def matched(
    fixed: np.ndarray,
    moving: np.ndarray,
    model: str,
    spacing: np.ndarray,
    max_shift: Sequence[float],
    expected: np.ndarray,
    min_overlap: float,
    *,
    has_fractions: bool = True,
) -> Link:
    """Find the transform of two arrays at their full size, with its evidence.

    Without ``has_fractions``, a link also has evidence if no fractions of voxels are found.
    """
    start, rivals = translation(
        fixed, moving, max_shift, expected=expected.tolist(), min_overlap=min_overlap
    )

    def improved(link: Link) -> Link:
        return refined(
            fixed,
            moving,
            link,
            model,
            spacing,
            max_shift,
            expected=expected,
            min_overlap=min_overlap,
        )

    def with_its_evidence(link: Link, rivalry: float) -> Link:
        if has_fractions and not link.is_refined:
            return link
        return with_evidence(
            fixed, moving, link, max_shift, rivalry=rivalry, model=model, expected=expected
        )

    link = improved(start)
    found = with_its_evidence(link, rivals.share())
    # Where an image repeats, a shift may be wrong by a period without any other peak within ``max_shift``.
    # Errors by periods are alike in many links, so that loops of links that may be chance close.
    repeats, is_periodic, are_all = _repeats(fixed, moving, link, max_shift, expected)
    if not repeats and (found.evidence > -math.inf or not rivals.links):
        if is_periodic:  # along one axis, and perhaps along others by more than is seen of them
            return replace(found, evidence=min(found.evidence, _MAX_PERIODIC), feature=None)
        return found
    # Scores of whole voxels do not show which shift is right. Fractions of voxels do, by their residuals.
    links = [link, *map(improved, rivals.links)]
    for repeat in repeats:
        changed = improved(repeat)
        links.append(changed if changed.is_refined else repeat)
    best, against = _preferred(fixed, moving, links)
    found = with_its_evidence(best, 0.0)
    if against < MIN_EVIDENCE or is_periodic:
        found = replace(found, feature=None)
    # Loops must confirm a link if a period that was not compared may be right.
    limit = math.inf if are_all else _MAX_PERIODIC
    return replace(found, evidence=min(found.evidence, against, limit))


def _lags(
    array: np.ndarray, max_shift: Sequence[float], share: float, quality: float
) -> Iterator[tuple[int, ...]]:
    """Yield the lags by which an array repeats almost as well as a link of this quality matches.

    Lags are up to twice the maximum shift, and up to a ``share`` of the array.
    """
    whole, _ = _smoothed(array)
    reach = [min(2 * m, share * n) for m, n in zip(max_shift, whole.shape, strict=True)]
    # Zeros after the array, so that its end does not meet its start.
    shape = [
        scipy.fft.next_fast_len(n + math.ceil(r), real=True)
        for n, r in zip(whole.shape, reach, strict=True)
    ]
    power = scipy.fft.irfftn(abs(scipy.fft.rfftn(_windowed(whole), shape)) ** 2, shape)
    is_periodic = False
    for n, lag in enumerate(_peaks(power, np.zeros(whole.ndim), reach, _MAX_LAGS)):
        if n >= _LAGS and not is_periodic:
            break
        if max(map(abs, lag)) > _MIN_SEPARATION:
            a, b = _overlap(whole.shape, whole.shape, lag)
            if whole[a].size and _correlation(whole[a], whole[b])[0] >= _SIMILAR * quality:
                is_periodic = True
                yield lag


def _repeats(
    fixed: np.ndarray,
    moving: np.ndarray,
    link: Link,
    max_shift: Sequence[float],
    expected: np.ndarray,
) -> tuple[list[Link], bool, bool]:
    """Return other allowed links that match almost as well, if an array repeats, and if these are all.

    Periods are of the overlap, and of the whole first array: an overlap may be narrower than a period.
    """
    middle = (np.array(fixed.shape) - 1) / 2
    shift = link.shift_at(middle)
    near, _ = _overlap(fixed.shape, moving.shape, np.rint(shift).astype(int).tolist())
    found, known, is_periodic, are_all = list[Link](), set[tuple[int, ...]](), False, True
    for part, share in ((fixed[near], 0.5), (fixed, _MAX_LAG)):
        if not part.size or is_constant(part):
            continue
        tried = list[tuple[int, ...]]()
        for n, lag in enumerate(_lags(part, max_shift, share, link.quality)):
            is_periodic = True
            if lag in known or (abs(shift + lag - expected) > max_shift).any():
                continue
            if n >= _LAGS:  # blocks have many, also along diagonals
                distances = abs(np.array([*known, *tried, lag])[:-1] - lag).max(axis=1, initial=0)
                if (distances <= _MIN_SEPARATION).any():
                    continue
                are_all = False
                break
            tried.append(lag)
            own = refined(
                part,
                part,
                Link.shifted(np.array(lag), -1.0),
                "translation",
                np.ones(part.ndim),
                [2 * m for m in max_shift],
            )
            if own.quality >= _SIMILAR * link.quality:
                known.add(lag)
                offset = link.offset + link.matrix @ own.offset
                found.append(replace(link, offset=offset, quality=own.quality, is_refined=False))
    return found, is_periodic, are_all


def _preferred(fixed: np.ndarray, moving: np.ndarray, links: Sequence[Link]) -> tuple[Link, float]:
    """Return the link with the smallest residuals, and the evidence that all others have larger ones."""
    # Smoothing mirrors the voxels at the edges: shifts for which both mirrors agree would be preferred.
    # Linear interpolation would average noise, most at half a voxel, and would prefer such shifts.
    (near, inside), (far, valid) = (_without_edges(a) for a in (fixed, moving))
    near = np.where(inside, near, np.float32(np.nan))
    far = ndimage.spline_filter(far, 3, np.float32, mode="mirror")
    share = valid.astype(np.float32)

    def warped(link: Link) -> np.ndarray:
        found, shares = (
            ndimage.affine_transform(
                a, link.matrix, link.offset, near.shape, order=order, prefilter=False
            )
            for a, order in ((far, 3), (share, 1))
        )
        return np.where(shares > 1 - _MIN_NOISE, found, np.float32(np.nan))

    best, image = links[0], warped(links[0])
    for other in links[1:]:
        if other.is_refined < best.is_refined:
            continue
        image_of_other = warped(other)
        if other.is_refined > best.is_refined or _preference(near, image_of_other, image) > 0:
            best, image = other, image_of_other
    middle = (np.array(fixed.shape) - 1) / 2
    at = best.shift_at(middle)
    others = [o for o in links if max(abs(o.shift_at(middle) - at)) > _MIN_SEPARATION]
    against = min((_preference(near, image, warped(o)) for o in others), default=math.inf)
    against -= math.log(len(links))
    if against < MIN_EVIDENCE and any(o.quality > _UNIQUE * best.quality for o in others):
        against = -math.inf
    return best, against


def _without_edges(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a smoothed array, and where it is valid and not changed by its edges."""
    smooth, valid = _smoothed(array)
    inside = np.zeros(array.shape, bool)
    edges = [min(_SMOOTH_EDGE, (n - 1) // 4) for n in array.shape]
    inside[tuple(slice(e, n - e) for e, n in zip(edges, array.shape, strict=True))] = True
    return smooth, inside if valid is None else inside & valid


def _preference(near: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """Return the evidence that one of two links leaves smaller residuals; negative for the other.

    All arrays are smoothed. Voxels that a link does not map to the moving array are NaN.
    """
    # Q. H. Vuong, "Likelihood ratio tests for model selection and non-nested hypotheses", Econometrica 57,
    # 1989. Squares of residuals are compared in blocks, because neighbours are not independent.
    inside = np.isfinite(near) & np.isfinite(one) & np.isfinite(other)
    box = ndimage.find_objects(inside.astype(np.uint8))
    if not box:
        return 0.0
    a, b, c, inside = (x[box[0]] for x in (near, one, other, inside))
    count = np.count_nonzero(inside)
    a, b, c = (np.where(inside, x, 0).astype(np.float64) for x in (a, b, c))
    a, b, c = ((x - x.sum() / count) * inside for x in (a, b, c))
    squares = []
    for x in (b, c):
        power = _inner(x, x)
        squares.append((a - x * (_inner(a, x) / power if power else 0.0)) ** 2)
    better = squares[1] - squares[0]
    # Errors of the interpolation differ without noise.
    if abs(better.sum()) < _MIN_NOISE * _inner(a, a):
        return 0.0
    rough = better - better.mean()
    shares = inside.astype(np.float64)
    for axis, n in enumerate(a.shape):
        change = np.diff(rough, axis=axis)
        slope = _inner(change, change)
        scale = math.sqrt(_inner(rough, rough) / slope) if slope else math.inf
        size = math.ceil(min(n, _LEFT_OUT_SCALES * scale))
        starts = np.arange(max(n // size, 1)) * size
        better, shares = (np.add.reduceat(x, starts, axis) for x in (better, shares))
    better = better[shares > 0.5 * np.median(shares)]
    if len(better) < 2:
        return 0.0
    deviation = better.std(ddof=1) / math.sqrt(len(better))
    if not deviation:
        return 0.0
    score = float(better.mean() / deviation)
    chance = float(scipy.special.stdtr(len(better) - 1, -abs(score)))
    return math.copysign(-math.log(max(chance, 1e-300)), score)


def is_constant(array: np.ndarray) -> bool:
    """Whether all finite voxels are equal, or no voxel is finite."""
    finite = np.isfinite(array)
    if not finite.all():
        array = array[finite]
    return not array.size or bool(array.min() == array.max())


def contrast_of(array: np.ndarray) -> float:
    """Return the range of the values of an array that is not constant."""
    return float(np.nanmax(array) - np.nanmin(array))


def marked(array: np.ndarray) -> np.ndarray:
    """Return the array as float32, with NaN for missing voxels; those between valid ones are interpolated.

    Otherwise the pattern of scattered or periodic missing voxels would decide which voxels are compared.
    """
    array = np.asarray(array, np.float32)
    missing = ~np.isfinite(array)
    if not missing.any():
        return array
    values, share = _filled(array, missing)
    return np.where(missing & (share < _MIN_FILLED), np.float32(np.nan), values)


def _filled(array: np.ndarray, missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an array with missing voxels interpolated, and the share of weights of others around each."""
    # H. Knutsson and C.-F. Westin, "Normalized and differential convolution", IEEE Conference on Computer
    # Vision and Pattern Recognition, 1993; A. Papoulis, "A new algorithm in spectral analysis and
    # band-limited extrapolation", IEEE Transactions on Circuits and Systems 22, 1975.
    # Missing voxels begin as weighted means of the others. Each step subtracts what a flat low-pass filter
    # removes, so that slopes continue into missing parts. Voxels far from all others begin as the mean.
    mean = np.float32(0 if missing.all() else array[~missing].mean(dtype=np.float64))
    share = ndimage.gaussian_filter((~missing).astype(np.float32), _SMOOTHING)
    values = np.where(missing, np.float32(0), array - mean)
    means = ndimage.gaussian_filter(values, _SMOOTHING)
    means /= np.where(share > 1e-3, share, np.float32(1))
    values[missing] = means[missing]
    for _ in range(_FILL_STEPS):
        rough = values - ndimage.gaussian_filter(values, _SMOOTHING)
        rough -= ndimage.gaussian_filter(rough, _SMOOTHING)
        values[missing] -= rough[missing]
    return np.where(missing, values + mean, array), share


def cleaned(array: np.ndarray) -> np.ndarray:
    """Return the array as float32; voxels that are not finite become the mean of the others.

    With a different value, the outline of missing voxels would be aligned.
    """
    array = np.asarray(array, np.float32)
    finite = np.isfinite(array)
    if finite.all():
        return array
    return np.where(
        finite, array, np.float32(array[finite].mean(dtype=np.float64) if finite.any() else 0)
    )


def _valid_size(array: np.ndarray) -> int:
    """Return the number of voxels that are not missing."""
    return array.size - int(np.count_nonzero(np.isnan(array)))


def _jointly(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return where both arrays have voxels; None if no voxel is missing."""
    missing = np.isnan(a) | np.isnan(b)
    return ~missing if missing.any() else None


def _variances(fixed: np.ndarray, moving: np.ndarray) -> tuple[float, float]:
    """Return the variances of the voxels that are not missing; squares of float32 may overflow."""
    missing = np.isnan(fixed), np.isnan(moving)
    fixed, moving = (a[~m] if m.any() else a for a, m in zip((fixed, moving), missing, strict=True))
    return float(fixed.var(dtype=np.float64)), float(moving.var(dtype=np.float64))


def _scaled(array: np.ndarray) -> np.ndarray:
    """Subtract the mean, and scale to 1."""
    result = array - array.mean(dtype=np.float64).astype(np.float32)
    result /= abs(result).max() or 1.0
    return result


def _windowed(array: np.ndarray) -> np.ndarray:
    """Scale an array, and let an eighth of each side decrease to zero."""
    result = _scaled(array)
    for axis, n in enumerate(array.shape):
        result *= _along(_taper(n).astype(np.float32), axis, array.ndim)
    return result


def _taper(n: int) -> np.ndarray:
    width = n // 8
    ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(width) + 0.5) / max(width, 1))
    return np.concatenate([ramp, np.ones(n - 2 * width), ramp[::-1]])


def _peaks(
    correlation: np.ndarray, middle: np.ndarray, reach: Sequence[float], count: int = _PEAKS
) -> Iterator[tuple[int, ...]]:
    """Yield the allowed shifts of the highest peaks, which repeat along each axis."""
    tops = ndimage.maximum_filter(correlation, 3, mode="wrap") == correlation
    for axis, (n, m, r) in enumerate(zip(correlation.shape, middle.tolist(), reach, strict=True)):
        lines = [abs(np.arange(n) + k - m) <= r for k in (0, -n)]
        tops &= _along(lines[0] | lines[1], axis, correlation.ndim)
    places = np.flatnonzero(tops)
    highest = places[np.argsort(-correlation.ravel()[places], kind="stable")[:count]]
    for place in highest:
        index = np.unravel_index(place, correlation.shape)
        options = itertools.product(
            *((int(i), int(i) - n) for i, n in zip(index, correlation.shape, strict=True))
        )
        yield from (o for o in options if (abs(np.array(o) - middle) <= reach).all())


def _overlap(
    fixed: Sequence[int], moving: Sequence[int], shift: Sequence[int]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return the common voxels in both arrays."""
    near, far = [], []
    for n, m, s in zip(fixed, moving, shift, strict=True):
        start, stop = max(0, s), max(0, s, min(n, m + s))
        near.append(slice(start, stop))
        far.append(slice(start - s, stop - s))
    return tuple(near), tuple(far)


def correlation_of(a: np.ndarray, b: np.ndarray) -> float:
    """Return Pearson's correlation; 0 if one of the arrays is constant."""
    a, b = a - a.mean(dtype=np.float64), b - b.mean(dtype=np.float64)
    norm = math.sqrt(_inner(a, a) * _inner(b, b))
    return _inner(a, b) / norm if norm > 0 else 0.0


def _inner(a: np.ndarray, b: np.ndarray) -> float:
    """Return the sum of products in this thread.

    `numpy.vdot` may use the threads of BLAS: their number changes bits, and they wait for busy cores.
    """
    return float(np.einsum("i,i->", a.ravel(), b.ravel(), dtype=np.float64))


def _correlation(a: np.ndarray, b: np.ndarray) -> tuple[float, int]:
    """Return the correlation of the voxels that both arrays have, and their number."""
    valid = _jointly(a, b)
    if valid is None:
        return correlation_of(a, b), a.size
    size = int(np.count_nonzero(valid))
    return (correlation_of(a[valid], b[valid]) if size else 0.0), size


def _evidence_of_valid(a: np.ndarray, b: np.ndarray, variances: tuple[float, float]) -> float:
    """Return the evidence of the voxels that both arrays have."""
    valid = _jointly(a, b)
    if valid is None:
        return evidence_of(a, b, variances)
    return evidence_of(np.where(valid, a, 0.0), np.where(valid, b, 0.0), variances, valid)


def evidence_of(
    a: np.ndarray,
    b: np.ndarray,
    variances: tuple[float, float],
    inside: np.ndarray | None = None,
) -> float:
    """Return the evidence that two aligned arrays show the same object; negative if one is inverted.

    ``variances`` are of the arrays of which ``a`` and ``b`` are parts; a share of them is noise.
    """
    # It is a lower bound of the negative logarithm of the probability that unrelated arrays match as well. In
    # unrelated arrays, the differences of the phases of Fourier coefficients are independent and uniform
    # (Theiler et al., "Testing for nonlinearity in time series: the method of surrogate data", Physica D 58,
    # 1992). A match is a mean direction of 0, which is the V-test of circular statistics (Greenwood and
    # Durand, "The distribution of length and components of the sum of n random unit vectors", Annals of
    # Mathematical Statistics 26, 1955). With coefficients A and B, and weights w = sqrt(|A| |B|), the mean
    # cosine is c = sum(w cos(phase difference)) / sum(w), and the effective number of coefficients is n =
    # sum(w)**2 / sum(w**2). The mean of exp(s cos(phase)) is the Bessel function I0(s), so the probability of
    # a mean cosine of c is at most exp(-n r(c)) with r(c) = max(s c - log(I0(s))) over s (Chernoff). For
    # small c, r(c) is c**2.
    #
    # Smooth, small and periodic overlaps have few coefficients. For w = |A| |B|, c would be Pearson's
    # correlation, and n half the effective number of samples of two autocorrelated processes (Clifford,
    # Richardson and Hemon, "Assessing the significance of the correlation between two spatial processes",
    # Biometrics 45, 1989). The root is halfway to phase correlation: shading is in few coefficients, and does
    # not hide the others. Both arrays are smoothed as in `refined`.
    #
    # Phases are not independent if an array has a single spot. The part of the overlap with the largest
    # product of both arrays is therefore left out: a link must also follow from the others.
    whole = np.ones(a.shape) if inside is None else inside.astype(np.float64)
    for axis, n in enumerate(a.shape):
        whole *= _along(_taper(n), axis, a.ndim)
    if not whole.any():
        return 0.0
    one, other = ((x - np.average(x, weights=whole)) * whole for x in (a, b))
    floors = [_MIN_NOISE * v * _inner(whole, whole) for v in variances]
    product, sides = _inner(one, other), []
    for axis, n in enumerate(a.shape):
        slope = _inner(np.diff(one, axis=axis), np.diff(other, axis=axis))
        scale = math.sqrt(abs(product / slope)) if slope else math.inf
        sides.append(math.ceil(min(n, max(_LEFT_OUT * max(a.shape), _LEFT_OUT_SCALES * scale))))
    shared = one * other
    for _ in range(2):  # one sum has equal maxima wherever it contains a spot
        shared = ndimage.uniform_filter(shared, sides, mode="constant")
    shared = abs(shared)
    strongest = np.unravel_index(int(shared.argmax()), shared.shape)
    bump = np.ones(())
    for axis, (n, side, at) in enumerate(zip(a.shape, sides, strongest, strict=True)):
        # The part has soft edges; they end a quarter of a side away.
        distance = (abs(np.arange(n) - at) - side / 2) / max(side / 4, 1)
        profile = 0.5 + 0.5 * np.cos(np.pi * distance.clip(0, 1)) if side < n else np.ones(n)
        bump = bump * _along(profile, axis, a.ndim)
    rest = whole * (1 - bump)
    if not rest.any():
        return 0.0
    spectra = [scipy.fft.rfftn((x - np.average(x, weights=rest)) * rest) for x in (a, b)]
    powers = [abs(s) ** 2 + f for s, f in zip(spectra, floors, strict=True)]
    # The root of |A| |B|, of smoothed arrays.
    roots = np.sqrt(np.sqrt(powers[0] * powers[1]))
    smooth = ndimage.fourier_gaussian(np.ones(roots.shape), _SMOOTHING, a.shape[-1])
    # The coefficients of a real array that the transform leaves out are equal to these.
    twice = np.full(roots.shape[-1], 2.0)
    twice[0] = 1.0
    if a.shape[-1] % 2 == 0:
        twice[-1] = 1.0
    total, squares = (float(((smooth * roots) ** n * twice).sum()) for n in (1, 2))
    if squares <= 0:
        return 0.0
    products = smooth * (spectra[0] * spectra[1].conj()).real / np.where(roots > 0, roots, np.inf)
    cosine = float((products * twice).sum()) / total
    # Half of the coefficients of a real array are free. The window correlates neighbours.
    shares = rest * rest
    spread = rest.size * float((shares * shares).sum()) / float(shares.sum()) ** 2
    count = total**2 / (2 * squares * spread)
    rates = _SLOPES * abs(cosine) - np.log(scipy.special.i0e(_SLOPES)) - _SLOPES
    return math.copysign(count * max(float(rates.max()), 0.0), cosine)


def with_evidence(
    fixed: np.ndarray,
    moving: np.ndarray,
    link: Link,
    max_shift: Sequence[float],
    *,
    rivalry: float,
    model: str,
    expected: np.ndarray | None = None,
) -> Link:
    """Return a link with its evidence, compared with the best of all chance links and with rivals.

    A link beyond ``max_shift`` has no evidence.
    """
    # The score of a placement is the root of twice its evidence, a standard normal number by chance. The
    # difference of two scores has a variance of at most 2. It must be far above chance, because other links
    # cannot confirm the placement: where an image repeats, all of them may be wrong by the same period.
    if not is_near(link, fixed.shape, max_shift, expected):
        return link
    far = ndimage.affine_transform(
        moving, link.matrix, link.offset, fixed.shape, order=1, cval=np.nan
    )
    inside = np.isfinite(far) & np.isfinite(fixed)
    box = ndimage.find_objects(inside.astype(np.uint8))
    if not box:
        return link
    near, far, inside = (x[box[0]] for x in (fixed, far, inside))
    if not _vary_along_all(near, far, inside):
        return link
    variances = _variances(fixed, moving)
    near, far = (np.where(inside, x, 0.0) for x in (near, far))
    evidence = evidence_of(near, far, variances, inside)
    by_chance = _tried(max_shift) * (1 + len(_generators(model, np.ones(near.ndim))) / near.ndim)
    against = evidence * max(1 - rivalry, 0.0) ** 2 / 2 if rivalry else math.inf
    if against < MIN_ALONE:
        return link
    feature = None
    # Loops of whole numbers often close by chance.
    if evidence - by_chance < MIN_ALONE and link.is_refined:
        shared = _where_both_vary(near, far, inside)
        strongest = np.unravel_index(int(shared.argmax()), shared.shape)
        feature = np.array(strongest) + [float(s.start) for s in box[0]]
    return replace(link, evidence=min(evidence - by_chance, against), feature=feature)


def _vary_along_all(a: np.ndarray, b: np.ndarray, inside: np.ndarray) -> bool:
    """Whether two aligned arrays vary alike in all directions; in others, noise would decide a shift."""
    # Eigenvalues of the structure tensor. Noise of both arrays is independent, and smoothing reduces it.
    axes = [axis for axis, n in enumerate(a.shape) if n > 1]
    if not axes:
        return False
    share = _smooth(inside.astype(np.float32))
    one, other = (
        _smooth(np.where(inside, x - x[inside].mean(), 0)) / np.maximum(share, 0.5) for x in (a, b)
    )
    # Oblique stripes end at borders, which would be another variation.
    counts = share >= _INNER * np.median(share[inside])
    for axis, n in enumerate(a.shape):
        width = min(math.ceil(3 * _SMOOTH), (n - 1) // 4)
        counts &= _along((np.arange(n) >= width) & (np.arange(n) < n - width), axis, a.ndim)
    tensor = np.zeros((len(axes), len(axes)))
    for row, i in zip(tensor, axes, strict=True):
        slope = np.where(counts, np.gradient(one, axis=i), 0)
        row[:] = [_inner(slope, np.gradient(other, axis=j)) for j in axes]
    squares = np.linalg.eigvalsh(tensor + tensor.T)
    return bool(squares[0] > _MIN_NOISE * squares[-1])


def _smooth(x: np.ndarray) -> np.ndarray:
    return np.asarray(ndimage.gaussian_filter(x, _SMOOTH, truncate=3.0))


def _where_both_vary(a: np.ndarray, b: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return products of the differences of both arrays from their means, smoothed."""
    one, other = (np.where(inside, x - x[inside].mean(dtype=np.float64), 0.0) for x in (a, b))
    return np.asarray(ndimage.gaussian_filter(one * other, _SMOOTHING))


def is_near(
    link: Link,
    shape: Sequence[int],
    max_shift: Sequence[float],
    expected: np.ndarray | None = None,
) -> bool:
    """Whether the middle of an array is shifted by no more than a maximum."""
    shift = link.shift_at((np.array(shape) - 1) / 2)
    distance = abs(shift - (0 if expected is None else expected))
    return bool((distance <= max_shift).all())


def _tried(max_shift: Sequence[float]) -> float:
    """Return the logarithm of the number of shifts among which the best one is selected."""
    return float(np.log(2 * np.asarray(max_shift) + 1).sum())


def _along(profile: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    return profile.reshape([-1 if a == axis else 1 for a in range(ndim)])


def refined(
    fixed: np.ndarray,
    moving: np.ndarray,
    start: Link,
    model: str,
    spacing: np.ndarray,
    max_shift: Sequence[float],
    *,
    expected: np.ndarray | None = None,
    min_overlap: float = MIN_OVERLAP,
    converged: float = _CONVERGED,
) -> Link:
    """Improve a link to a fraction of a voxel; the method of Lucas and Kanade."""
    # The sum of squared differences of the smoothed arrays is minimized by Gauss-Newton steps. Each step also
    # fits a gain and an offset of the intensities. Steps end where the shift differs by more than
    # ``max_shift`` from the ``expected`` one, or little overlaps. ``spacing`` is that of `_generators`.
    near, far, valid = _compared(fixed, moving)
    generators = _generators(model, spacing)
    centre = (np.array(fixed.shape) - 1) / 2
    corner = np.linalg.norm(centre) + 1
    matrix, place = start.matrix.copy(), start.matrix @ centre + start.offset
    best = start
    sizes = (near.size, far.size) if valid is None else map(np.count_nonzero, valid)
    inner = math.prod(1 - 2 * _edge(n) / n for n in map(min, near.shape, far.shape))
    minimum = _MIN_REFINED * min_overlap * inner * min(sizes)
    limits = [m + 0.5 for m in max_shift]  # the start is in whole voxels
    for _ in range(_MAX_STEPS):
        offset = place - matrix @ centre
        if not is_near(Link(matrix, offset, 0.0), fixed.shape, limits, expected):
            break
        found = _step(near, far, matrix, offset, centre, generators, valid)
        if found is None:
            break
        step, quality, voxels = found
        if voxels < minimum:
            break
        change = sum((s * g for s, g in zip(step, generators, strict=False)), np.zeros_like(matrix))
        move = step[len(generators) :]
        size = np.linalg.norm(change) * corner + np.linalg.norm(move)
        # Each step compares other voxels, so the quality may decrease on the way.
        is_settled = bool(size < _UNSETTLED)
        if is_settled > best.is_refined or quality > best.quality or size < converged:
            best = Link(matrix, offset, quality, voxels, is_refined=is_settled)
        if size < converged or size > corner:
            break
        matrix, place = _exponential(change) @ matrix, place + move
    return start if best.quality < start.quality - 0.05 else best


def _compared(
    fixed: np.ndarray, moving: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[np.ndarray] | None]:
    """Return a smoothed array, splines of the other one, and valid voxels of both; None if all are."""
    near, near_valid = _smoothed(fixed)
    far, far_valid = _smoothed(moving)
    far = ndimage.spline_filter(far, 3, np.float32, mode="mirror")
    if near_valid is None and far_valid is None:
        return near, far, None
    both = ((near, near_valid), (far, far_valid))
    return near, far, [np.ones(a.shape, bool) if v is None else v for a, v in both]


def _smoothed(array: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return a scaled and smoothed array, and which voxels of it are valid; None if all are."""
    missing = np.isnan(array)
    scaled = _scaled(cleaned(array))
    if not missing.any():
        return ndimage.gaussian_filter(scaled, _SMOOTHING), None
    values, share = _filled(scaled, missing)
    return ndimage.gaussian_filter(values, _SMOOTHING), ~missing & (share >= _MIN_VALID)


def _exponential(change: np.ndarray) -> np.ndarray:
    """Return the exponential of a small matrix: its series, of a part of it that is squared again.

    `scipy.linalg.expm` needs longer than all other work of a step.
    """
    halvings = max(0, math.ceil(math.log2(max(float(abs(change).sum()), 1e-9))) + 4)
    part = change / 2.0**halvings
    result = term = np.eye(len(change))
    for n in range(1, 9):
        term = term @ part / n
        result = result + term
    return np.linalg.matrix_power(result, 2**halvings)


def _generators(model: str, spacing: np.ndarray) -> list[np.ndarray]:
    """Return the matrices that generate the linear part of a model, for indices of voxels.

    ``spacing`` is the voxel size, or the matrix that maps indices to positions in a unit of length.
    """
    ndim = len(spacing)
    units = []
    for a, b in itertools.product(range(ndim), repeat=2):
        unit = np.zeros((ndim, ndim))
        unit[a, b] = 1.0
        if model == "affine":
            units.append(unit)
        elif model == "rigid" and a < b:
            turn = unit - unit.T
            if spacing.ndim == 1:
                units.append(turn * spacing / spacing[:, None])
            else:
                units.append(np.linalg.solve(spacing, turn @ spacing))
    return units


def _step(
    near: np.ndarray,
    far: np.ndarray,
    matrix: np.ndarray,
    offset: np.ndarray,
    centre: np.ndarray,
    generators: list[np.ndarray],
    valid: Sequence[np.ndarray] | None,
) -> tuple[np.ndarray, float, float] | None:
    """Return the Gauss-Newton step of generators and translation, the correlation, and the voxels."""
    ndim = near.ndim
    normal = np.zeros((len(generators) + ndim + 3,) * 2)
    is_moved = not generators and valid is None
    parts = _warped(near, far, matrix, offset, centre, generators, valid)
    for columns in _moved(near, far, offset) if is_moved else parts:
        products = np.stack(columns, dtype=np.float64, casting="unsafe")
        normal += products @ products.T
    count = normal[-2, -2]
    known, wanted = normal[:-1, :-1], normal[:-1, -1]
    if count < 4 * len(known):
        return None
    quality = _quality(normal)
    solution = np.linalg.lstsq(known, wanted, rcond=1e-12)[0]
    gain = solution[-2]
    if not np.isfinite(solution).all() or gain <= 0:
        return None
    return solution[:-2] / gain, quality, float(count)


def error_of(
    fixed: np.ndarray, moving: np.ndarray, link: Link, model: str, spacing: np.ndarray
) -> float:
    """Return the expected square of the error of positions by a link, in voxels; 0 if it is unknown.

    It is large if parts of the image disagree, because the image deforms or its structures change.
    """
    # The covariance of least squares with errors that are only independent between parts.
    #
    # K.-Y. Liang and S. L. Zeger, "Longitudinal data analysis using generalized linear models", Biometrika
    # 73, 1986.
    near, far, valid = _compared(fixed, moving)
    generators = _generators(model, spacing)
    centre = (np.array(fixed.shape) - 1) / 2
    first, last = near.shape[0], near.shape[-1]
    unknowns, row = len(generators) + near.ndim + 2, 0
    sums = np.zeros((_PARTS, _PARTS, unknowns + 1, unknowns + 1))
    for columns in _warped(near, far, link.matrix, link.offset, centre, generators, valid):
        products = np.stack(columns, dtype=np.float64, casting="unsafe")
        products = products.reshape(unknowns + 1, -1, near[0].size // last, last)
        of_rows = np.arange(row, row + products.shape[1]) * _PARTS // first
        row += products.shape[1]
        for i, j in itertools.product(range(_PARTS), repeat=2):
            rows = slice(*np.searchsorted(of_rows, (i, i + 1)))
            across = slice(-(-j * last // _PARTS), -(-(j + 1) * last // _PARTS))
            part = products[:, rows, :, across].reshape(unknowns + 1, -1)
            sums[i, j] += part @ part.T
    total = sums.sum(axis=(0, 1))
    inverse = np.linalg.pinv(total[:-1, :-1], rcond=1e-12, hermitian=True)
    solution = inverse @ total[:-1, -1]
    if (gain := solution[-2]) <= 0:
        return 0.0
    scores = (sums[..., :-1, -1] - sums[..., :-1, :-1] @ solution).reshape(-1, unknowns)
    changes = (scores @ inverse)[:, :-2] / gain
    turns, moves = changes[:, : len(generators)], changes[:, len(generators) :]
    found = float((moves**2).sum())
    if generators:
        squares = (np.array(fixed.shape) ** 2 - 1) / 12
        found += float(((np.einsum("pk,kab->pab", turns, generators) ** 2) * squares).sum())
    return found


def _warped(
    near: np.ndarray,
    far: np.ndarray,
    matrix: np.ndarray,
    offset: np.ndarray,
    centre: np.ndarray,
    generators: list[np.ndarray],
    valid: Sequence[np.ndarray] | None,
) -> Iterator[list[np.ndarray]]:
    """Yield the columns of the normal equations: slopes, warped voxels, ones and fixed voxels."""
    ndim = near.ndim
    warped = ndimage.affine_transform(
        far, matrix, offset, near.shape, order=3, mode="mirror", prefilter=False
    )
    slopes = _slopes(warped)
    counted = None
    if valid is not None:
        counted = ndimage.affine_transform(
            valid[1].astype(np.float32), matrix, offset, near.shape, order=1, mode="mirror"
        )
        # A voxel counts if most voxels count between which it is interpolated.
        counted = (counted > 0.5) & valid[0]
    to_moving = np.linalg.inv(matrix).T
    rows = max(1, _BLOCK // max(1, near[0].size))
    for first in range(0, len(near), rows):
        part = slice(first, first + rows)
        lines = [np.arange(n, dtype=np.float64) for n in near.shape]
        lines[0] = lines[0][part]
        grid = [_along(line, axis, ndim) for axis, line in enumerate(lines)]
        at = [
            functools.reduce(
                np.add, [m * (g - c) for m, g, c in zip(row, grid, centre, strict=True)]
            )
            for row in matrix
        ]
        where = [a + m for a, m in zip(at, matrix @ centre + offset, strict=True)]
        inside = np.ones(near[part].shape, bool) if counted is None else counted[part]
        for each, shape in ((where, far.shape), (grid, near.shape)):
            for w, n in zip(each, shape, strict=True):
                edge = _edge(n)
                inside &= (w >= edge) & (w <= n - 1 - edge)
        # Zeros add nothing to the sums, and are faster than a selection of voxels.
        slope = to_moving @ np.stack([(s[part] * inside).ravel() for s in slopes]).astype(
            np.float64
        )
        columns = [
            sum(
                (g[a, b] * slope[a] * at[b].ravel() for a, b in np.argwhere(g)),
                np.zeros(inside.size),
            )
            for g in generators
        ]
        columns += [
            *slope,
            *(v.ravel() for v in (warped[part] * inside, inside, near[part] * inside)),
        ]
        yield columns


def _moved(near: np.ndarray, far: np.ndarray, offset: np.ndarray) -> Iterator[list[np.ndarray]]:
    """Yield the columns of `_warped` for a shift, which is interpolated axis by axis."""
    inner, slopes = [], dict[int, np.ndarray]()
    for axis, (n, m, s) in enumerate(zip(near.shape, far.shape, offset.tolist(), strict=True)):
        first = math.ceil(max(_edge(n), _edge(m) - s))
        stop = math.floor(min(n - 1 - _edge(n), m - 1 - _edge(m) - s)) + 1
        if stop <= first:
            return
        whole = math.floor(s)
        f = s - whole
        taps = np.array(
            [(1 - f) ** 3, 4 + f * f * (3 * f - 6), 1 + f * (3 + f * (3 - 3 * f)), f**3]
        )
        index = pad_index(first + whole - 1, stop + whole + 2, m, "mirror")

        def interpolated(
            array: np.ndarray, weights: np.ndarray, index: np.ndarray = index, axis: int = axis
        ) -> np.ndarray:
            moved = ndimage.correlate1d(array.take(index, axis), weights, axis, mode="nearest")
            return moved.take(range(2, len(index) - 1), axis)

        slopes = {k: interpolated(slope, taps / 6) for k, slope in slopes.items()}
        is_thin = stop - first <= _THIN
        if is_thin:  # differences would leave no voxels
            changes = [-((1 - f) ** 2), f * (3 * f - 4), 1 + f * (2 - 3 * f), f * f]
            slopes[axis] = interpolated(far, np.array(changes) / 2)
        far = interpolated(far, taps / 6)
        near = near.take(range(first, stop), axis)
        inner.append(slice(None) if is_thin else slice(1, -1))
    # Differences at the edges are one-sided.
    columns = [slopes.get(axis, slope) for axis, slope in enumerate(_slopes(far))]
    arrays = [a[tuple(inner)] for a in (*columns, far, near)]
    rows = max(1, _BLOCK // max(1, near[0].size))
    for first in range(0, len(arrays[0]), rows):
        *others, last = (a[first : first + rows].ravel() for a in arrays)
        yield [*others, np.ones(last.size), last]


def _slopes(array: np.ndarray) -> list[np.ndarray]:
    return [
        np.gradient(array, axis=a) if n > 1 else np.zeros_like(array)
        for a, n in enumerate(array.shape)
    ]


def _edge(n: int) -> int:
    return _EDGE if n > 2 * _EDGE + 1 else 0


def _quality(normal: np.ndarray) -> float:
    """Return the correlation of the voxels from their sums of products: warped, 1, near."""
    a, one, b = -3, -2, -1
    n = normal[one, one]
    covariance = normal[a, b] - normal[a, one] * normal[one, b] / n
    variances = [normal[k, k] - normal[k, one] ** 2 / n for k in (a, b)]
    norm = np.sqrt(max(variances[0], 0) * max(variances[1], 0))
    return float(covariance / norm) if norm > 1e-9 * math.sqrt(normal[a, a] * normal[b, b]) else 0.0
