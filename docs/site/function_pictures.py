"""Pictures of what functions do to a small specimen, made when the site is built.

A function that yields a volume stands in `PICTURES`, with the volume that it takes. Without a line there, its
page has no picture.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import imagecodecs
import numpy as np

import beam_volumes as bv
from beam_volumes.cli.specimen import write_specimen

Volume = bv.Volume
SHAPE = (24, 200, 200)
#: Before and after.
Shown = tuple[Volume, Volume]


class Specimen(NamedTuple):
    """What functions are shown on."""

    em: Volume
    smooth: Volume
    membranes: Volume
    inside: Volume
    cells: Volume


def specimen(folder: str) -> Specimen:
    """An electron-microscopy-like stack, its membranes, and its cells."""
    write_specimen(folder, SHAPE)
    em = bv.open(folder)
    smooth = bv.gaussian_filter(em, 1.5)
    membranes = bv.remove_small_objects(smooth < bv.threshold_otsu(smooth), max_size=200)
    cells = bv.label(~membranes)
    # What functions start from is computed once.
    wanted = (em, smooth, membranes, ~membranes, cells)
    arrays = bv.compute(*wanted, runner=None)
    return Specimen(*map(bv.open, arrays))


def of_em(function: str, *args: object, **options: object) -> Callable[[Specimen], Shown]:
    return lambda s: (s.em, getattr(bv, function)(s.em, *args, **options))


def of_smooth(function: str, *args: object, **options: object) -> Callable[[Specimen], Shown]:
    return lambda s: (s.smooth, getattr(bv, function)(s.smooth, *args, **options))


def of_membranes(function: str, *args: object, **options: object) -> Callable[[Specimen], Shown]:
    return lambda s: (s.membranes, getattr(bv, function)(s.membranes, *args, **options))


def below(function: str) -> Callable[[Specimen], Shown]:
    return lambda s: (s.smooth, s.smooth < getattr(bv, function)(s.smooth))


def first(volumes: tuple[Volume, ...]) -> Volume:
    return volumes[0]


SHARPEN = np.full((3, 3, 3), -1 / 27)
SHARPEN[1, 1, 1] = 2
MIX = np.linspace(-1, 1, 9)


def local_range(values: np.ndarray) -> float:
    return float(values.max() - values.min())


def stripes(block: np.ndarray) -> np.ndarray:
    return np.abs(np.diff(block.astype("f4"), axis=2, append=block[:, :, -1:]))


#: The example of each function. The keys are in the order of docs/reference/coverage.md.
PICTURES: dict[str, Callable[[Specimen], Shown]] = {
    "abs": lambda s: (s.smooth - 128, bv.abs(s.smooth - 128)),
    "clip": of_smooth("clip", 90, 150),
    "exp": lambda s: (s.smooth, bv.exp(s.smooth / 40)),
    "log": lambda s: (s.smooth, bv.log(s.smooth + 1)),
    "sqrt": of_smooth("sqrt"),
    "where": lambda s: (s.em, bv.where(s.inside, s.em, 0)),
    "adjust_gamma": of_em("adjust_gamma", 2.5),
    "adjust_log": of_em("adjust_log"),
    "adjust_sigmoid": of_em("adjust_sigmoid", 0.5, 15),
    "rescale_intensity": of_em("rescale_intensity", in_range=(60, 200)),
    "normalize_slices": of_em("normalize_slices", mean=128, std=50),
    "n4_bias_field_correction": lambda s: (
        s.em * bv.coordinates(s.em, 2) / 100,
        bv.n4_bias_field_correction(s.em * bv.coordinates(s.em, 2) / 100, (2, 4, 4)),
    ),
    "equalize_hist": of_em("equalize_hist"),
    "match_histograms": lambda s: (s.em, bv.match_histograms(s.em, s.smooth)),
    "equalize_adapthist": of_em("equalize_adapthist", (8, 40, 40), 0.03),
    "relabel": lambda s: (
        s.cells,
        bv.relabel(s.cells, {k: k % 4 + 1 for k in range(1, 400)}, missing=0),
    ),
    "gaussian_filter": of_em("gaussian_filter", 2),
    "uniform_filter": of_em("uniform_filter", 7),
    "convolve": of_smooth("convolve", SHARPEN * 3),
    "correlate": of_smooth("correlate", SHARPEN * 3),
    "gaussian_filter1d": of_em("gaussian_filter1d", 4),
    "uniform_filter1d": of_em("uniform_filter1d", 15),
    "convolve1d": of_smooth("convolve1d", MIX),
    "correlate1d": of_smooth("correlate1d", MIX),
    "sobel": of_smooth("sobel"),
    "prewitt": of_smooth("prewitt"),
    "laplace": of_smooth("laplace"),
    "gaussian_laplace": of_em("gaussian_laplace", 3),
    "gaussian_gradient_magnitude": of_em("gaussian_gradient_magnitude", 2),
    "generic_gradient_magnitude": of_smooth("generic_gradient_magnitude", "sobel"),
    "median_filter": of_em("median_filter", 5),
    "maximum_filter": of_smooth("maximum_filter", 7),
    "minimum_filter": of_smooth("minimum_filter", 7),
    "percentile_filter": of_em("percentile_filter", 20, 5),
    "rank_filter": of_em("rank_filter", 20, 5),
    "maximum_filter1d": of_smooth("maximum_filter1d", 11),
    "minimum_filter1d": of_smooth("minimum_filter1d", 11),
    "grey_erosion": of_smooth("grey_erosion", 7),
    "grey_dilation": of_smooth("grey_dilation", 7),
    "grey_opening": of_smooth("grey_opening", 9),
    "grey_closing": of_smooth("grey_closing", 9),
    "white_tophat": of_smooth("white_tophat", 15),
    "black_tophat": of_smooth("black_tophat", 15),
    "morphological_gradient": of_smooth("morphological_gradient", 5),
    "morphological_laplace": of_smooth("morphological_laplace", 5),
    "binary_erosion": of_membranes("binary_erosion", bv.ball(2)),
    "binary_dilation": of_membranes("binary_dilation", bv.ball(3)),
    "binary_opening": of_membranes("binary_opening", bv.ball(3)),
    "binary_closing": of_membranes("binary_closing", bv.ball(5)),
    "binary_hit_or_miss": of_membranes("binary_hit_or_miss", [[[1, 1, 0]]], [[[0, 0, 1]]]),
    "skeletonize": of_membranes("skeletonize", axes=(1, 2)),
    "rolling_ball": of_smooth("rolling_ball", radius=(0, 15, 15)),
    "denoise_bilateral": of_em("denoise_bilateral", sigma_color=30, sigma_spatial=1.5),
    "denoise_nl_means": lambda s: (s.em[:4], bv.denoise_nl_means(s.em[:4], 5, (0, 5, 5), h=15)),
    "denoise_tv_chambolle": of_em("denoise_tv_chambolle", 20),
    "gradient_anisotropic_diffusion": of_em(
        "gradient_anisotropic_diffusion", number_of_iterations=10
    ),
    "curvature_anisotropic_diffusion": of_em(
        "curvature_anisotropic_diffusion", number_of_iterations=10
    ),
    "unsharp_mask": of_smooth("unsharp_mask", 3, 2.0),
    "difference_of_gaussians": of_em("difference_of_gaussians", 1.5, 5),
    "threshold_local": lambda s: (s.smooth, s.smooth < bv.threshold_local(s.smooth, 41, offset=6)),
    "threshold_niblack": lambda s: (s.smooth, s.smooth < bv.threshold_niblack(s.smooth, 25, 0.4)),
    "threshold_sauvola": lambda s: (
        s.smooth,
        s.smooth < bv.threshold_sauvola(s.smooth, 41, 0.1, r=40.0),
    ),
    "scharr": of_smooth("scharr"),
    "farid": of_smooth("farid"),
    "roberts": of_smooth("roberts"),
    "richardson_lucy": of_smooth("richardson_lucy", bv.gaussian_psf((0, 1.5, 1.5)), 10),
    "wiener": of_smooth("wiener", bv.gaussian_psf((0, 1.5, 1.5)), 0.01),
    "denoise_wiener": of_em("denoise_wiener", 7),
    "structure_tensor": lambda s: (
        s.smooth,
        first(bv.structure_tensor(s.smooth, 2, mode="nearest")),
    ),
    "structure_tensor_eigenvalues": lambda s: (
        s.smooth,
        first(bv.structure_tensor_eigenvalues(bv.structure_tensor(s.smooth, 2, mode="nearest"))),
    ),
    "hessian_matrix": lambda s: (s.smooth, first(bv.hessian_matrix(s.smooth, 3, mode="nearest"))),
    "hessian_matrix_eigvals": lambda s: (
        s.smooth,
        first(bv.hessian_matrix_eigvals(bv.hessian_matrix(s.smooth, 3, mode="nearest"))),
    ),
    "sato": of_em("sato", (2, 4)),
    "meijering": of_em("meijering", (2, 4)),
    "frangi": of_em("frangi", (2, 4), gamma=15.0),
    "generic_filter": of_em("generic_filter", local_range, 3),
    "map_overlap": lambda s: (
        s.smooth,
        bv.map_overlap(stripes, s.smooth, depth=(0, 0, 1), dtype="f4", name="stripes", version=1),
    ),
    "pad": of_em("pad", ((0, 0), (30, 30), (30, 30)), mode="reflect"),
    "flip": of_em("flip", 2),
    "transpose": of_em("transpose", (0, 2, 1)),
    "downsample": of_em("downsample", (1, 8, 8)),
    "upsample": lambda s: (
        s.em[:, 60:100, 60:100],
        bv.upsample(s.em[:, 60:100, 60:100], (1, 5, 5)),
    ),
    "shift": of_em("shift", (0, 25.5, 40)),
    "zoom": lambda s: (s.em, bv.zoom(s.em[:, 50:150, 50:150], (1, 2, 2))),
    "resize": lambda s: (s.em, bv.resize(s.em, (len(s.em), 40, 40))),
    "rescale": lambda s: (s.em, bv.rescale(s.em, (1, 0.2, 0.2))),
    "resample": lambda s: (s.em, bv.resample(s.em.with_space(voxel_size=(40, 8, 8)), 40)),
    "affine_transform": of_em("affine_transform", [[1, 0, 0], [0, 1, 0.3], [0, 0.1, 1]]),
    "rotate": of_em("rotate", 30, reshape=False),
    "coordinates": lambda s: (s.em, bv.coordinates(s.em, 2)),
    "threshold_otsu": below("threshold_otsu"),
    "threshold_li": below("threshold_li"),
    "threshold_yen": below("threshold_yen"),
    "threshold_triangle": below("threshold_triangle"),
    "threshold_isodata": below("threshold_isodata"),
    "label": lambda s: (s.inside, bv.label(s.inside)),
    "remove_small_objects": lambda s: (
        s.inside[12],
        bv.remove_small_objects(s.inside[12], max_size=1000),
    ),
    "remove_small_holes": lambda s: (
        s.membranes[12],
        bv.remove_small_holes(s.membranes[12], max_size=1000),
    ),
    "clear_border": lambda s: (s.inside[12], bv.clear_border(s.inside[12])),
    "apply_hysteresis_threshold": lambda s: (
        s.smooth,
        bv.apply_hysteresis_threshold(255 - s.smooth, 120, 160),
    ),
    "keep_labels": lambda s: (
        s.cells[12],
        bv.keep_labels(
            s.cells[12], bv.regionprops_table(s.cells[12], properties=["area"]), "area", low=1500
        ),
    ),
    "keep_largest": lambda s: (s.inside, bv.keep_largest(s.inside, 3)),
    "binary_fill_holes": lambda s: (s.membranes[12], bv.binary_fill_holes(s.membranes[12])),
    "binary_propagation": lambda s: (
        s.inside,
        bv.binary_propagation(bv.binary_erosion(s.inside, bv.ball(7)), mask=s.inside),
    ),
    "distance_transform_edt": lambda s: (s.inside, bv.distance_transform_edt(s.inside)),
    "signed_distance": lambda s: (s.inside, bv.signed_distance(s.inside)),
    "cumsum": of_em("cumsum", 2),
}


def draw_functions(folder: Path) -> dict[str, Path]:
    """Write a picture for each function that has something to show; return where, by function."""
    folder.mkdir()
    with tempfile.TemporaryDirectory() as stack:
        s = specimen(stack)
        return {name: _draw(folder / f"{name}.png", show(s)) for name, show in PICTURES.items()}


def _draw(path: Path, shown: Shown) -> Path:
    images = [_image(a) for a in bv.compute(*(_middle(v) for v in shown), runner=None)]
    height = max(image.shape[0] for image in images)
    before, after = (_framed(image, height) for image in images)
    gap = np.full((height, 16, 3), 255, np.uint8)
    path.write_bytes(imagecodecs.png_encode(np.concatenate([before, gap, after], axis=1)))
    return path


def _middle(volume: Volume) -> Volume:
    return volume[volume.shape[0] // 2] if len(volume.shape) == 3 else volume


def _image(values: np.ndarray) -> np.ndarray:
    """Voxels as colours: labels by a table, numbers from black to white."""
    if values.dtype == np.uint32:
        colours = np.random.default_rng(7).integers(70, 256, (4096, 3), dtype=np.uint8)
        colours[0] = 0
        return colours[values % 4096]
    numbers = values.astype(np.float64)
    low, high = np.percentile(numbers, [0.5, 99.5]) if values.dtype != bool else (0, 1)
    if values.dtype == np.uint8:
        low, high = 0, 255
    grey = np.clip((numbers - low) / max(high - low, 1e-9) * 255, 0, 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def _framed(image: np.ndarray, height: int) -> np.ndarray:
    """An image in the middle of a white strip, its voxels as large as there is room."""
    times = height // image.shape[0]
    image = image.repeat(times, axis=0).repeat(times, axis=1)
    top = (height - image.shape[0]) // 2
    edges = ((top, height - image.shape[0] - top), (0, 0), (0, 0))
    return np.pad(image, edges, constant_values=255)
