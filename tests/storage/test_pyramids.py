"""Levels of pyramids: their voxels, their metadata, and what other libraries read of them."""

import itertools
import json

import numpy as np
import pytest
import tensorstore as ts
import zarr

import beam_volumes as bv
from tests.sweep.test_ends import reduced
from tests.tiers import thorough

rng = np.random.default_rng(3)
VOXELS = rng.integers(0, 9, (19, 27, 33)).astype("u1")
BLOBS = np.repeat(np.repeat(rng.random((7, 9, 11)) > 0.6, 3, 1), 3, 2).repeat(3, 0)[:19, :27, :33]


def levels_of(array, factors, mode):
    found = [array]
    for by in factors:
        found.append(reduced(found[-1], by, mode))
    return found


@thorough
@pytest.mark.parametrize(
    "slab",
    [
        None,
        (8, 16, 33),
        pytest.param((4, 8, 8), marks=thorough),
        pytest.param((16, 8, 16), marks=thorough),
    ],
)
@pytest.mark.parametrize("path, how", [("x.ome.zarr", {}), ("x.precomputed", {"factors": 2})])
def test_levels_do_not_depend_on_slabs(path, how, slab, tmp_path):
    image = bv.open(VOXELS, voxel_size=(30, 10, 10), unit="nm")
    cells = bv.label(bv.open(BLOBS, voxel_size=(30, 10, 10), unit="nm"))
    factors = [(2, 2, 2)] * 3 if how else [(1, 2, 2), (1, 2, 2), (2, 2, 2)]
    how = {"levels": 4, "chunks": (4, 8, 8), **how}
    targets = image.to(tmp_path / f"i{path}", **how), cells.to(tmp_path / f"c{path}", **how)
    bv.compute(*targets, runner=None, slab=slab)
    assert bv.verify(tmp_path / f"i{path}", checksums=True) == []
    labels = np.asarray(cells)
    for name, array, mode in (("i", VOXELS, False), ("c", labels, True)):
        for k, expected in enumerate(levels_of(array, factors, mode)):
            level = bv.open(tmp_path / f"{name}{path}", level=k)
            assert np.array_equal(np.asarray(level), expected), (name, k)
            size = np.prod([(30, 10, 10), *factors[:k]], axis=0)
            assert level.voxel_size == tuple(size)
            assert level.origin == tuple((size - (30, 10, 10)) / 2)


@thorough
def test_levels_are_those_of_tensorstore_however_the_volume_is_cut(tmp_path):
    """Ten random slabs and windows; `tensorstore.downsample`, level by level, is the reference."""
    random = np.random.default_rng(5)
    image = random.integers(0, 2**16, (11, 19, 23)).astype("u2")
    cells = random.integers(0, 4, (11, 19, 23)).astype("u8") << 40
    v, labels = bv.open(image), bv.open(cells)
    want = {}
    for name, array, method in (("i", image, "mean"), ("c", cells, "mode")):
        want[name] = [array]
        for _ in range(2):
            store = ts.downsample(ts.array(want[name][-1]), [2, 2, 2], method)
            want[name].append(store.read().result())
    how = {"levels": 3, "factors": 2, "chunks": (1, 4, 8)}
    for k in range(10):
        slab = [int(n) for n in random.integers(1, 4, 3) * (4, 8, 16)]
        window = int(random.integers(1, 9))
        target = {
            "i": v.to(tmp_path / f"i{k}.ome.zarr", **how),
            "c": labels.to(tmp_path / f"c{k}.precomputed", **how),
        }
        bv.compute(*target.values(), runner=None, slab=slab, window=window)
        for name, one in target.items():
            for level, expected in enumerate(want[name]):
                found = bv.open(one.sink.name, level=level)
                assert np.array_equal(np.asarray(found), expected), (name, level, slab, window)


def opened(array, axes, place):
    """An array with axes before z, y, x, and a voxel size."""
    ts.open(
        {
            "driver": "zarr3",
            "kvstore": f"file://{place}/",
            "metadata": {"dimension_names": list(axes), "shape": array.shape, "data_type": "uint8"},
            "create": True,
        }
    ).result().write(array).result()
    return bv.open(place, voxel_size=(3, 1, 1), unit="um")


