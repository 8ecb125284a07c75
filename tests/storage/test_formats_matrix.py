"""Every format that is written, by its declarations: dtypes, axes, channels, voxel size, origin, masks.

A format that is added is tested by itself. What a format has no place for stands in `LOSES`.
"""

import tracemalloc

import imagecodecs
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.base.space import METRES, Space
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.storage.formats.format import WritableFormat
from beam_volumes.storage.formats.registry import writable
from beam_volumes.storage.outputs.sink import make_sink
from beam_volumes.storage.sources.source import DTYPES
from tests.tiers import is_common

SHAPES = {"volume": (9, 20, 30), "image": (20, 30), "voxel": (1, 1, 1)}
#: By format, properties without a place; all others keep everything.
LOSES = {
    "npy": {"space"},
    "raw": {"space"},
    "mrc": {"channels"},
}
#: How a file without a description is opened.
TOLD = {"raw": lambda v: {"shape": v.shape, "dtype": v.dtype.str}}
CASES = [(name, dtype) for name, f in writable().items() for dtype in map(np.dtype, DTYPES)]
#: Each with a common dtype; of the others each format has one of the shapes.
SHAPED = [
    (*case, shape)
    for k, case in enumerate(CASES)
    for j, shape in enumerate(SHAPES)
    if is_common(case[1]) or (j + k) % len(SHAPES) == 0
]


def voxels(shape, dtype):
    """Numbers over the range of a dtype; of floats not only whole ones."""
    rng = np.random.default_rng(5)
    if dtype.kind == "b":
        return rng.random(shape) < 0.3
    if dtype.kind == "f":
        return rng.normal(0, 100, shape).astype(dtype)
    ends = np.iinfo(dtype)
    return rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)


def place(folder, name):
    return folder / f"out{writable()[name].suffixes[0].removeprefix('*')}"


def written(path, volume, name, **how):
    return bv.compute(volume.to(path, format=name, **how), runner=None, progress=False)


def written_anew(path, volume, name):
    target = volume.to(path, format=name)
    return bv.compute(target, runner=None, progress=False, overwrite=True)


def opened(path, name, like):
    return bv.open(path, **TOLD.get(name, lambda v: {})(like))


def check_space(found, wanted):
    """They lie alike, whichever units a format has."""
    found = found.space.in_unit(wanted.space.unit)
    for got, want in (
        (found.voxel_size, wanted.space.voxel_size),
        (found.origin, wanted.space.origin),
    ):
        axes = list(wanted.space.visible)
        np.testing.assert_allclose(np.take(got, axes), np.take(want, axes), rtol=1e-6)


#: Formats that encode units themselves, not by TensorStore.
ENCODES = [n for n, f in writable().items() if type(f).encode is not WritableFormat.encode]


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
@pytest.mark.parametrize("name", ENCODES)
def test_a_unit_is_encoded_in_the_declared_memory(tmp_path, name, dtype):
    """No more, and an eighth of the declaration would be too little."""
    writer = writable()[name]
    if np.dtype(dtype) not in writer.dtypes:
        pytest.skip(f"{name} has no {dtype}")
    shape, path = (16, 512, 512), place(tmp_path, name)
    sink = make_sink(path, shape=shape, dtype=dtype, space=Space(), format=name)
    whole = np.random.default_rng(0).integers(0, 256, (*sink.unit, np.dtype(dtype).itemsize), "u1")
    wide = np.zeros((*sink.unit[:2], sink.unit[2] + 8), dtype)
    wide[..., :-8] = whole.view(dtype)[..., 0]
    voxels = wide[..., :-8]  # rows of a slab are not contiguous
    writer.encode(sink, voxels)
    tracemalloc.start()
    try:
        writer.encode(sink, voxels)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    declared = writer.copies(sink) * sink.unit_bytes
    assert declared / 8 < peak <= declared + (1 << 18)


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        (n, a)
        for n in writable()
        for a in ("zyx", "zyxc")[: 1 if "channels" in LOSES.get(n, ()) else 2]
    ],
)
def test_a_chunk_is_decoded_in_the_declared_memory(tmp_path, name, axes):
    """No more, and a fourth of the bytes that are decoded at once would be too little."""
    array = np.random.default_rng(0).integers(0, 999, (16, 512, 512, 3)[: len(axes)], "u2")
    volume, path = bv.open(array, axes=axes), place(tmp_path, name)
    written(path, volume, name)
    node = opened(path, name, volume)
    node = (node.sel(c=0) if "c" in axes else node).node
    while not isinstance(node, SourceNode):
        node = node.operand
    source = node.source
    box = tuple(slice(0, n) for n in source.chunk)
    source.open()[box].read().result()
    tracemalloc.start()
    try:
        source.open()[box].read().result()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    others = (source.channels_per_chunk - 1) * source.chunk_bytes
    assert peak <= 2 * (source.decode_bytes + others) + source.chunk_bytes + (1 << 18)
    assert not source.decode_bytes or peak < 4 * source.decode_bytes


@pytest.mark.parametrize(("name", "dtype", "kind"), SHAPED, ids=str)
def test_there_and_back(tmp_path, name, dtype, kind):
    shape = SHAPES[kind]
    if dtype not in writable()[name].dtypes and dtype.kind != "b":
        with pytest.raises(ValueError, match=f"{name}.* cannot store {dtype}|; convert by astype"):
            bv.open(np.zeros(shape, dtype)).to(place(tmp_path, name), format=name)
        return
    array = voxels(shape, dtype)
    size, origin = (40, 8, 6)[-len(shape) :], (80, 16, 30)[-len(shape) :]
    volume = bv.open(array, voxel_size=size, unit="nm", origin=origin)
    path = place(tmp_path, name)
    given = written(path, volume, name)
    back = opened(path, name, volume)
    for found in (given, back):
        assert found.shape == shape and found.axes == volume.axes
        np.testing.assert_array_equal(np.asarray(found), array)
    lost = LOSES.get(name, set())
    assert given.dtype == back.dtype == dtype
    if "space" in lost:
        assert back.voxel_size is None and not any(back.origin)
    else:
        check_space(back, volume)
    check_space(given, volume)
    assert bv.verify(path, checksums=True) == []


