"""Filters compared with scikit-image: seconds of the processor for arrays in memory.

Run ``python benchmarks/filters.py [part of a name]``. Contenders take turns; the fastest of three runs
counts, and compilation does not. scikit-image uses one thread, and its time is divided by ours: two threads
take half of ours each. Rows that name OpenCV or SimpleITK compare with it instead, in one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import peers
import scipy.ndimage as ndi
from skimage import (
    color,
    exposure,
    feature,
    filters,
    measure,
    morphology,
    restoration,
    segmentation,
    transform,
)
from sklearn.ensemble import RandomForestClassifier

import beam_volumes as bv

RUNS = 3
#: Calls with the same names in both packages, and the other package.
CALLS: dict[str, Any] = {
    "shift(stack, (0.5, 1.25, -3.5), order=3)": ndi,
    "zoom(stack, 1.5, order=3)": ndi,
    "rotate(stack, 30, axes=(1, 2), reshape=False, order=3)": ndi,
    "affine_transform(stack, np.eye(3) * 0.9 + 0.02, order=3)": ndi,
    "rotate(wide, 30, axes=(0, 1), reshape=False, order=1)": ndi,
    "rotate(noise, 5, axes=(0, 2), reshape=False, order=1)": ndi,
    "affine_transform(stack, np.eye(3) * 0.9 + 0.02, order=1)": ndi,
    "spline_filter(stack, 3)": ndi,
    "gaussian_filter(stack, 2, mode='wrap')": ndi,
    "median_filter(noise, 3, mode='wrap')": ndi,
    "argmax(stack, axis=0)": np,
    "cumsum(stack, axis=0)": np,
    "expand_labels(labels, 3)": segmentation,
    "regionprops_table(labels, properties=('area_convex', 'solidity'))": measure,
    "regionprops_table(labels, properties=('euler_number',))": measure,
    "regionprops_table(labels, properties=('moments_central',))": measure,
    "regionprops_table(labels, noise, properties=('moments_weighted_central',))": measure,
    "regionprops_table(labels, noise, properties=('intensity_median',))": measure,
    "mean(noise, labels, index)": ndi,
    "median(noise, labels, index)": ndi,
    "extrema(noise, labels, index[:20])": ndi,
    "maximum_position(noise, labels, index[:20])": ndi,
    "relabel_sequential(labels)": segmentation,
    "find_boundaries(labels)": segmentation,
    "label2rgb(labels)": color,
    "join_segmentations(labels, labels // 3)": segmentation,
    "watershed(-stack)": segmentation,
    "flood(stack, (24, 80, 80), tolerance=0.3)": morphology,
    "diameter_opening(noise[:24, :64, :64], 8)": morphology,
    "rolling_ball(noise[24], radius=20)": restoration,
    "morphological_gradient(noise, 5)": ndi,
    "scharr(stack)": filters,
    "farid(stack)": filters,
    "roberts(wide)": filters,
    "meijering(stack, [2])": filters,
    "gabor(stack[24], 0.2)": filters,
    "canny(wide, 2)": feature,
    "local_maxima(noise)": morphology,
    "peak_local_max(stack, min_distance=3, labels=labels, num_peaks_per_label=2)": feature,
}


def rows() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Ours and scikit-image's call by name."""
    rng = np.random.default_rng(0)
    image = ndi.gaussian_filter(rng.random((512, 512)), 2) * 4 + rng.normal(0, 0.05, (512, 512))
    image = image.astype("f4")
    wide = rng.integers(0, 256, (2048, 2048), dtype="u1")
    stack = ndi.gaussian_filter(rng.random((48, 160, 160), "f4"), 1.5)
    stack = (stack - stack.min()) / np.ptp(stack)
    small = stack[:24, :64, :64]
    template = stack[10:26, 40:56, 60:76]
    by = rng.uniform(-3, 3, (3, *stack.shape))
    at = np.indices(stack.shape) + by
    found = np.asarray(bv.features(stack, [1, 2]))
    samples = np.moveaxis(found, 0, -1).reshape(-1, len(found))
    known = rng.integers(0, samples.shape[0], 4000)
    forest = RandomForestClassifier(100, max_depth=20, random_state=0, n_jobs=1)
    forest.fit(samples[known], 1 + (samples[known, 0] > np.median(samples[:, 0])))
    channels = bv.open(found, axes="czyx")
    blobs = {"min_sigma": 2, "max_sigma": 5, "threshold": 0.02}
    labels = ndi.label(stack > np.percentile(stack, 80))[0].astype("u4")
    mask = stack > np.median(stack)
    rough = ndi.gaussian_filter(rng.random((64, 256, 256), "f4"), 1)
    rough = ((rough - rough.min()) / np.ptp(rough) * 255).astype("u1")
    markers = np.zeros(rough.shape, "u2")
    markers.flat[rng.choice(rough.size, 300, replace=False)] = np.arange(1, 301)
    wide_stack = rng.integers(0, 256, (64, 1024, 1024), dtype="u1")
    turn = in_plane(wide_stack.shape, 30)
    names = {"np": np, "stack": stack, "noise": (stack * 255).astype("u1"), "wide": wide}
    names |= {"labels": labels.astype("i4"), "index": np.arange(1, labels.max() + 1)}

    def same(package: Any, call: str) -> Callable[[], Any]:
        return lambda: computed(eval(f"package.{call}", {**names, "package": package}))

    return {
        **{call: (same(bv, call), same(other, call)) for call, other in CALLS.items()},
        "denoise_bilateral 512 x 512": (
            lambda: np.asarray(bv.denoise_bilateral(image, sigma_color=0.1, sigma_spatial=2)),
            lambda: restoration.denoise_bilateral(image, sigma_color=0.1, sigma_spatial=2),
        ),
        "denoise_nl_means 24 x 64 x 64": (
            lambda: np.asarray(bv.denoise_nl_means(small, 5, 6, h=0.1)),
            lambda: restoration.denoise_nl_means(small, 5, 6, h=0.1),
        ),
        "denoise_nl_means 512 x 512": (
            lambda: np.asarray(bv.denoise_nl_means(image, h=0.1)),
            lambda: restoration.denoise_nl_means(image, h=0.1),
        ),
        "denoise_tv_chambolle 48 x 160 x 160": (
            lambda: np.asarray(bv.denoise_tv_chambolle(stack, 0.1, max_num_iter=20)),
            lambda: restoration.denoise_tv_chambolle(stack, 0.1, eps=0, max_num_iter=20),
        ),
        "equalize_adapthist 2048 x 2048": (
            lambda: np.asarray(bv.equalize_adapthist(wide)),
            lambda: exposure.equalize_adapthist(wide),
        ),
        "blob_log 48 x 160 x 160": (
            lambda: bv.compute(bv.blob_log(stack, num_sigma=4, **blobs), runner=None),
            lambda: feature.blob_log(stack, num_sigma=4, **blobs),
        ),
        "blob_dog 48 x 160 x 160": (
            lambda: bv.compute(bv.blob_dog(stack, **blobs), runner=None),
            lambda: feature.blob_dog(stack, **blobs),
        ),
        "blob_doh 1024 x 1024": (
            lambda: bv.compute(bv.blob_doh(wide[:1024, :1024]), runner=None),
            lambda: feature.blob_doh(wide[:1024, :1024]),
        ),
        "features 48 x 160 x 160": (
            lambda: np.asarray(bv.features(stack, [1, 2])),
            lambda: feature.multiscale_basic_features(stack, sigma_min=1, sigma_max=2, workers=1),
        ),
        "classify 48 x 160 x 160": (
            lambda: np.asarray(bv.classify(channels, forest)),
            lambda: forest.predict(samples),
        ),
        "match_template 48 x 160 x 160": (
            lambda: np.asarray(bv.match_template(stack, template, pad_input=True)),
            lambda: feature.match_template(stack, template, pad_input=True),
        ),
        "map_labels 48 x 160 x 160": (
            lambda: np.asarray(bv.map_labels(labels, lambda r: ndi.binary_fill_holes(r.mask))),
            lambda: filled(labels),
        ),
        "distance_transform_edt with indices 48 x 160 x 160": (
            lambda: np.asarray(bv.distance_transform_edt(mask, return_indices=True)[1]),
            lambda: ndi.distance_transform_edt(mask, return_distances=False, return_indices=True),
        ),
        "area_opening 24 x 64 x 64, grey": (
            lambda: np.asarray(bv.area_opening(small, 20)),
            lambda: morphology.area_opening(small, 20),
        ),
        "warp 48 x 160 x 160": (
            lambda: np.asarray(bv.warp(stack, by, max_displacement=3)),
            lambda: transform.warp(stack, at, order=1),
        ),
        "entropy 512 x 512": (
            lambda: np.asarray(bv.entropy(wide[:512, :512], footprint=morphology.disk(5))),
            lambda: filters.rank.entropy(wide[:512, :512], morphology.disk(5)),
        ),
        "affine_transform in the plane 64 x 1024 x 1024, OpenCV by slice": (
            lambda: np.asarray(bv.affine_transform(wide_stack, *turn)),
            lambda: peers.affine_by_opencv(wide_stack, *turn),
        ),
        "watershed with markers 64 x 256 x 256, SimpleITK": (
            lambda: np.asarray(bv.watershed(rough, markers)),
            lambda: peers.watershed_by_sitk(rough, markers),
        ),
    }  # fmt: skip


