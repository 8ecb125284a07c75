"""Transforms of two planes from matched keypoints, by scikit-image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from beam_volumes.ops.geometry.registration.images import (
    Link,
    cleaned,
    halved,
    is_longer,
    marked,
)

#: Planes are downsampled until no side is longer.
SIDE = 256
#: SIFT has no level for planes with a shorter side.
_MIN_SIDE = 12
#: Matches that must agree; fewer may agree by chance.
_MIN_MATCHES = 8
#: The largest distance of matches that agree, in downsampled voxels.
_TOLERANCE = 2.0
#: The distance of a keypoint from missing voxels, in its standard deviations.
_MARGIN = 2.0
#: A match must be closer than the second closest one by this factor.
_MAX_RATIO = 0.8


@dataclass(frozen=True)
class Keypoints:
    """The keypoints of a plane, in voxels of the downsampled plane, and their descriptors."""

    places: np.ndarray
    descriptors: np.ndarray

    @classmethod
    def of(cls, plane: np.ndarray) -> Keypoints | None:
        """Find the keypoints of a plane; None if there are too few."""
        from skimage.feature import SIFT

        small = marked(plane)
        while is_longer(small, SIDE):
            small = halved(small)
        if min(small.shape) < _MIN_SIDE:
            return None
        # SIFT drops keypoints of low contrast, relative to a range from 0 to 1.
        missing = np.isnan(small)
        small = cleaned(small)
        low, high = np.percentile(small[~missing] if missing.any() else small, (1, 99))
        scaled = ((small - low) / (high - low or 1)).clip(0, 1)
        # Keypoints of the upsampled plane, which is the default, are displaced by half a voxel.
        sift = SIFT(upsampling=1)
        try:
            sift.detect_and_extract(scaled)
        except RuntimeError:  # no keypoints
            return None
        found, descriptors = sift.keypoints, sift.descriptors
        if found is None or descriptors is None:
            return None
        if missing.any():
            distance = ndimage.distance_transform_edt(~missing)[tuple(found.astype(int).T)]
            is_inside = distance > _MARGIN * sift.sigmas
            found, descriptors = found[is_inside], descriptors[is_inside]
        if len(found) < _MIN_MATCHES:
            return None
        return cls(found.astype(np.float64), descriptors)


def matched(
    fixed: Keypoints | None, moving: Keypoints | None, model: str, spacing: np.ndarray
) -> Link | None:
    """Find the transform of two downsampled planes; None if too few keypoints match."""
    # ``spacing`` is the voxel size relative to the smallest one, which determines what a rotation is. The
    # bits are the same in each run, since the random samples are.
    if fixed is None or moving is None:
        return None
    from skimage.feature import match_descriptors
    from skimage.measure import ransac
    from skimage.transform import AffineTransform, EuclideanTransform

    pairs = match_descriptors(fixed.descriptors, moving.descriptors, max_ratio=_MAX_RATIO)
    if len(pairs) < _MIN_MATCHES:
        return None
    ends = fixed.places[pairs[:, 0]] * spacing, moving.places[pairs[:, 1]] * spacing
    kind, samples = (EuclideanTransform, 2) if model == "rigid" else (AffineTransform, 3)
    found, agree = ransac(
        ends, kind, samples, residual_threshold=_TOLERANCE, max_trials=1000, rng=0
    )
    if agree is None or agree.sum() < _MIN_MATCHES:
        return None
    matrix = found.params[:2, :2] * spacing / spacing[:, None]
    return Link(matrix, found.params[:2, 2] / spacing, -1.0)
