"""Zarr arrays and OME-Zarr images, in and out."""

from __future__ import annotations

import json
import pickle
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
import tensorstore as ts

from beam_volumes.base.geometry import Box, Grid
from beam_volumes.base.space import Space
from beam_volumes.storage import (
    OutputExistsError,
    default_chunk,
    make_sink,
    open_source,
    read_into,
    write_units,
)

SPACE = Space(voxel_size=(10.0, 4.0, 4.5), unit="nanometer", origin=(5.0, 0.0, 1.0))
SHAPE = (37, 50, 70)
#: Of 10 million chunks of 16 x 64 x 64, and one more along z.
MANY = (160, 64_000, 64_000)
LAYOUTS = {
    "v3.zarr": dict(chunks=(8, 32, 32)),
    "raw.zarr": dict(chunks=(8, 32, 32), codec=None),
    "blosc.zarr": dict(chunks=(8, 32, 32), codec={"name": "blosc", "level": 3}),
    "default.zarr": {},
    "v2.zarr": dict(chunks=(8, 32, 32), zarr_version=2),
    "v2blosc.zarr": dict(chunks=(8, 32, 32), zarr_version=2, codec="blosc"),
    "sharded.zarr": dict(chunks=(8, 16, 32), shards=(16, 32, 64)),
    "new.ome.zarr": dict(chunks=16),
    "old.ome.zarr": dict(chunks=16, ome_version="0.4"),
    "sharded.ome.zarr": dict(shards=True),
}


def voxels(dtype="u2", shape=SHAPE, seed=0):
    return np.random.default_rng(seed).integers(1, 120, shape).astype(dtype)


def strided(array):
    """The same voxels as a view into something larger."""
    ring = np.zeros([n + 7 for n in array.shape], array.dtype)
    view = ring[tuple(slice(3, 3 + n) for n in array.shape)]
    view[...] = array
    return view


def write_all(sink, array, run="run", layers=True):
    sink.create(run)
    step = tuple(max(1, n) for n in sink.shape)
    for box in Grid(sink.shape, (sink.unit[0], *step[1:]) if layers else step):
        write_units(sink.open(), box, array[box.slices]).result()


def counters():
    found = {}
    for metric in ts.experimental_collect_matching_metrics("/tensorstore/kvstore/file/"):
        value = metric["values"][0]
        found[metric["name"].rpartition("/")[2]] = value.get("value", value.get("count", 0))
    return found


