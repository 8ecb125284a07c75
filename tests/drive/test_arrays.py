"""From arrays of this process to arrays of this process: nothing lies between but the sweep."""

from __future__ import annotations

import gc
import tempfile
import weakref

import numpy as np
import pytest
import scipy.ndimage as ndi

import beam_volumes as bv
from beam_volumes.storage import open_source


def voxels(dtype: str, shape: tuple[int, ...] = (20, 33, 41)) -> np.ndarray:
    """Not contiguous arrays, and arrays with equal sums."""
    wide = np.random.default_rng(3).integers(
        0, 2 if dtype == "?" else 200, (*shape[:-1], 2 * shape[-1])
    )
    return wide.astype(dtype)[..., ::-2]


@pytest.mark.parametrize("dtype", ["?", "u1", ">i2", "f4"])
@pytest.mark.parametrize(
    "how", [{}, {"slab": (4, 16, 16)}, {"slab": (7, 11, 41), "threads": 2, "workers": 3}]
)
def test_crops_and_views_of_arrays(dtype: str, how: dict) -> None:
    array = voxels(dtype)
    v = bv.open(array)
    cases = [
        (v, array),
        (v[3:17, 5:, 1:40], array[3:17, 5:, 1:40]),
        (bv.flip(bv.transpose(v, (2, 0, 1)), 0)[2:9], array.transpose(2, 0, 1)[::-1][2:9]),
        (v[4], array[4]),
        (bv.maximum_filter(v, 3)[2:8, 1:], ndi.maximum_filter(array, 3)[2:8, 1:]),
    ]
    for volume, expected in cases:
        cut = how if volume.ndim == 3 else {}
        found = bv.compute(volume, runner=None, progress=False, **cut)
        assert found.dtype == expected.dtype.newbyteorder("=") and found.flags.writeable
        np.testing.assert_array_equal(found, expected)


def test_a_result_that_a_later_pass_reads_and_no_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    v = bv.open(voxels("u1"))
    smooth = bv.gaussian_filter(v, 1)
    mask = smooth > bv.threshold_otsu(smooth)
    stored = bv.compute(
        smooth.to(tmp_path / "smooth.zarr"), mask.to(tmp_path / "mask.zarr"), runner=None
    )
    before = sorted(tmp_path.iterdir())
    held = bv.compute(smooth, mask, bv.mean(mask), runner=None, progress=False)
    for a, b in zip(held, stored, strict=False):
        np.testing.assert_array_equal(a, np.asarray(b).astype(a.dtype))
    assert held[1].dtype == bool and held[2] == held[1].mean()
    assert sorted(tmp_path.iterdir()) == before


def test_arrays_are_let_go() -> None:
    array = np.ascontiguousarray(voxels("u1"))
    found = bv.compute(bv.maximum_filter(bv.open(array), 3), runner=None, progress=False)
    held = [weakref.ref(found if found.base is None else found.base), weakref.ref(array)]
    del array, found
    gc.collect()
    assert [ref() for ref in held] == [None, None]


def test_an_array_that_was_changed_is_not_taken_for_another() -> None:
    first = voxels("u1").copy()
    v, same = bv.open(first), first.copy()
    first += 1
    np.testing.assert_array_equal(bv.compute(v, runner=None, progress=False), first)
    np.testing.assert_array_equal(bv.compute(bv.open(same), runner=None, progress=False), same)


@pytest.mark.parametrize(
    "shape", [(9, 401, 503), (3, 1200, 1100), (1, 1, 1 << 21), (1 << 21, 1, 1)]
)
def test_large_arrays_are_told_apart(shape: tuple[int, int, int]) -> None:
    array = np.random.default_rng(0).integers(0, 255, shape, dtype="u1")
    token = open_source(array).token()
    assert open_source(np.asfortranarray(array)).token() == token
    for at in [(0, 0, 0), tuple(n // 2 for n in shape), tuple(n - 1 for n in shape)]:
        other = array.copy()
        other[at] ^= 1
        assert open_source(other).token() != token
    assert open_source(array[::-1, ::-1, ::-1]).token() != token
    assert open_source(array.view("i1")).token() != token
