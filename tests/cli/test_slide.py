"""The recipes for a whole slide, on one with JPEG tiles."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
from scipy import ndimage as ndi
from skimage import color

import beam_volumes as bv

RECIPES = Path(__file__).parents[2] / "templates" / "recipes"


@pytest.fixture
def slide(tmp_path):
    """A path, and the pixels as they were before they became JPEG."""
    rng = np.random.default_rng(3)
    image = 235 + rng.integers(0, 12, (203, 310, 3))
    image[30:90, 40:130] = (150, 60, 160)
    image[120:180, 200:280] = (190, 90, 140)
    path = tmp_path / "slide.tif"
    how = {"tile": (64, 64), "photometric": "rgb", "compression": "jpeg"}
    tifffile.imwrite(path, image.astype("u1"), **how, compressionargs={"level": 95})
    return path


@pytest.fixture
def run(command, slide, tmp_path):
    """Runs a recipe on the slide; gives the folder of its results."""

    def run(recipe, *options, **variables):
        out = tmp_path / recipe
        settings = {"slide": slide, "out": out, **variables}
        words = [w for name, value in settings.items() for w in ("--set", f"{name}={value}")]
        code, _, told = command(
            "run", RECIPES / f"{recipe}.yaml", *words, "--runner=none", *options
        )
        assert code == 0, told
        return out

    return run


def test_a_slide_is_what_it_is_as_one_image(run, slide):
    out = run("slide", coarse=8)
    seen = tifffile.imread(slide)
    stains = np.asarray(bv.open(out / "stains.ome.zarr"))
    hed = np.moveaxis(color.rgb2hed(seen), -1, 0)
    np.testing.assert_allclose(stains.reshape(hed.shape), hed, atol=1e-6)
    edges = np.asarray(bv.open(out / "edges.ome.zarr"))
    gray = bv.rgb2gray(bv.open(slide)).compute(runner=None)
    np.testing.assert_allclose(edges, ndi.sobel(gray.astype("f8")), atol=1e-6)
    pieces = np.asarray(bv.open(out / "pieces.ome.zarr"))
    assert pieces.shape == seen.shape[:2] and pieces.max() == 2
    with open(out / "pieces.csv") as file:
        rows = list(csv.DictReader(file))
    outlined = json.loads((out / "pieces.geojson").read_text())["features"]
    for row, feature in zip(rows, outlined, strict=True):
        inside = pieces == int(row["label"])
        assert float(row["area"]) == inside.sum()
        for name, channel in zip(("haematoxylin", "eosin", "dab"), hed, strict=True):
            of = channel[inside]
            means = float(row[f"intensity_mean-{name}"]), float(row[f"intensity_std-{name}"])
            np.testing.assert_allclose(means, (of.mean(), of.std()), rtol=1e-4, atol=1e-6)
        assert feature["properties"]["name"] == row["label"]
        (corners,) = np.array(feature["geometry"]["coordinates"])
        low, high = corners.min(axis=0), corners.max(axis=0)
        box = [float(row[f"bbox-{k}"]) for k in (1, 0, 3, 2)]
        assert [*low, *high] == box
    assert pieces[60, 80] == 1 and pieces[150, 240] == 2


def test_tiles_leave_no_seam(run, slide):
    """The filters, stains and pyramids of small slabs equal the results of the whole image."""
    seen = np.moveaxis(tifffile.imread(slide), -1, 0)
    small = ("--slab=64,128",)
    chunks = [w for k in range(3) for w in ("--set", f"outputs.{k}.chunks=[64, 64]")]
    out = run("slide_filters", *small, *chunks)
    gray = bv.rgb2gray(bv.open(slide)).compute(runner=None)
    edges = np.asarray(bv.open(out / "edges.ome.zarr"))
    np.testing.assert_array_equal(edges, bv.sobel(gray).compute(runner=None))
    median = np.asarray(bv.open(out / "median.ome.zarr"))
    smooth = np.asarray(bv.open(out / "smooth.ome.zarr")).astype(int)
    for k, channel in enumerate(seen):
        np.testing.assert_array_equal(median[k], ndi.median_filter(channel, 5))
        exact = ndi.gaussian_filter(channel.astype("f8"), 2)
        assert np.abs(smooth[k] - exact).max() < 0.51
    out = run("slide_stains", *small, *chunks[:4], levels=2)
    hed = np.moveaxis(color.rgb2hed(np.moveaxis(seen, 0, -1)), -1, 0)
    stains = np.asarray(bv.open(out / "stains.ome.zarr", level=0))
    np.testing.assert_allclose(stains, hed, atol=1e-6)
    nuclei = np.asarray(bv.open(out / "nuclei.ome.zarr", level=0))
    np.testing.assert_array_equal(nuclei, stains[0] > 0.05)
    out = run("slide_to_zarr", "--set", "output.chunks=[64, 64]", levels=3)
    expected = seen
    for level in range(3):
        found = np.asarray(bv.open(out / "slide.ome.zarr", level=level))
        np.testing.assert_array_equal(found, expected)
        expected = np.asarray(bv.downsample(bv.open(expected), (1, 2, 2)))
