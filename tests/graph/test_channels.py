"""Channels: numpy's semantics, chunks that hold one channel or all, each decoded once."""

from __future__ import annotations

from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import scipy.ndimage as ndi
import tensorstore as ts
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage import measure

import beam_volumes as bv
from beam_volumes.storage.formats.slices import format as slices

RNG = np.random.default_rng(5)


def voxels(shape=(3, 9, 20, 25), dtype="u1"):
    return RNG.integers(0, 200, shape).astype(dtype)


def computed(v, **options):
    return bv.compute(v, runner=None, progress=False, **options)


def array_of(path, array, chunks, **options):
    """Something that another library has written."""
    store = zarr.open_array(
        str(path), mode="w", shape=array.shape, chunks=chunks, dtype=array.dtype, **options
    )
    store[...] = array
    return path


def test_axes_and_indices_are_numpys():
    x = voxels()
    v = bv.open(x, voxel_size=(4, 1, 1), unit="nm")
    assert v.shape == x.shape and v.ndim == 4 and v.axes == ("c", "z", "y", "x")
    assert v.size == x.size and v.nbytes == x.nbytes and v.voxel_size == (4.0, 1.0, 1.0)
    for key in (
        np.s_[1],
        np.s_[-1],
        np.s_[1:],
        np.s_[:, 2:5],
        np.s_[..., 3],
        np.s_[2, 1:, :4],
        np.s_[0:2, 3, ..., 5:],
        np.s_[::2],
        np.s_[::-1, 1::2],
    ):
        np.testing.assert_array_equal(np.asarray(v[key]), x[key])
    for key in (np.s_[3], np.s_[None], np.s_[3:], np.s_[0, 0, 0, 0, 0]):
        with pytest.raises(IndexError):
            v[key]


def test_channels_by_name():
    x = voxels()
    v = bv.stack(list(x), names=["DAPI", "GFP", "RFP"])
    np.testing.assert_array_equal(computed(v.sel(c="GFP")), x[1])
    np.testing.assert_array_equal(computed(v.sel(c=["RFP", 0])), x[[2, 0]])
    assert v[1:].channels == ("GFP", "RFP") and v.sel(c=["RFP", 0]).channels == ("RFP", "DAPI")
    assert bv.stack([v, v]).channels == tuple("012345")
    assert [c.shape for c in bv.channels(v)] == [x.shape[1:]] * 3
    with pytest.raises(ValueError, match="no channel 'Cy5'; there are DAPI, GFP, RFP"):
        v.sel(c="Cy5")
    with pytest.raises(ValueError, match="3 different names"):
        bv.stack(list(x), names=["a", "b", "b"])
    with pytest.raises(ValueError, match="do not match"):
        bv.stack([x[0], x[1, 1:]])
    with pytest.raises(ValueError, match="no channel axis"):
        v[0].sel(c=0)


def test_neighbourhoods_act_on_each_channel_and_arithmetic_broadcasts():
    x = voxels()
    v = bv.open(x)
    smooth = computed(bv.median_filter(v, 3))
    np.testing.assert_array_equal(smooth, np.stack([ndi.median_filter(c, 3) for c in x]))
    flat = RNG.random(x.shape[1:])
    np.testing.assert_array_equal(computed(v * flat), x * flat)
    np.testing.assert_array_equal(computed(flat - v), flat - x)
    np.testing.assert_array_equal(computed(v + v[1]), x + x[1])
    np.testing.assert_array_equal(computed(bv.where(v[0] > 90, v, 7)), np.where(x[0] > 90, x, 7))
    np.testing.assert_array_equal(computed(bv.flip(v, 1)), x[:, ::-1])
    np.testing.assert_array_equal(computed(bv.transpose(v)), x.transpose(0, 3, 2, 1))
    np.testing.assert_array_equal(
        computed(bv.pad(v, 2, mode="edge")), np.pad(x, [(0, 0), (2, 2), (2, 2), (2, 2)], "edge")
    )
    with pytest.raises(ValueError, match="do not match"):
        v + v[:2]
    with pytest.raises(ValueError, match="which is not a spatial axis"):
        bv.gaussian_filter(v, 1, axes=0)


@pytest.mark.parametrize("axis", [None, 0, "z", ("y", "x"), (0, 1), (-1, -2, -3), ("c", "x")])
def test_reductions_are_over_all_channels_or_each(axis):
    x = voxels()
    v, number = bv.open(x), {"c": 0, "z": 1, "y": 2, "x": 3}
    items = axis if isinstance(axis, tuple) else (axis,)
    axes = None if axis is None else tuple(number.get(a, a) for a in items)
    np.testing.assert_array_equal(np.asarray(bv.sum(v, axis=axis)), x.sum(axes))
    np.testing.assert_array_equal(np.asarray(bv.max(v, axis=axis)), x.max(axes))
    for q in (50, [10, 90]):
        ours = np.asarray(bv.percentile(v, q, axis=axis))
        np.testing.assert_allclose(ours, np.percentile(x, q, axis=axes))
    mask = x[0] > 60
    masked = np.asarray(bv.mean(v, axis=axis, mask=mask))
    np.testing.assert_allclose(masked, x.mean(axes, where=np.broadcast_to(mask, x.shape)))