def test_channels_and_points_in_time_have_levels(tmp_path):
    array = rng.integers(0, 255, (2, 3, 5, 17, 19)).astype("u1")
    v = opened(array, "tczyx", tmp_path / "t.zarr")
    bv.compute(v.to(tmp_path / "a.ome.zarr", levels=3, factors=(1, 2, 2), chunks=8), runner=None)
    assert bv.verify(tmp_path / "a.ome.zarr", checksums=True) == []
    told = zarr.open_group(tmp_path / "a.ome.zarr", mode="r").attrs["ome"]["omero"]["channels"]
    coarsest = zarr.open_array(tmp_path / "a.ome.zarr/2", mode="r")[1]  # of the middle point
    low, high = np.percentile(coarsest, (0.5, 99.5), (1, 2, 3), method="nearest")
    windows = [(c["window"]["start"], c["window"]["end"]) for c in told]
    assert windows == list(zip(low, high, strict=True))
    for t, c in itertools.product(range(2), range(3)):
        for k, expected in enumerate(levels_of(array[t, c], [(1, 2, 2)] * 2, False)):
            found = zarr.open_array(tmp_path / f"a.ome.zarr/{k}", mode="r")[t, c]
            assert np.array_equal(found, expected), (t, c, k)
    v = opened(array[0], "czyx", tmp_path / "c.zarr")
    bv.compute(v.to(tmp_path / "a.precomputed", levels=2, factors=2, type="image"), runner=None)
    stored = bv.open(tmp_path / "a.precomputed", level=1)
    assert np.array_equal(np.asarray(stored)[2], reduced(array[0, 2], (2, 2, 2)))


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_metadata_are_those_of_the_specification(version, tmp_path):
    pytest.importorskip("ome_zarr_models")
    schemas = pytest.importorskip("ngff_zarr.validate")
    from ome_zarr_models.v04.image import ImageAttrs
    from ome_zarr_models.v04.image_label import ImageLabelAttrs
    from ome_zarr_models.v05.image import Image

    image = opened(np.stack([VOXELS] * 2), "czyx", tmp_path / "in.zarr")
    cells = bv.label(bv.open(BLOBS, voxel_size=(3, 1, 1), unit="um"))
    for name, v in (("image", image), ("cells", cells)):
        how = {"levels": 3, "ome_version": version, "chunks": 8}
        if version == "0.5":
            how["shards"] = 16
        bv.compute(v.to(tmp_path / f"{name}.ome.zarr", **how), runner=None)
        group = zarr.open_group(tmp_path / f"{name}.ome.zarr", mode="r")
        if version == "0.5":
            told = Image.from_zarr(group).attributes.ome
            about = dict(group.attrs)["ome"]
        else:
            about = dict(group.attrs)
            told = (ImageAttrs if name == "image" else ImageLabelAttrs).model_validate(about)
        (multiscale,) = told.multiscales
        assert [d.path for d in multiscale.datasets] == ["0", "1", "2"]
        scale, shift = multiscale.datasets[1].coordinateTransformations
        assert scale.scale[-3:] == [3.0, 2.0, 2.0] and shift.translation[-3:] == [0.0, 0.5, 0.5]
        method = "mode" if name == "cells" else "mean"
        assert about["multiscales"][0]["type"] == method
        assert about["multiscales"][0]["metadata"]["kwargs"]["method"] == method
        assert ("image-label" in about) == (name == "cells")
        assert ("omero" in about) == (name == "image")
        schemas.validate(about if version == "0.4" else {"ome": about}, version, strict=True)
        if name == "cells":
            schemas.validate(about if version == "0.4" else {"ome": about}, version, "label")
            assert about["image-label"]["colors"][0] == {"label-value": 0, "rgba": [0, 0, 0, 0]}
        else:
            smallest = group["2"][:]
            for channel, voxels in zip(about["omero"]["channels"], smallest, strict=True):
                low, high = np.percentile(voxels, (0.5, 99.5), method="nearest")
                assert channel["window"] == {"min": 0, "max": 255, "start": low, "end": high}
                assert len(channel["color"]) == 6


@pytest.mark.parametrize("dtype, window", [
    ("u2", {"min": 0, "max": 65535, "start": 7, "end": 11}),
    ("f4", {"min": 7.0, "max": 11.0, "start": 7.0, "end": 11.0}),
])  # fmt: skip
def test_windows_of_what_is_nearly_empty(dtype, window, tmp_path):
    """Percentiles of voxels that are all but one the same show nothing; those that are not finite neither."""
    voxels = np.full((4, 16, 20), 7, dtype)
    voxels[0, 0, 0] = 11
    if dtype == "f4":
        voxels[2:] = [[[np.nan]], [[np.inf]]]
    how = {"levels": 2, "factors": (1, 2, 2), "method": "nearest"}
    bv.compute(bv.open(voxels).to(tmp_path / "a.ome.zarr", **how), runner=None)
    group = zarr.open_group(tmp_path / "a.ome.zarr", mode="r")
    (channel,) = group.attrs["ome"]["omero"]["channels"]
    assert channel["window"] == window and channel["color"] == "FFFFFF"