def in_plane(shape: tuple[int, int, int], degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """The matrix and offset that turn slices about their centres."""
    angle = np.deg2rad(degrees)
    matrix = np.eye(3)
    matrix[1:, 1:] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    centre = (np.array(shape) - 1) / 2
    return matrix, centre - matrix @ centre


def computed(results: Any) -> list[Any]:
    """The arrays of a call, computed together; tables are dicts of columns."""
    several = results if isinstance(results, tuple) else (results,)
    lazy = all(hasattr(r, "compute") for r in several)
    return bv.compute(list(several), runner=None) if lazy else list(several)


def filled(labels: np.ndarray) -> np.ndarray:
    """A loop over the objects, as `map_labels` documents it."""
    out = np.zeros_like(labels)
    for label, box in enumerate(ndi.find_objects(labels), 1):
        found = ndi.binary_fill_holes(labels[box] == label)
        np.maximum(out[box], np.where(found, label, 0), out=out[box], casting="unsafe")
    return out


def main() -> None:
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    print("| | here, CPU s | scikit-image, CPU s | ratio |\n| --- | --- | --- | --- |", flush=True)
    for name, contenders in rows().items():
        if chosen not in name:
            continue
        contenders[0]()  # compiles
        seconds: list[list[float]] = [[], []]
        for _ in range(RUNS):
            for k, call in enumerate(contenders):
                begun = time.process_time()
                call()
                seconds[k].append(time.process_time() - begun)
        ours, theirs = map(min, seconds)
        print(f"| {name} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f} |", flush=True)


if __name__ == "__main__":
    main()
