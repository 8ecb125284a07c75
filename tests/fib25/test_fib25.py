"""An electron-microscopy stack: difference of Gaussians, its Otsu, an opening; slices to OME-Zarr."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import scipy.ndimage as ndi
from skimage.filters import threshold_otsu

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.storage.formats.format import PROVENANCE
from tests.catalogue import assert_linear_close
from tests.tiers import thorough

#: Name of the partition, then chunks of the output, slab, workers. None: the planner's own.
PARTITIONS = {
    "depth 16, 2 workers": ((16, 64, 64), (16, None, None), 2),
    "depth 7": ((7, 64, 64), (7, None, None), 1),
    "odd tiles, 2 workers": ((16, 101, 77), (16, 101, 77), 2),
    "planned": (None, None, 2),
}


def chain(stack):
    em = bv.open(stack.slices)
    band = bv.gaussian_filter(em, 1.5) - bv.gaussian_filter(em, 6)
    threshold = bv.threshold_otsu(band)
    return em, band, threshold, bv.binary_opening(band < threshold, bv.cross(1))


@pytest.fixture(scope="module")
def reference(stack):
    """Our float array, our Otsu value, scipy's opening of what they make, and the raw stack."""
    em, band, threshold, _ = chain(stack)
    raw, floats, value = bv.compute(em, band, threshold, runner=None, progress=False)
    return raw, floats, value, ndi.binary_opening(floats < value, bv.cross(1))


def test_floats_are_scipy_s_within_tolerance(stack, reference):
    raw, floats, _, _ = reference
    x = raw.astype(np.float64)
    near, far = ndi.gaussian_filter(x, 1.5), ndi.gaussian_filter(x, 6)
    em = bv.open(stack.slices)
    for sigma, theirs in ((1.5, near), (6, far)):
        ours = bv.compute(bv.gaussian_filter(em, sigma), runner=None, progress=False)
        assert_linear_close(ours, theirs, 1.0, float(x.max()))
    assert floats.dtype == np.float32
    assert_linear_close(floats, near - far, 2.0, float(x.max()))


def test_otsu_is_scikit_image_s(reference):
    _, floats, value, _ = reference
    assert value == threshold_otsu(floats)


def test_all_scipy_chain_differs_only_next_to_the_threshold(stack, reference, capsys):
    raw, floats, value, mask = reference
    x = raw.astype(np.float64)
    band = ndi.gaussian_filter(x, 1.5) - ndi.gaussian_filter(x, 6)
    theirs = band < value
    differ = (floats < value) != theirs
    tolerance = 2 * 16 * np.finfo(np.float32).eps * x.max()
    assert (np.abs(band[differ] - value) <= tolerance).all()
    opened = mask != ndi.binary_opening(theirs, bv.cross(1))
    own = band < threshold_otsu(band.astype(np.float32))
    end = mask != ndi.binary_opening(own, bv.cross(1))
    with capsys.disabled():
        print(
            f"\n{stack.name}: of {mask.size} voxels {differ.sum()} differ from scipy's at the threshold, "
            f"{opened.sum()} after the opening, {end.sum()} from a chain all of scipy and scikit-image"
        )


def files_of(folder):
    """Digest of every chunk file below a folder, without metadata and times."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(Path(folder).rglob("*"))
        if p.is_file() and p.name not in ("zarr.json", PROVENANCE) and ".run" not in str(p)
    }


@pytest.fixture(scope="module")
def files(stack, tmp_path_factory):
    """By chunk shape, digests of the chunk files of a run over the whole volume as one slab."""
    known = {}

    def of(chunks):
        if chunks not in known:
            *_, mask = chain(stack)
            path = tmp_path_factory.mktemp("whole") / "mask.ome.zarr"
            how = {} if chunks is None else {"chunks": chunks}
            bv.compute(mask.to(path, **how), runner=None, slab=mask.shape, progress=False)
            known[chunks] = files_of(path)
        return known[chunks]

    return of


@thorough
@pytest.mark.parametrize("name", PARTITIONS)
def test_mask_whatever_the_partition(name, stack, reference, files, tmp_path):
    chunks, slab, workers = PARTITIONS[name]
    *_, mask = chain(stack)
    how = {} if slab is None else {"slab": full(slab, mask.shape)}
    out = mask.to(tmp_path / "mask.ome.zarr", **({} if chunks is None else {"chunks": chunks}))
    written = bv.compute(out, runner=None, workers=workers, progress=False, **how)
    np.testing.assert_array_equal(np.asarray(written).astype(bool), reference[3])
    found = files_of(tmp_path / "mask.ome.zarr")
    assert found and found == files(chunks)


def full(slab, shape):
    return tuple(n if s is None else min(s, n) for s, n in zip(slab, shape, strict=True))


@thorough
@pytest.mark.parametrize(
    ("name", "mode"),
    [("depth 16, 2 workers", "in_memory"), ("odd tiles, 2 workers", "multi_processing")],
)
def test_mask_whatever_the_runner(name, mode, stack, reference, files, tmp_path):
    chunks, slab, workers = PARTITIONS[name]
    *_, mask = chain(stack)
    written = bv.compute(
        mask.to(tmp_path / "mask.ome.zarr", chunks=chunks),
        options=[f"--direct_running_mode={mode}"],
        slab=full(slab, mask.shape),
        workers=workers,
        progress=False,
    )
    np.testing.assert_array_equal(np.asarray(written).astype(bool), reference[3])
    assert files_of(tmp_path / "mask.ome.zarr") == files(chunks)


RECIPE = """
input: {path: %s, voxel_size: 10, unit: nm}
steps:
  near: {op: gaussian_filter, sigma: 1.5}
  far: {op: gaussian_filter, input: input, sigma: 60 nm}
  band: {op: subtract, inputs: [near, far]}
  threshold: threshold_otsu
  dark: {op: less, inputs: [band, threshold]}
  mask: {op: binary_opening, structure: {cross: 1}}
output: %s
"""


def test_one_command(stack, reference, tmp_path, capfd):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE % (stack.slices, tmp_path / "mask.ome.zarr"))
    assert main(["run", str(recipe), "--memory", "2GiB"]) == 0
    written = bv.open(tmp_path / "mask.ome.zarr")
    assert written.voxel_size == (10, 10, 10) and written.unit == "nanometer"
    np.testing.assert_array_equal(np.asarray(written).astype(bool), reference[3])
    said = "".join(capfd.readouterr())
    assert "predicted" in said and "Traceback" not in said