def test_other_libraries_read_all_levels(tmp_path):
    pytest.importorskip("ome_zarr")
    ngff_zarr = pytest.importorskip("ngff_zarr")
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    v = bv.open(VOXELS, voxel_size=(10, 10, 10), unit="nm")
    want = levels_of(VOXELS, [(2, 2, 2)] * 2, False)
    for version in ("0.4", "0.5"):
        where = tmp_path / f"{version}.ome.zarr"
        bv.compute(v.to(where, levels=3, ome_version=version), runner=None)
        node = next(iter(Reader(parse_url(str(where)))()))
        images = ngff_zarr.from_ngff_zarr(str(where), validate=True).images
        for k, expected in enumerate(want):
            for got in (node.data[k], images[k].data):
                assert np.array_equal(np.asarray(got), expected)
            assert images[k].scale == dict.fromkeys("zyx", 10.0 * 2**k)
            assert images[k].translation == dict.fromkeys("zyx", 5.0 * (2**k - 1))
        for k, expected in enumerate(want):
            driver = "zarr" if version == "0.4" else "zarr3"
            spec = {"driver": driver, "kvstore": f"file://{where}/{k}/"}
            assert np.array_equal(ts.open(spec).result().read().result(), expected)
    for shards in (None, True):
        where = tmp_path / f"{shards}.precomputed"
        bv.compute(v.to(where, levels=3, shards=shards, chunks=8), runner=None)
        for k, expected in enumerate(want):
            spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{where}/"}
            found = ts.open({**spec, "scale_index": k}).result()
            assert np.array_equal(found[..., 0].read().result().T, expected)
            assert found.dimension_units[0].multiplier == 10 * 2**k
        resolutions = [s["resolution"] for s in json.loads((where / "info").read_text())["scales"]]
        assert resolutions == [[10] * 3, [20] * 3, [40] * 3]


def test_cloud_volume_reads_all_scales(tmp_path):
    cloudvolume = pytest.importorskip("cloudvolume")
    labels = bv.label(bv.open(BLOBS, voxel_size=(10, 10, 10), unit="nm"))
    bv.compute(labels.to(tmp_path / "a.precomputed", levels=3, shards=True), runner=None)
    for k, expected in enumerate(levels_of(np.asarray(labels), [(2, 2, 2)] * 2, True)):
        volume = cloudvolume.CloudVolume(f"file://{tmp_path}/a.precomputed", mip=k, progress=False)
        assert np.array_equal(np.asarray(volume[:])[..., 0].T, expected)
        assert volume.resolution.tolist() == [10 * 2**k] * 3 and volume.layer_type == "segmentation"


def test_what_is_asked_of_levels_is_checked(tmp_path):
    v = bv.open(np.zeros((600, 2000, 3), "u1"), voxel_size=(40, 10, 10))
    auto = v.to(tmp_path / "a.ome.zarr", levels="auto")
    assert [w.grid_shape for w in auto.levels] == [
        (600, 1000, 2), (600, 500, 1), (300, 250, 1), (150, 125, 1)
    ]  # fmt: skip
    assert not v[:200, :200].to(tmp_path / "a.ome.zarr", levels="auto").levels
    each = v.to(tmp_path / "a.ome.zarr", levels=3, factors=[(1, 2, 1), (3, 3, 3)], method="max")
    assert [w.grid_shape for w in each.levels] == [(600, 1000, 3), (200, 334, 1)]
    for how, words in {
        "levels='many'": "give 'auto' or the number of levels",
        "levels=2, method='middle'": "method='middle'; use one of mean, mode",
        "factors=2": "needs levels=",
        "levels=3, factors=[(2, 2, 2)]": "are for 1 levels after the first, but there are 2",
        "levels=99": "would be as large as the one before",
    }.items():
        with pytest.raises(ValueError, match=words):
            v.to(tmp_path / "a.ome.zarr", **eval(f"dict({how})"))
    with pytest.raises(ValueError, match=r"levels=3 is for \.ome\.zarr, \.precomputed outputs"):
        v.to(tmp_path / "a.zarr", levels=3)