def test_no_channels_and_no_time_points_are_refused():
    for axes, parts in (("czyx", "channels"), ("tzyx", "time points")):
        with pytest.raises(ValueError, match=f"has no {parts}; give at least one"):
            bv.open(np.zeros((0, 3, 4, 5), "u1"), axes=axes)


def test_what_needs_one_channel_says_so():
    v = bv.stack(list(voxels()), names=["DAPI", "GFP", "RFP"])
    for needs in (
        bv.label,
        bv.distance_transform_edt,
        bv.regionprops_table,
        bv.remove_small_objects,
        bv.minimum_position,
        bv.center_of_mass,
    ):
        with pytest.raises(ValueError, match=r"one channel.*DAPI, GFP, RFP.*v\.sel\(c='DAPI'\)"):
            needs(v)


CHUNKS = {
    "a channel": (1, 4, 8, 16),
    "all channels": (3, 4, 8, 16),
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("version", [2, 3])
def test_foreign_arrays_give_all_channels(tmp_path, chunks, version):
    x = voxels(dtype="u2")
    array_of(tmp_path / "in.zarr", x, chunks, zarr_format=version)
    v = bv.open(tmp_path / "in.zarr")
    np.testing.assert_array_equal(computed(v[:, 1:, 3:]), x[:, 1:, 3:])
    np.testing.assert_array_equal(computed(v.sel(c=[2, 0])), x[[2, 0]])
    shifted = v[0] + bv.gaussian_filter(v[2], 1, dtype="u2")
    wanted = x[0] + np.asarray(bv.gaussian_filter(x[2], 1, dtype="u2"))
    np.testing.assert_array_equal(computed(shifted), wanted)


@settings(deadline=None, max_examples=15)
@given(
    st.sampled_from(["zarr", "ome-zarr"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([(4, 20, 25), (8, 8, 16), (3, 7, 25)]),
)
def test_outputs_come_back_whatever_their_chunks(tmp_path_factory, form, all_, old, count, chunk):
    folder = tmp_path_factory.mktemp("out")
    x = voxels((count, 9, 20, 25), "u2")
    v = bv.stack(list(x), names=[f"dye {k}" for k in range(count)])
    versions = {"zarr_version": 2} if old and form == "zarr" else {}
    versions |= {"ome_version": "0.4"} if old and form == "ome-zarr" else {}
    chunks = (count if all_ else 1, *chunk)
    target = v.to(folder / "out", format=form, chunks=chunks, **versions)
    with zarr_counts() as written:
        result = computed(target)
    whole = [-(-n // c) for n, c in zip(x.shape, chunks, strict=True)]
    assert written(folder / "out") == int(np.prod(whole))
    assert result.channels == v.channels
    np.testing.assert_array_equal(np.asarray(result), x)
    assert bv.verify(folder / "out", checksums=True) == []
    foreign = zarr.open(str(folder / "out"), mode="r")
    foreign = foreign["0"] if form == "ome-zarr" else foreign
    np.testing.assert_array_equal(foreign[...], x)


def zarr_counts():
    """Counts the chunk files of an output."""

    class Counting:
        def __enter__(self):
            return lambda path: sum(
                f.is_file()
                and all(p.isdigit() for p in f.relative_to(path).parts if p not in "c0")
                and f.name.isdigit()
                for f in Path(path).rglob("*")
            )

        def __exit__(self, *_):
            pass

    return Counting()


def test_sharded_outputs_with_channels(tmp_path):
    x = voxels()
    target = bv.open(x).to(tmp_path / "o.zarr", chunks=(1, 4, 8, 16), shards=(1, 8, 16, 32))
    np.testing.assert_array_equal(np.asarray(computed(target)), x)
    assert bv.verify(tmp_path / "o.zarr") == []
    with pytest.raises(ValueError, match="one channel, or all 3"):
        bv.open(x).to(tmp_path / "p.zarr", chunks=(2, 4, 8, 16))


def test_slabs_tiles_and_passes_do_not_change_a_bit(tmp_path):
    x = voxels((3, 24, 32, 40), "u2")
    v = bv.open(array_of(tmp_path / "in.zarr", x, (3, 8, 16, 16)))
    smooth = bv.gaussian_filter(v, 1)
    chosen = bv.stack([smooth > bv.threshold_otsu(smooth), bv.stack([v[0] > bv.mean(v)])])
    results = []
    for k, slab in enumerate([(24, 32, 40), (8, 16, 20), (8, 32, 40)]):
        for unit in (1, 4):
            target = chosen.to(tmp_path / f"{k}{unit}.zarr", chunks=(unit, 8, 16, 20))
            results.append(np.asarray(computed(target, slab=slab, workers=2)))
    for other in results:
        np.testing.assert_array_equal(other, results[0])
    np.testing.assert_array_equal(results[0][3], x[0] > x.mean())


def test_a_chunk_with_all_channels_is_decoded_once(tmp_path):
    reads = []
    x = voxels((3, 8, 16, 16))

    def read(domain, out, _):
        reads.append(domain)
        out[...] = x[domain.index_exp]

    layout = ts.ChunkLayout(chunk_shape=[3, 4, 8, 16])
    handle = ts.virtual_chunked(read, dtype=ts.uint8, shape=x.shape, chunk_layout=layout)
    array_of(tmp_path / "in.zarr", x, (3, 4, 8, 16))
    v = bv.open(tmp_path / "in.zarr")
    from beam_volumes.base.geometry import Box
    from beam_volumes.storage.places.transfer import read_channels

    out = [np.zeros((8, 16, 16), "u1") for _ in range(2)]
    box = Box.of_shape((8, 16, 16))
    read_channels(handle, [(0, box, out[0]), (2, box, out[1])], False).result()
    assert len(reads) == 4
    np.testing.assert_array_equal(out, x[[0, 2]])
    planned = bv.plan((bv.gaussian_filter(v, 1)).to(tmp_path / "out.zarr"))
    assert planned.passes[0].chunks_read == 4 and planned.passes[0].bytes_read == x.nbytes


def test_colours_of_slices_are_decoded_once(tmp_path):
    x = RNG.integers(0, 255, (7, 12, 10, 3), dtype="u1")
    for z, image in enumerate(x):
        (tmp_path / f"s{z}.png").write_bytes(imagecodecs.png_encode(image))
    v = bv.open(tmp_path)
    assert v.channels == ("red", "green", "blue") and v.shape == (3, 7, 12, 10)
    before = slices.decoded
    np.testing.assert_array_equal(computed(v), np.moveaxis(x, -1, 0))
    assert slices.decoded - before == len(x)
    np.testing.assert_array_equal(computed(v.sel(c="green")), x[..., 1])


def test_resumed_with_channels(tmp_path):
    x = voxels((2, 16, 16, 16))
    v = bv.open(array_of(tmp_path / "in.zarr", x, (2, 8, 16, 16)))
    target = (v + 1).to(tmp_path / "out.zarr", chunks=(2, 8, 16, 16))
    again = bv.compute(
        target, runner=None, journal=str(tmp_path / "j"), keep_journal=True, slab=(8, 16, 16)
    )
    bv.compute(
        target,
        runner=None,
        journal=str(tmp_path / "j"),
        keep_journal=True,
        slab=(8, 16, 16),
        resume=True,
    )
    np.testing.assert_array_equal(np.asarray(again), x + 1)


def test_a_function_of_all_channels():
    x = voxels(dtype="f4")
    v = bv.stack(list(x), names=["a", "b", "c"])
    flat = RNG.random(x.shape[1:]).astype("f4")

    def shares(block, flat):
        assert block.shape[0] == 3 and flat.shape[0] == 1
        return np.stack([block.max(0), (block * flat).sum(0)])

    for slab in (None, (4, 20, 25), (3, 7, 25)):
        mixed = bv.map_overlap(
            shares, v, flat, depth=(0, 1, 2), mixes="channels", channels=["most", "sum"]
        )
        assert mixed.channels == ("most", "sum") and mixed.dtype == np.float32
        wanted = np.stack([x.max(0), (x * flat).sum(0)])
        np.testing.assert_array_equal(computed(mixed, slab=slab), wanted)
        np.testing.assert_array_equal(computed(mixed.sel(c="sum") * 2, slab=slab), wanted[1] * 2)
    each = bv.map_overlap(lambda a, b: a + b, v, flat)
    np.testing.assert_array_equal(computed(each), x + flat)
    with pytest.raises(ValueError, match="returned shape"):
        computed(bv.map_overlap(lambda a: a[:2], v, mixes="channels"))
    with pytest.raises(ValueError, match="is for mixes"):
        bv.map_overlap(shares, v, channels=2)


@pytest.mark.parametrize("names", [None, ["DAPI", "GFP", "RFP"]])
def test_tables_of_intensities_with_channels_are_scikit_images(names):
    x = voxels((3, 9, 20, 25), "f4")
    labels = (RNG.random((9, 20, 25)) > 0.9).astype("u1") * RNG.integers(1, 6, (9, 20, 25), "u1")
    wanted = ["label", "area", "intensity_mean", "intensity_max", "centroid_weighted", "bbox"]
    v = bv.stack(list(x), names=names)
    for slab in (None, (3, 7, 25)):
        table = computed(bv.regionprops_table(labels, v, properties=wanted), slab=slab).to_pydict()
        theirs = measure.regionprops_table(
            labels.astype(int), np.moveaxis(x, 0, -1), properties=wanted
        )
        for name, column in theirs.items():
            base, _, channel = name.rpartition("-")
            if names and base.startswith(("intensity", "centroid_weighted")):
                name = f"{base}-{names[int(channel)]}"
            np.testing.assert_allclose(table.pop(name), column, rtol=1e-5, err_msg=name)
        assert not table
    with pytest.raises(ValueError, match=r"one channel is needed.*v\[0\]"):
        bv.region_adjacency(labels, v)
