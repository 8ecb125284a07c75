"""The recipe for a whole slide, on one with JPEG tiles."""

import csv
from pathlib import Path

import numpy as np
import tifffile
from scipy import ndimage as ndi
from skimage import color

import beam_volumes as bv

RECIPE = Path(__file__).parents[2] / "templates" / "recipes" / "slide.yaml"


def test_a_slide_is_what_it_is_as_one_image(tmp_path, command):
    rng = np.random.default_rng(3)
    image = 235 + rng.integers(0, 12, (203, 310, 3))
    image[30:90, 40:130] = (150, 60, 160)
    image[120:180, 200:280] = (190, 90, 140)
    path = tmp_path / "slide.tif"
    how = {"tile": (64, 64), "photometric": "rgb", "compression": "jpeg"}
    tifffile.imwrite(path, image.astype("u1"), **how, compressionargs={"level": 95})
    out = tmp_path / "out"
    code, _, told = command(
        *("run", RECIPE, "--set", f"slide={path}", "--set", f"out={out}", "--set", "coarse=8"),
        "--runner=none",
    )
    assert code == 0, told
    seen = tifffile.imread(path)
    stains = np.asarray(bv.open(out / "stains.ome.zarr"))
    hed = np.moveaxis(color.rgb2hed(seen), -1, 0)
    np.testing.assert_allclose(stains.reshape(hed.shape), hed, atol=1e-6)
    edges = np.asarray(bv.open(out / "edges.ome.zarr"))
    gray = bv.rgb2gray(bv.open(path)).compute(runner=None)
    np.testing.assert_allclose(edges, ndi.sobel(gray.astype("f8")), atol=1e-6)
    pieces = np.asarray(bv.open(out / "pieces.ome.zarr"))
    assert pieces.shape == seen.shape[:2] and pieces.max() == 2
    with open(out / "pieces.csv") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        inside = pieces == int(row["label"])
        assert float(row["area"]) == inside.sum()
        mean = hed[0][inside].mean()
        np.testing.assert_allclose(float(row["intensity_mean-haematoxylin"]), mean, rtol=1e-5)
    assert pieces[60, 80] == 1 and pieces[150, 240] == 2