def counted(before, name):
    return counters().get(name, 0) - before.get(name, 0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_round_trip(tmp_path: Path, name: str) -> None:
    array = voxels()
    sink = make_sink(tmp_path / name, shape=SHAPE, dtype=array.dtype, space=SPACE, **LAYOUTS[name])
    sink = pickle.loads(pickle.dumps(sink))
    write_all(sink, strided(array))
    for source in (open_source(tmp_path / name), sink.read_back()):
        source = pickle.loads(pickle.dumps(source))
        assert source.shape == SHAPE and source.dtype == array.dtype
        assert source.chunk == sink.chunk and source.space == SPACE
        np.testing.assert_array_equal(source.read(), array)
        crop = source.crop(Box((3, 5, 7), (30, 44, 60)))
        assert crop.chunk_origin == tuple(
            -s % -c for s, c in zip((3, 5, 7), crop.chunk, strict=True)
        )
        assert crop.space.origin == (35.0, 20.0, 32.5)
        out = strided(np.zeros((10, 20, 30), array.dtype))
        read_into(crop.open(), Box((1, 2, 3), (11, 22, 33)), out).result()
        np.testing.assert_array_equal(out, array[4:14, 7:27, 10:40])


@pytest.mark.parametrize("name", LAYOUTS)
def test_zarr_python_reads_it(tmp_path: Path, name: str) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    array = voxels("f4")
    sink = make_sink(tmp_path / name, shape=SHAPE, dtype="f4", space=SPACE, **LAYOUTS[name])
    write_all(sink, array)
    node = zarr.open(str(tmp_path / name), mode="r")
    stored = node["0"] if "ome" in name else node
    np.testing.assert_array_equal(stored[:], array)
    if "ome" in name:
        ome = node.attrs.get("ome", node.attrs)
        image = ome["multiscales"][0]
        assert [a["name"] for a in image["axes"]] == ["z", "y", "x"]
        assert {a["unit"] for a in image["axes"]} == {"nanometer"}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("again", [False, True])
def test_each_unit_is_written_once_and_nothing_read(tmp_path: Path, name: str, again: bool) -> None:
    sink = make_sink(tmp_path / name, shape=SHAPE, dtype="u2", **LAYOUTS[name])
    sink.create("run")
    if again:
        write_all(sink, voxels(seed=1))
    handle, array = sink.open(), strided(voxels())
    before = counters()
    write_units(handle, Box.of_shape(SHAPE), array).result()
    assert counted(before, "write") == len(sink.grid)
    assert counted(before, "bytes_read") == counted(before, "read") == 0
    np.testing.assert_array_equal(sink.read_back().read(), array)


def test_chunks_of_the_fill_value_are_not_stored(tmp_path: Path) -> None:
    for name in ("v3.zarr", "sharded.zarr"):
        sink = make_sink(tmp_path / name, shape=SHAPE, dtype="u2", **LAYOUTS[name])
        write_all(sink, np.zeros(SHAPE, "u2"), layers=False)
        assert [p.name for p in (tmp_path / name).rglob("*") if p.is_file()] == ["zarr.json"]
        assert not sink.read_back().read().any()


@pytest.mark.parametrize("dtype", ["bool", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("name", ["v3.zarr", "v2.zarr", "old.ome.zarr"])
def test_dtypes(tmp_path: Path, dtype: str, name: str) -> None:
    array = voxels() > 60 if dtype == "bool" else voxels(dtype)
    sink = make_sink(tmp_path / name, shape=SHAPE, dtype=dtype, **LAYOUTS[name])
    write_all(sink, array)
    source = open_source(tmp_path / name)
    assert source.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(source.read(), array)


@pytest.mark.parametrize("name", ["a.zarr", "a.ome.zarr", "b.ome.zarr"])
def test_two_dimensions_stay_two(tmp_path: Path, name: str) -> None:
    array = voxels(shape=(1, 50, 70))
    space = Space(axes=("y", "x"), voxel_size=(1.0, 2.0, 3.0), unit="micrometer")
    version = {"ome_version": "0.4"} if name.startswith("b") else {}
    sink = make_sink(
        tmp_path / name, shape=(1, 50, 70), dtype="u2", space=space, chunks=(32, 32), **version
    )
    write_all(sink, array)
    source = open_source(tmp_path / name)
    assert source.space == space and source.shape == (1, 50, 70)
    np.testing.assert_array_equal(source.read(), array)


@pytest.mark.parametrize("shape", [(0, 5, 6), (1, 1, 1), (5, 1, 9)])
def test_small_shapes(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    array = voxels(shape=shape)
    for name, options in {"a.zarr": {}, "s.zarr": dict(shards=True), "o.ome.zarr": {}}.items():
        sink = make_sink(tmp_path / name, shape=shape, dtype="u2", **options)
        write_all(sink, array, layers=False)
        np.testing.assert_array_equal(open_source(tmp_path / name).read(), array)


def test_default_chunks_hold_two_megabytes() -> None:
    for itemsize in (1, 2, 4, 8):
        for shape in ((1000, 1000, 1000), (1, 30000, 30000), (5000, 100, 100), (3, 200, 90000)):
            chunk = default_chunk(shape, itemsize)
            assert 2 << 20 <= np.prod(chunk) * itemsize <= 8 << 20
    assert default_chunk((4, 5, 6), 1) == (4, 5, 6)


def test_create_clears_once_per_run(tmp_path: Path) -> None:
    for name in ("v3.zarr", "v2.zarr", "new.ome.zarr", "old.ome.zarr"):
        sink = make_sink(tmp_path / name, shape=SHAPE, dtype="u2", **LAYOUTS[name])
        assert not sink.exists() and sink.existing_run() is None
        write_all(sink, voxels(), run="first")
        assert sink.exists() and sink.existing_run() == "first"
        sink.create("first")
        sink.create("first", overwrite=True)
        np.testing.assert_array_equal(sink.read_back().read(), voxels())
        with pytest.raises(OutputExistsError, match="overwrite=True"):
            sink.create("second")
        sink.create("second", overwrite=True)
        assert sink.existing_run() == "second" and not sink.read_back().read().any()


def test_overwrite_spares_what_is_not_zarr(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    sink = make_sink(tmp_path, format="zarr", shape=SHAPE, dtype="u2")
    with pytest.raises(OutputExistsError, match="not zarr"):
        sink.create("run", overwrite=True)
    assert (tmp_path / "precious.txt").exists()


def test_misaligned_writes_are_refused(tmp_path: Path) -> None:
    sink = make_sink(tmp_path / "a.zarr", shape=SHAPE, dtype="u2", chunks=(8, 32, 32))
    sink.create("run")
    with pytest.raises(ValueError, match="whole write units"):
        write_units(sink.open(), Box((0, 0, 0), (7, 50, 70)), voxels()[:7])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(codec="lzma"), "zstd, gzip, blosc"),
        (dict(codec={"name": "zstd", "level": 99}), "level from 0 to 22"),
        (dict(dtype="c8"), "astype"),
        (dict(zarr_version=2, shards=True), "zarr v3"),
        (dict(shards=(16, 16, 16), chunks=(6, 6, 6)), "whole multiples"),
        (dict(chunks=(1, 2)), "one per axis z, y, x"),
        (dict(ome_version="0.5"), "ome.zarr"),
        (dict(format="bmp"), "ome-zarr, zarr"),
    ],
)
def test_impossible_sinks(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_sink("a.zarr", **{"shape": SHAPE, "dtype": "u1", **options})


def test_a_spec_with_metadata_reads_nothing(tmp_path: Path) -> None:
    shape = (5000, 350000, 500000)
    sink = make_sink(tmp_path / "huge.zarr", shape=shape, dtype="u1")
    source = open_source(sink.writer.spec(sink, shape))
    assert source.shape == shape and source.dtype == np.uint8 and source.chunk == sink.chunk
    assert list(tmp_path.iterdir()) == []
    part = source.crop(Box((0, 0, 0), (1, 1, 1)))
    with pytest.raises(FileNotFoundError, match="huge"):
        part.read()


def test_missing_chunks_are_zero(tmp_path: Path) -> None:
    sink = make_sink(tmp_path / "a.zarr", shape=SHAPE, dtype="u2")
    sink.create("run")
    assert not open_source(tmp_path / "a.zarr").read().any()


@pytest.mark.parametrize("name", ["v3.zarr", "raw.zarr", "v2.zarr", "v2blosc.zarr", "sharded.zarr"])
def test_a_corrupt_chunk_is_named(tmp_path: Path, name: str) -> None:
    sink = make_sink(tmp_path / name, shape=SHAPE, dtype="u2", **LAYOUTS[name])
    write_all(sink, voxels())
    chunk = next(p for p in sorted((tmp_path / name).rglob("*")) if p.is_file() and p.name == "1")
    chunk.write_bytes(chunk.read_bytes()[:50])
    with pytest.raises(OSError, match=r"damaged") as error:
        open_source(tmp_path / name).read()
    assert str(chunk) in str(error.value)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    sink = make_sink(tmp_path / "a.zarr", shape=SHAPE, dtype="u2", codec=None)
    sink.create("run")
    handle = sink.open()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
        with pytest.raises(OSError, match=r"full disk.*resume=True"):
            write_units(handle, Box.of_shape(SHAPE), voxels()).result()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not sink.read_back().read().any()


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    sink = make_sink(tmp_path / "file" / "a.zarr", shape=SHAPE, dtype="u2")
    with pytest.raises(OSError, match=r"a\.zarr"):
        sink.create("run")


def zarr2(path: Path, array: np.ndarray, attributes: dict | None = None) -> None:
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{path}/"}}
    store = ts.open(spec, create=True, dtype=array.dtype, shape=array.shape).result()
    store.write(array).result()
    if attributes is not None:
        (path / ".zattrs").write_text(json.dumps(attributes))


def test_axes_by_number_and_name(tmp_path: Path) -> None:
    array = voxels(shape=(2, 3, 4, 5, 6))
    zarr2(tmp_path / "5", array)
    everything = open_source(tmp_path / "5")
    assert everything.space.leading == ("t", "c") and everything.leading == (2, 3)
    np.testing.assert_array_equal(everything.read(), array)
    source = open_source(tmp_path / "5", index={"t": 1, "c": -1})
    np.testing.assert_array_equal(source.read(), array[1, -1])
    zarr2(tmp_path / "4", array[:1, 1])
    four = open_source(tmp_path / "4")
    assert (four.space.leading, four.leading) == (("c",), (1,))
    np.testing.assert_array_equal(four.read(), array[:1, 1])
    zarr2(tmp_path / "2", array[0, 0, 0])
    flat = open_source(tmp_path / "2", voxel_size=(4, 5), unit="µm")
    assert flat.space == Space(("y", "x"), (1.0, 4.0, 5.0), "micrometer")
    np.testing.assert_array_equal(flat.read()[0], array[0, 0, 0])
    zarr2(tmp_path / "xyz", array[0, 0], {"_ARRAY_DIMENSIONS": ["x", "y", "z"]})
    np.testing.assert_array_equal(open_source(tmp_path / "xyz").read(), array[0, 0].T)
    with pytest.raises(ValueError, match="no axis 'c'"):
        open_source(tmp_path / "2", index={"c": 0})


def test_ome_levels_channels_and_scale(tmp_path: Path) -> None:
    image = tmp_path / "image"
    fine, coarse = voxels(shape=(2, 4, 8, 6)), voxels(shape=(2, 2, 4, 3))
    zarr2(image / "s0", fine)
    zarr2(image / "s1", coarse)
    (image / ".zgroup").write_text('{"zarr_format": 2}')
    axes = [{"name": "c", "type": "channel"}] + [
        {"name": a, "type": "space", "unit": "nanometer"} for a in "zyx"
    ]
    datasets = [
        {
            "path": f"s{k}",
            "coordinateTransformations": [
                {"type": "scale", "scale": [1, 2.0 * 2**k, 3.0 * 2**k, 4.0 * 2**k]},
                {"type": "translation", "translation": [0, k, k, k]},
            ],
        }
        for k in (0, 1)
    ]
    attributes = {
        "multiscales": [
            {
                "version": "0.4",
                "axes": axes,
                "datasets": datasets,
                "coordinateTransformations": [{"type": "scale", "scale": [1, 10, 10, 10]}],
            }
        ],
        "omero": {"channels": [{"label": "DAPI"}, {"label": "GFP"}]},
    }
    (image / ".zattrs").write_text(json.dumps(attributes))
    both = open_source(image)
    assert both.space.channels == ("DAPI", "GFP") and both.leading == (2,)
    np.testing.assert_array_equal(both.read(), fine)
    with pytest.raises(ValueError, match="DAPI, GFP"):
        open_source(image, index={"c": "Cy5"})
    source = open_source(image, index={"c": "GFP"})
    np.testing.assert_array_equal(source.read(), fine[1])
    assert source.space == Space(voxel_size=(20.0, 30.0, 40.0), unit="nanometer")
    for options in ({"level": 1}, {"dataset": "s1"}):
        source = open_source(image, index={"c": 0}, **options)
        np.testing.assert_array_equal(source.read(), coarse[0])
        assert source.space.voxel_size == (40.0, 60.0, 80.0)
        assert source.space.origin == (10.0, 10.0, 10.0)
    with pytest.raises(ValueError, match="levels 0 to 1"):
        open_source(image, index={"c": 0}, level=2)


def test_groups_and_datasets(tmp_path: Path) -> None:
    array = voxels()
    zarr2(tmp_path / "group" / "raw" / "em", array)
    (tmp_path / "group" / ".zgroup").write_text('{"zarr_format": 2}')
    with pytest.raises(ValueError, match="raw/em"):
        open_source(tmp_path / "group")
    with pytest.raises(ValueError, match="raw/em"):
        open_source(tmp_path / "group", dataset="em")
    source = open_source(tmp_path / "group", dataset="raw/em")
    np.testing.assert_array_equal(source.read(), array)
    with pytest.raises(ValueError, match="level"):
        open_source(tmp_path / "group" / "raw" / "em", level=0)


@pytest.mark.parametrize(
    ("dtype", "fill", "value"),
    [
        *(
            ("<u2", "7", 7),
            ("<u8", str(2**63 + 5), 2**63 + 5),
            ("|i1", False, 0),
            ("|b1", 0, False),
        ),
        *(("|b1", 1, True), ("<f4", "nan", np.nan), ("<f4", float("inf"), np.inf), ("<f4", 7, 7)),
    ],
)
def test_a_fill_value_of_another_type_is_what_zarr_python_takes_it_for(
    tmp_path: Path, dtype: str, fill: object, value: object
) -> None:
    zarr2(tmp_path / "a", np.zeros((2, 3, 4), dtype))
    metadata = json.loads((tmp_path / "a" / ".zarray").read_text())
    for file in (tmp_path / "a").rglob("*"):
        if file.is_file():
            file.unlink()
    (tmp_path / "a" / ".zarray").write_text(json.dumps({**metadata, "fill_value": fill}))
    source = open_source(tmp_path / "a")
    np.testing.assert_array_equal(source.read(), np.full((2, 3, 4), value, dtype))
    metadata["fill_value"] = "seven"
    (tmp_path / "a" / ".zarray").write_text(json.dumps(metadata))
    with pytest.raises(OSError, match="fill_value"):
        open_source(tmp_path / "a")


def test_several_images_of_a_group_are_chosen_by_name(tmp_path: Path) -> None:
    images = []
    for n in (1, 2):
        zarr2(tmp_path / "g" / f"image-{n}" / "s0", np.full((2, 3, 4), n, "u1"))
        zarr2(tmp_path / "g" / f"image-{n}" / "s1", np.full((1, 2, 2), 10 * n, "u1"))
        axes = [{"name": a, "type": "space"} for a in "zyx"]
        levels = [
            {
                "path": f"image-{n}/s{k}",
                "coordinateTransformations": [{"type": "scale", "scale": [1, 1, 1]}],
            }
            for k in (0, 1)
        ]
        images.append({"version": "0.4", "name": f"image-{n}", "axes": axes, "datasets": levels})
    (tmp_path / "g" / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "g" / ".zattrs").write_text(json.dumps({"multiscales": images}))
    for chosen, value in (
        ({"dataset": "image-2"}, 2),
        ({"dataset": "image-2", "level": 1}, 20),
        ({"dataset": "1"}, 2),
        ({"dataset": "image-1/s1"}, 10),
    ):
        assert open_source(tmp_path / "g", **chosen).read().max() == value
    for wrong in ({}, {"dataset": "image-3"}):
        with pytest.raises(ValueError, match="there are image-1, image-2"):
            open_source(tmp_path / "g", **wrong)


def test_chunks_in_folders_are_found_where_metadata_do_not_say_so(tmp_path: Path) -> None:
    array = voxels()
    metadata = {"chunks": [5, 6, 7], "dimension_separator": "/"}
    spec = {"driver": "zarr", "kvstore": f"file://{tmp_path}/a/", "metadata": metadata}
    ts.open(spec, create=True, dtype=array.dtype, shape=array.shape).result()[...] = array
    file = tmp_path / "a" / ".zarray"
    said = json.loads(file.read_text())
    del said["dimension_separator"]
    file.write_text(json.dumps(said))
    np.testing.assert_array_equal(open_source(tmp_path / "a").read(), array)


@pytest.mark.parametrize(
    ("options", "shard"),
    [
        ({"name": "a.zarr"}, (16, 2048, 2048)),
        ({"name": "a.ome.zarr"}, (16, 2048, 2048)),
        ({"name": "a.precomputed"}, (128, 512, 1024)),
        ({"name": "a.zarr", "shards": None}, None),
        ({"name": "a.zarr", "shards": False}, None),
        ({"name": "a.precomputed", "shards": None}, None),
        ({"name": "a.zarr", "zarr_version": 2}, None),
        ({"name": "a.n5"}, None),
    ],
)
def test_more_than_ten_million_chunks_are_put_into_shards(options, shard):
    name, *_ = options.values()
    how = {"dtype": "u1", "chunks": (16, 64, 64), **options}
    del how["name"]
    assert make_sink(name, shape=MANY, **how).shard is None
    assert make_sink(name, shape=(MANY[0] + 1, *MANY[1:]), **how).shard == shard
    assert make_sink(name, shape=(64, 64, 64), **how).shard is None
