"""Skeletons: topology, width and ends, in random partitions, and properties of scikit-image's."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import ndimage as ndi
from skimage import morphology
from skimage.measure import euler_number, label

import beam_volumes as bv
from tests.tiers import examples


def topology(part, mask):
    """Of a part of a mask: its cavities, and for each object its components and Euler number."""
    around = np.ones((3,) * mask.ndim)
    background = ndi.label(np.pad(~part, 1, constant_values=True))[1]
    objects, _ = ndi.label(mask, around)
    own = [part[b] & (objects[b] == k) for k, b in enumerate(ndi.find_objects(objects), 1)]
    return background, [(ndi.label(p, around)[1], euler_number(p, mask.ndim)) for p in own]


def neighbours(mask):
    return ndi.convolve(mask.astype(int), np.ones((3,) * mask.ndim, int), mode="constant") - mask


def is_simple(box):
    """Of the voxel in the middle of 3 x 3 x 3 or 3 x 3, by its definition."""
    centre = (1,) * box.ndim
    around = box.copy()
    around[centre] = False
    near = np.abs(np.indices(box.shape) - 1).sum(axis=0)
    background = ~around & (near > 0) & (near <= max(2, box.ndim - 1))
    parts = ndi.label(background)[0]
    touching = set(parts[(near == 1) & background])
    return label(around, connectivity=box.ndim).max() == 1 and len(touching) == 1


def check(skeleton, mask):
    """A skeleton is a part of the mask, with its topology, and no voxel but ends can be removed."""
    assert skeleton.dtype == bool
    assert not (skeleton & ~mask).any()
    assert topology(skeleton, mask) == topology(mask, mask)
    inner = skeleton & (neighbours(skeleton) > 1)
    padded = np.pad(skeleton, 1)
    for at in np.argwhere(inner):
        assert not is_simple(padded[tuple(slice(a, a + 3) for a in at)]), at


def masks(draw, shape):
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    noise = rng.random(shape)
    kind = draw(st.sampled_from(["noise", "blobs", "thick", "full"]))
    if kind == "noise":
        return noise < draw(st.sampled_from([0.1, 0.5, 0.9]))
    if kind == "full":
        return np.ones(shape, bool)
    smooth = ndi.gaussian_filter(noise, 1.5 if kind == "blobs" else 3)
    return smooth > np.quantile(smooth, draw(st.sampled_from([0.3, 0.7])))


@pytest.mark.parametrize("dtype", ["?", "u1", "f4"])
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_topology_in_any_partition(dtype, data):
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (14, 17, 19))
    shape = shape[1:] if draw(st.integers(0, 3)) == 0 else shape
    mask = masks(draw, shape)
    values = mask.astype(dtype)
    if dtype == "f4":  # all of them are foreground
        values[mask] = np.random.default_rng(0).choice([np.nan, -np.inf, 0.3], mask.sum())
    slab = tuple(draw(st.integers(-(-n // 3), n)) for n in shape)
    window = draw(st.sampled_from([None, 1, 3]))
    result = bv.skeletonize(bv.open(values), max_num_iter=40)
    found = bv.compute(
        result, runner=None, slab=slab, window=window, workers=draw(st.integers(1, 3))
    )
    np.testing.assert_array_equal(found, np.asarray(result))
    check(found, mask)


@pytest.mark.parametrize("axes", [None, (1, 2), (0, 2), (0, 1), (1,)])
@pytest.mark.parametrize("share", [0.62, 0.72])
def test_halos_suffice(axes, share):
    """Volumes are much larger than the halo, and all iterations are needed."""
    noise = np.random.default_rng(5).random((48, 64, 96))
    smooth = ndi.gaussian_filter(noise, 0.7)
    mask = smooth > np.quantile(smooth, share)
    volume = bv.open(mask)
    needed = next(
        n for n in range(1, 60) if is_stable(bv.skeletonize(volume, max_num_iter=n, axes=axes))
    )
    result = bv.skeletonize(volume, max_num_iter=needed, axes=axes)
    whole = np.asarray(result)
    assert axes is None or needed < 9
    for slab, window in [((7, 64, 96), 1), ((48, 9, 96), 5), ((48, 64, 11), 48), ((13, 21, 33), 2)]:
        found = bv.compute(result, runner=None, slab=slab, window=window)
        np.testing.assert_array_equal(found, whole)


def is_stable(result):
    try:
        return np.asarray(result) is not None
    except ValueError:
        return False


def shapes():
    z, y, x = np.indices((32, 36, 40)) - np.array([16, 18, 20])[:, None, None, None]
    from_centre, from_ring = z**2 + y**2 + x**2, (np.hypot(y, x) - 11) ** 2 + z**2
    return {
        "ball": from_centre < 13**2,
        "torus": from_ring < 4.2**2,
        "two tori": (from_ring < 9) | ((np.hypot(z, x - 8) - 6) ** 2 + y**2 < 5),
        "plate": (np.abs(z) < 2) & (np.abs(y) < 12) & (np.abs(x) < 15),
        "shell": (from_centre < 13**2) & (from_centre > 8**2),
        "tube": (z**2 + y**2 < 25) & (z**2 + y**2 > 4) & (np.abs(x) < 16),
        "cylinder": (z**2 + y**2 < 25) & (np.abs(x) < 16),
        "disk": from_centre[16] < 13**2,
        "annulus": (from_ring < 25)[16],
    }


@pytest.mark.parametrize("name", shapes())
def test_shapes(name):
    mask = shapes()[name]
    skeleton = np.asarray(bv.skeletonize(mask))
    check(skeleton, mask)
    theirs = morphology.skeletonize(mask) > 0
    if name != "plate":  # the axis of a rectangle is not unique
        away = ndi.distance_transform_edt(~theirs)[skeleton].max()
        assert away < 3, away
    if name == "ball":
        assert np.argwhere(skeleton).tolist() == [[16, 18, 20]]
    if name == "cylinder":
        assert (neighbours(skeleton)[skeleton] == 1).sum() == 2
        assert (np.argwhere(skeleton)[:, :2] == (16, 18)).all()
        assert skeleton.sum() > 31 - 2 * 5


def test_lines_are_skeletons():
    """Ends stay, so lines and skeletons are not changed."""
    line = np.zeros((9, 10, 11), bool)
    line[range(9), range(9), range(9)] = line[8, 0] = True
    np.testing.assert_array_equal(bv.skeletonize(line, max_num_iter=1), line)
    mask = ndi.gaussian_filter(np.random.default_rng(0).random((30, 30, 30)), 2) > 0.5
    once = np.asarray(bv.skeletonize(mask))
    np.testing.assert_array_equal(bv.skeletonize(once, max_num_iter=1), once)


@pytest.mark.parametrize("shape", [(0, 3, 4), (5, 0), (1, 1, 1), (1, 1), (1, 1, 7), (7, 1, 1)])
def test_tiny(shape):
    found = np.asarray(bv.skeletonize(np.ones(shape)))
    assert (found.shape, found.dtype) == (shape, bool)
    assert found.sum() == min(1, found.size) if max(shape, default=0) < 2 else True
    assert not np.asarray(bv.skeletonize(np.zeros(shape, bool))).any()


def test_slices_channels_and_time():
    mask = ndi.gaussian_filter(np.random.default_rng(1).random((4, 30, 40)), (0, 2, 2)) > 0.5
    each = np.stack([np.asarray(bv.skeletonize(plane)) for plane in mask])
    np.testing.assert_array_equal(bv.skeletonize(mask, axes=(1, 2)), each)
    turned = bv.skeletonize(np.ascontiguousarray(mask.transpose(1, 0, 2)), axes=(0, 2))
    for k in range(4):
        check(np.asarray(turned)[:, k], mask[k])
    for axes in ("cyx", "tyx"):
        np.testing.assert_array_equal(bv.skeletonize(bv.open(mask, axes=axes)), each)
    volumes = np.stack([mask, mask[::-1]])
    expected = np.stack([np.asarray(bv.skeletonize(v)) for v in volumes])
    for axes in ("czyx", "tzyx"):
        np.testing.assert_array_equal(bv.skeletonize(bv.open(volumes, axes=axes)), expected)


def test_refused():
    mask = np.ones((20, 20, 20), bool)
    for bad in (0, 1.5, 2000):
        with pytest.raises(ValueError, match=f"skeletonize: max_num_iter={bad}"):
            bv.skeletonize(mask, max_num_iter=bad)
    with pytest.raises(ValueError, match="axes=7"):
        bv.skeletonize(mask, axes=7)
    for slab in ((20, 20, 20), (3, 5, 7)):
        with pytest.raises(ValueError, match="after max_num_iter=4 iterations; use max_num_iter=8"):
            bv.compute(bv.skeletonize(mask, max_num_iter=4), runner=None, slab=slab)