@pytest.mark.parametrize("name", writable())
def test_a_filter_of_it_is_that_of_the_array(tmp_path, name):
    dtype = np.dtype("u1") if np.dtype("u1") in writable()[name].dtypes else np.dtype("i2")
    array = voxels((11, 23, 17), dtype)
    written(place(tmp_path, name), bv.open(array), name)
    volume = opened(place(tmp_path, name), name, bv.open(array))
    wanted = np.asarray(bv.maximum_filter(bv.open(array), 3))
    np.testing.assert_array_equal(np.asarray(bv.maximum_filter(volume, 3)), wanted)
    part = np.asarray(bv.maximum_filter(volume[2:9, 5:, :-4], 3))
    np.testing.assert_array_equal(
        part, np.asarray(bv.maximum_filter(bv.open(array[2:9, 5:, :-4]), 3))
    )


@pytest.mark.parametrize("name", [n for n, f in writable().items() if f.channels != "none"])
def test_channels(tmp_path, name):
    array = voxels((3, 4, 10, 12), np.dtype("u2"))
    volume = bv.stack(list(array), names=["DAPI", "GFP", "RFP"])
    if "channels" in LOSES.get(name, ()):  # it has time points alone
        with pytest.raises(ValueError, match="no channels; select one"):
            volume.to(place(tmp_path, name), format=name)
        return
    back = written(place(tmp_path, name), volume, name)
    like = bv.open(np.zeros((3, 4, 10, 12), "u2"))
    for found in (back, opened(place(tmp_path, name), name, like)):
        assert found.axes == ("c", "z", "y", "x")
        np.testing.assert_array_equal(np.asarray(found), array)


@pytest.mark.parametrize("name", writable())
def test_a_crop_lies_where_it_lay(tmp_path, name):
    if "space" in LOSES.get(name, ()):
        pytest.skip("it has no place for an origin")
    volume = bv.open(voxels((6, 20, 30), np.dtype("u2")), voxel_size=(40, 8, 6), unit="nm")[2:5, 7:]
    written(place(tmp_path, name), volume, name)
    check_space(bv.open(place(tmp_path, name)), volume)


@pytest.mark.parametrize("name", writable())
def test_a_file_in_place_of_another_kind(tmp_path, name):
    """A process keeps handles: bytes, a mask and bytes again of one shape lie at other places of a file."""
    dtype = next(d for d in map(np.dtype, ("u1", "i1")) if d in writable()[name].dtypes)
    array = voxels((5, 12, 14), dtype)
    for each in (array, array > 3, array):
        written_anew(place(tmp_path, name), bv.open(each), name)
        back = opened(place(tmp_path, name), name, bv.open(each))
        assert back.dtype == each.dtype
        np.testing.assert_array_equal(np.asarray(back), each)


#: The way of a volume through tools of several fields; those that are not there are left out.
CHAIN = {
    "ome-zarr": {"shards": (8, 32, 32), "chunks": (4, 16, 16)},
    "precomputed": {},
    "hdf5": {},
    "tiff": {},
    "mrc": {},
    "zarr": {"zarr_version": 2},
}


@pytest.mark.parametrize("chain", [CHAIN, {n: {} for n in writable()}], ids=["chain", "all"])
def test_from_slices_through_one_after_the_other(tmp_path, chain):
    """Voxels and positions survive; formats without a place for them are given them again."""
    array = voxels((13, 37, 41), np.dtype("u1"))
    (tmp_path / "slices").mkdir()
    for z, image in enumerate(array):
        (tmp_path / f"slices/{z:03}.png").write_bytes(imagecodecs.png_encode(image))
    first = bv.open(tmp_path / "slices", voxel_size=(40, 8, 6), unit="nm", origin=(80, 16, 0))
    volume = first
    for k, (name, how) in enumerate(chain.items()):
        if name not in writable():
            continue
        folder = tmp_path / str(k)
        folder.mkdir()
        dtype = None if volume.dtype in writable()[name].dtypes else "u2"
        written(place(folder, name), volume, name, dtype=dtype, **how)
        before = volume if dtype is None else volume.astype(dtype)
        volume = opened(place(folder, name), name, before)
        if "space" in LOSES.get(name, ()):
            volume = volume.with_space(before)
        np.testing.assert_array_equal(np.asarray(volume), array)
        check_space(volume, first)


@pytest.mark.parametrize("unit", METRES)
def test_every_unit_of_length_comes_back_from_every_format(tmp_path, unit):
    volume = bv.open(np.zeros((2, 3, 4), "u1"), voxel_size=(3, 2, 1), unit=unit)
    for name, format in writable().items():
        if np.dtype("u1") in format.dtypes and "space" not in LOSES.get(name, ()):
            written(tmp_path / name / place(tmp_path, name).name, volume, name)
            found = bv.open(tmp_path / name / place(tmp_path, name).name)
            assert found.unit is not None, name
            check_space(found, volume)


@pytest.mark.parametrize(("short", "unit"), [("dm", "decimeter"), ("ft", "foot"), ("thou", "mil")])
def test_short_names_of_units(short, unit):
    volume = bv.open(np.zeros((2, 3, 4), "u1"), voxel_size=1, unit=short)
    assert volume.unit == unit and volume.space.in_unit("inch").unit == "inch"
